// What a warp multiplies of a tile of float64, and what it keeps: slabs in registers, read some instructions ahead, and
// its part of C.
#pragma once
#include "dmma_tiles.cuh"

constexpr int WARPS_N = BLOCK_N / WARP_N, THREADS = BLOCK_M / WARP_M * WARPS_N * 32;
constexpr int SLABS_M = WARP_M / SQUARE, SLABS_N = WARP_N / SQUARE, STEPS = BLOCK_K / STEP;
constexpr int ITEMS = STEPS * SLABS_M;         // of a tile: each slab of A at each step
constexpr int SETS_OF_A = AHEAD == 1 ? 2 : 4;  // of registers, for its slabs: as few as divide the items
constexpr int BLOCKS =
    blocks_per_multiprocessor(THREADS, SLABS_M * SLABS_N * 8, SLABS_N * 4 * SLOTS + SETS_OF_A * 2 * SLOTS);
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "the block's tile is a whole number of warp tiles");
static_assert(WARP_M % SQUARE == 0 && WARP_N % SQUARE == 0, "a warp's tile is a whole number of 16×16 squares");
static_assert(BLOCK_K % STEP == 0, "the tile's depth is a whole number of instructions");
static_assert(STEPS % 2 == 0 && ITEMS % SETS_OF_A == 0, "slabs take turns in sets of registers");
static_assert(AHEAD >= 1 && AHEAD <= SLABS_M, "what is read ahead is of this step or the next");

using LayoutA = Layout<BLOCK_M, A_ALONG_K>;
using LayoutB = Layout<BLOCK_N, B_ALONG_K>;

// How many slabs of its operands a warp has any rows or columns of; of A none where it has no part of C.
struct Slabs {
    int of_a, of_b;

    // `rows` and `columns` of C are left from where the warp's part begins.
    __device__ __forceinline__ Slabs(int rows, int columns)
        : of_a(columns > 0 ? lesser(SLABS_M, (rows + SQUARE - 1) / SQUARE) : 0),
          of_b(lesser(SLABS_N, (columns + SQUARE - 1) / SQUARE)) {}
    __device__ __forceinline__ bool are_all() const { return of_a == SLABS_M && of_b == SLABS_N; }
};

// A warp's part of C, and the slabs that it multiplies: the present ones, and those to come.
struct WarpProduct {
    SquareSums sums[SLABS_M][SLABS_N];
    Slab of_a[SETS_OF_A], of_b[2][SLABS_N];
    int place_a, place_b;  // of what its lane reads first, within a pair of tiles

    __device__ __forceinline__ WarpProduct(int row, int column)
        : place_a(kept(LayoutA::place_of_lane(row))),
          place_b(kept(LayoutA::ELEMENTS + LayoutB::place_of_lane(column))) {}

    // Reads the slab of A of an item, and where a step begins with it, all slabs of B. The items after a tile's last
    // are the first of the next tile.
    template <bool ALL>
    __device__ __forceinline__ void read(const double* pair, int item, Slabs there) {
        const int depth = item % ITEMS / SLABS_M * STEP;
        if (item % SLABS_M == 0 && (ALL || there.of_a > 0))
#pragma unroll
            for (int j = 0; j < SLABS_N; ++j)
                LayoutB::read(of_b[item / SLABS_M % 2][j], pair + place_b, j * SQUARE, depth);
        if (ALL || item % SLABS_M < there.of_a)
            LayoutA::read(of_a[item % SETS_OF_A], pair + place_a, item % SLABS_M * SQUARE, depth);
    }

    // The item's slab of A by one of B.
    template <bool ALL>
    __device__ __forceinline__ void multiply(int item, int j, Slabs there) {
        if (!ALL && (item % SLABS_M >= there.of_a || j >= there.of_b)) return;
        const Slab &a = of_a[item % SETS_OF_A], &b = of_b[item / SLABS_M % 2][j];
        add_product(sums[item % SLABS_M][j], TRANSPOSED ? b : a, TRANSPOSED ? a : b);
    }

    // `corner` is where the warp's tile of C begins; `rows`×`columns` elements from there lie in C.
    __device__ __forceinline__ void write(double* corner, Index ldc, int rows, int columns, bool aligned) const {
        constexpr int ROWS = TRANSPOSED ? 4 : 2, COLUMNS = TRANSPOSED ? 2 : 4;  // of the lane in each square
        const int by_four = threadIdx.x % 4, by_eight = threadIdx.x % 32 / 4;
        const int first_row = (TRANSPOSED ? by_four : by_eight) * ROWS;
        const int first_column = (TRANSPOSED ? by_eight : by_four) * COLUMNS;
#pragma unroll
        for (int i = 0; i < SLABS_M * ROWS; ++i) {
            const int its_row = i / ROWS * SQUARE + first_row + i % ROWS;
            if (its_row >= rows) continue;
#pragma unroll
            for (int j = 0; j < SLABS_N * COLUMNS; j += 2) {
                const int its_column = j / COLUMNS * SQUARE + first_column + j % COLUMNS;
                const SquareSums& square = sums[i / ROWS][j / COLUMNS];
                const double run[2] = {square.of(i % ROWS, j % COLUMNS), square.of(i % ROWS, j % COLUMNS + 1)};
                write_run<2>(corner + its_row * ldc + its_column, run, columns - its_column, aligned);
            }
        }
    }
};
