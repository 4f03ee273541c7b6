// How a block's tile of C is cut into warp tiles, and those into thread tiles, for kernels with BLOCK_, WARP_ and
// THREAD_ sizes. A thread's tile is cut once more, into groups as wide as a 16-byte run, spaced over the warp's tile:
// so the lanes of a warp read runs that lie together.
#pragma once
#include "tiles.cuh"

constexpr int WARPS_M = BLOCK_M / WARP_M, WARPS_N = BLOCK_N / WARP_N, THREADS = WARPS_M * WARPS_N * 32;
constexpr int LANES_M = WARP_M / THREAD_M, LANES_N = WARP_N / THREAD_N;
constexpr int GROUPS_M = THREAD_M / GROUP, GROUPS_N = THREAD_N / GROUP;
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "the block's tile is a whole number of warp tiles");
static_assert(WARP_M % THREAD_M == 0 && WARP_N % THREAD_N == 0, "a warp's tile is a whole number of thread tiles");
static_assert(LANES_M * LANES_N == 32, "a warp's tile is shared out among 32 lanes");
static_assert(LANES_M % 2 == 0, "lanes are numbered in pairs down the rows");
static_assert(THREAD_M % GROUP == 0 && THREAD_N % GROUP == 0, "a thread's tile is a whole number of 16-byte groups");
static_assert(THREADS <= 1024, "a block is at most 32 warps");

// What a thread needs to know of its place.
struct ThreadTile {
    int row, column;  // of its first group in the block's tile

    // Two lanes down, then across: eight lanes next to each other, which the hardware serves together, read two runs of
    // A and four of B, as few as there can be.
    __device__ __forceinline__ explicit ThreadTile(int thread) {
        const int warp = thread / 32, lane = thread % 32;
        row = warp / WARPS_N * WARP_M + (lane / (2 * LANES_N) * 2 + lane % 2) * GROUP;
        column = warp % WARPS_N * WARP_N + lane / 2 % LANES_N * GROUP;
    }

    __device__ __forceinline__ int row_of(int i) const { return row + i / GROUP * (LANES_M * GROUP) + i % GROUP; }
    __device__ __forceinline__ int column_of(int group) const { return column + group * (LANES_N * GROUP); }
};

// One step of k of a thread: its rows of A and columns of B.
struct Fragments {
    Accumulator of_a[THREAD_M], of_b[THREAD_N];

    // From one row of each tile in shared memory.
    __device__ __forceinline__ void read(const Accumulator* row_a, const Accumulator* row_b, const ThreadTile& place) {
#pragma unroll
        for (int group = 0; group < GROUPS_M; ++group)
            read_run<GROUP>(of_a + group * GROUP, row_a + place.row_of(group * GROUP));
#pragma unroll
        for (int group = 0; group < GROUPS_N; ++group)
            read_run<GROUP>(of_b + group * GROUP, row_b + place.column_of(group));
    }
};

// A thread's part of C.
struct Sums {
    Accumulator at[THREAD_M][THREAD_N] = {};

    __device__ __forceinline__ void add(const Fragments& step) { add_outer_product(at, step.of_a, step.of_b); }

    // `corner` is where the block's tile of C begins; `rows`×`columns` elements from there lie in C.
    __device__ __forceinline__ void write(Product* corner, Index ldc, Index rows, Index columns,
                                          const ThreadTile& place, bool aligned) const {
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            if (place.row_of(i) >= rows) continue;
            Product* const row = corner + place.row_of(i) * ldc;
#pragma unroll
            for (int group = 0; group < GROUPS_N; ++group) {
                const int column = place.column_of(group);
                write_run<GROUP>(row + column, at[i] + group * GROUP, columns - column, aligned);
            }
        }
    }
};
