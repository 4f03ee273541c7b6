// A block's tiles of float64 on their way through stages of shared memory, and the loop that multiplies them.
#pragma once
#include "dmma_warp.cuh"

static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");

constexpr int PAIR = LayoutA::ELEMENTS + LayoutB::ELEMENTS;  // of a stage: one tile of A and one of B

// Where the stage after this one begins, in their ring.
__device__ __forceinline__ int next_stage(int stage) { return stage == (STAGES - 1) * PAIR ? 0 : stage + PAIR; }

// Both operands' couriers. What they copy while a tile is multiplied is dealt out evenly among PARTS of that.
template <typename OfA, typename OfB>
struct Couriers {
    static constexpr int SHARES = OfA::SHARES + OfB::SHARES, PARTS = (ITEMS - AHEAD) * SLABS_N;
    OfA a;
    OfB b;

    __device__ __forceinline__ void copy(bool asked, double* pair, int part) {
#pragma unroll
        for (int share = SHARES * part / PARTS; share < SHARES * (part + 1) / PARTS; ++share)
            if (share < OfA::SHARES)
                a.copy(asked, pair, share);
            else
                b.copy(asked, pair + LayoutA::ELEMENTS, share - OfA::SHARES);
    }

    // Puts the first tiles on their way. Groups of copies count tiles, so there is one for each, were it past the last.
    __device__ __forceinline__ void begin(double* tiles, int count, Index k, Index lda, Index ldb) {
        const Index before = (count - 1) * static_cast<Index>(BLOCK_K);
        if (count > 0) {
            a.copy_last(tiles, A_ALONG_K ? before : before * lda, static_cast<int>(k - before));
            b.copy_last(tiles + LayoutA::ELEMENTS, B_ALONG_K ? before : before * ldb, static_cast<int>(k - before));
        }
        commit_copies();
        int stage = 0;
#pragma unroll 1
        for (int tile = 1; tile < STAGES - 1; ++tile) {
            stage = next_stage(stage);
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                copy(tile < count, tiles + stage, part);
            commit_copies();
        }
    }

    // Goes on from where `begin` of others like these came to.
    __device__ __forceinline__ void skip_first() {
        a.skip(STAGES - 2);
        b.skip(STAGES - 2);
    }
};

// All of the block's warps meet, whichever form of the loop below each is in: __syncthreads() is for one place of the
// code.
__device__ __forceinline__ void meet_block() {
#ifdef EMULATED
    __syncthreads();
#else
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
#endif
}

// Multiplies one product, `count` tiles of k. A warp leaves out slabs that lie outside C. Between the barrier and the
// end of a tile, what is left to be multiplied of it has been read already: the first slabs of the next one come in the
// meantime.
template <bool ALL, typename Copying>
__device__ __forceinline__ void multiply_tiles(WarpProduct& warp, Slabs there, Copying& couriers, double* tiles,
                                               int count) {
    int reading = 0, vacant = (STAGES - 1) * PAIR;  // where stages begin
    wait_copies<STAGES - 2>();
    meet_block();
#pragma unroll
    for (int item = 0; item < AHEAD; ++item)
        warp.template read<ALL>(tiles, item, there);
    for (int left = count; left > 0; --left) {
        const bool more = left >= STAGES;
        const int present = reading;
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (item == ITEMS - AHEAD) {
                reading = next_stage(present);
                commit_copies();
                wait_copies<STAGES - 2>();
                meet_block();  // the next tile is there for all, and none reads the present one any more
                vacant = present;
            }
            warp.template read<ALL>(tiles + reading, item + AHEAD, there);  // garbage past the last tile
#pragma unroll
            for (int j = 0; j < SLABS_N; ++j) {
                if (item < ITEMS - AHEAD) couriers.copy(more, tiles + vacant, item * SLABS_N + j);
                warp.template multiply<ALL>(item, j, there);
            }
        }
    }
    wait_copies<0>();
    meet_block();  // the next product begins with all stages vacant
}

// A block's part of C, and its warp's. It is asked for anew where it is needed: sums and slabs leave no registers to
// keep it in.
struct Part {
    Index row, column;          // of C, where the tile begins
    int rows, columns;          // of it, that lie in C
    int warp_row, warp_column;  // of it, where the warp's part begins

    __device__ __forceinline__ Part(int down, int across, Index m, Index n)
        : row(kept(down) * static_cast<Index>(BLOCK_M)),
          column(kept(across) * static_cast<Index>(BLOCK_N)),
          rows(within(BLOCK_M, m - row)),
          columns(within(BLOCK_N, n - column)),
          warp_row(kept(threadIdx.x / 32) / WARPS_N * WARP_M),
          warp_column(kept(threadIdx.x / 32) % WARPS_N * WARP_N) {}

    __device__ __forceinline__ static int within(int side, Index left) {
        return left < side ? static_cast<int>(left) : side;
    }
    __device__ __forceinline__ bool whole() const { return rows == BLOCK_M && columns == BLOCK_N; }
};

// What a block multiplies for its part: tiles of the operands from these corners on, over so many steps.
struct Operands {
    const double *corner_a, *corner_b;
    Index k, lda, ldb;

    __device__ __forceinline__ int tiles() const { return static_cast<int>((k + BLOCK_K - 1) / BLOCK_K); }
};

// How a part's operands are copied: COUNT elements at a time, with guards or without.
template <int COUNT, bool GUARDED>
struct Way {
    using OfA = Courier<BLOCK_M, A_ALONG_K, COUNT, GUARDED, THREADS>;
    using OfB = Courier<BLOCK_N, B_ALONG_K, COUNT, GUARDED, THREADS>;
    using Both = Couriers<OfA, OfB>;

    __device__ __forceinline__ static Both couriers(const Part& part, const Operands& of) {
        return {OfA(of.corner_a, of.lda, part.rows), OfB(of.corner_b, of.ldb, part.columns)};
    }
    __device__ __forceinline__ static void begin(Both& couriers, const Operands& of, double* tiles) {
        couriers.begin(tiles, of.tiles(), of.k, of.lda, of.ldb);
    }
    __device__ __forceinline__ static void multiply(WarpProduct& warp, Both& couriers, const Part& part, int count,
                                                    double* tiles) {
        const Slabs there(part.rows - part.warp_row, part.columns - part.warp_column);
        if (!GUARDED || there.are_all())
            multiply_tiles<true>(warp, there, couriers, tiles, count);
        else
            multiply_tiles<false>(warp, there, couriers, tiles, count);
    }
};

// Calls `work` with the Way of a part. Work is a struct rather than a lambda: NVRTC 13.0 takes a generic one for a
// function of the host.
template <typename Work>
__device__ __forceinline__ void in_its_way(bool aligned, bool whole, const Work& work) {
    if (aligned && whole)
        work(Way<2, false>());
    else if (aligned)
        work(Way<2, true>());
    else if (whole)
        work(Way<1, false>());
    else
        work(Way<1, true>());
}
