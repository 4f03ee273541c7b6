// Tensor cores for float64: each warp multiplies slabs of 16 rows by slabs of 16 columns, out of tiles that
// asynchronous copies bring into shared memory.
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
static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");

using LayoutA = Layout<BLOCK_M, A_ALONG_K>;
using LayoutB = Layout<BLOCK_N, B_ALONG_K>;
constexpr int PAIR = LayoutA::ELEMENTS + LayoutB::ELEMENTS;  // of one tile of A and one of B

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
        add_product(sums[item % SLABS_M][j], TURNED ? b : a, TURNED ? a : b);
    }

    // `corner` is where the warp's tile of C begins; `rows`×`columns` elements from there lie in C.
    __device__ __forceinline__ void write(double* corner, Index ldc, int rows, int columns, bool aligned) const {
        constexpr int ROWS = TURNED ? 4 : 2, COLUMNS = TURNED ? 2 : 4;  // of the lane in each square
        const int by_four = threadIdx.x % 4, by_eight = threadIdx.x % 32 / 4;
        const int first_row = (TURNED ? by_four : by_eight) * ROWS;
        const int first_column = (TURNED ? by_eight : by_four) * COLUMNS;
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
#pragma unroll 1
        for (int stage = 1; stage < STAGES - 1; ++stage) {
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                copy(stage < count, tiles + stage * PAIR, part);
            commit_copies();
        }
    }
};

// Multiplies one product of the batch, `count` tiles of k. A warp leaves out slabs that lie outside C. Between the
// barrier and the end of a tile, what is left to be multiplied of it has been read already: the first slabs of the next
// one come in the meantime.
template <bool ALL, typename Copying>
__device__ __forceinline__ void multiply_tiles(WarpProduct& warp, Slabs there, Copying& couriers, double* tiles,
                                               int count) {
    int present = 0, vacant = (STAGES - 1) * PAIR;
    wait_copies<STAGES - 2>();
    __syncthreads();
#pragma unroll
    for (int item = 0; item < AHEAD; ++item)
        warp.template read<ALL>(tiles, item, there);
    for (int left = count; left > 0; --left) {
        const bool more = left >= STAGES;
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (item == ITEMS - AHEAD) {
                commit_copies();
                wait_copies<STAGES - 2>();
                __syncthreads();  // the next tile is there for all, and none reads the present one any more
                vacant = present;
                present = present == (STAGES - 1) * PAIR ? 0 : present + PAIR;
            }
            warp.template read<ALL>(tiles + present, item + AHEAD, there);  // garbage past the last tile
#pragma unroll
            for (int j = 0; j < SLABS_N; ++j) {
                if (item < ITEMS - AHEAD) couriers.copy(more, tiles + vacant, item * SLABS_N + j);
                warp.template multiply<ALL>(item, j, there);
            }
        }
    }
    wait_copies<0>();
    __syncthreads();  // the next product of the batch begins with all stages vacant
}

// The block's part of C, and its warp's. It is asked for anew where it is needed: sums and slabs leave no registers to
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

// Multiplies one product of the batch: `corner_a` and `corner_b` are where the block's tiles of the operands begin.
template <int COUNT, bool GUARDED>
__device__ __forceinline__ void multiply(WarpProduct& warp, const Part& part, const double* corner_a,
                                         const double* corner_b, double* tiles, Index k, Index lda, Index ldb) {
    using OfA = Courier<BLOCK_M, A_ALONG_K, COUNT, GUARDED, THREADS>;
    using OfB = Courier<BLOCK_N, B_ALONG_K, COUNT, GUARDED, THREADS>;
    const int count = static_cast<int>((k + BLOCK_K - 1) / BLOCK_K);
    Couriers<OfA, OfB> couriers = {OfA(corner_a, lda, part.rows), OfB(corner_b, ldb, part.columns)};
    couriers.begin(tiles, count, k, lda, ldb);
    const Slabs there(part.rows - part.warp_row, part.columns - part.warp_column);
    if (!GUARDED || there.are_all())
        multiply_tiles<true>(warp, there, couriers, tiles, count);
    else
        multiply_tiles<false>(warp, there, couriers, tiles, count);
}

// Blocks next to each other take tiles of eight rows of tiles, column by column: they share more than those of a row.
struct TileNumber {
    int down, across;

    __device__ __forceinline__ TileNumber(Index m, Index n) {
        constexpr int ROWS = 8;
        const Index tiles_down = (m + BLOCK_M - 1) / BLOCK_M, tiles_across = (n + BLOCK_N - 1) / BLOCK_N;
        const Index first = blockIdx.x / (ROWS * tiles_across) * ROWS, within = blockIdx.x % (ROWS * tiles_across);
        const Index rows = tiles_down - first < ROWS ? tiles_down - first : ROWS;
        down = static_cast<int>(first + within % rows);
        across = static_cast<int>(within / rows);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tensor_fp64(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
                Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    DYNAMIC_SHARED(shared);
    double* const tiles = reinterpret_cast<double*>(shared);
    const TileNumber tile(m, n);
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Part part(tile.down, tile.across, m, n);
        const double* const corner_a = a + item * stride_a + part.row * row_step_a(lda);
        const double* const corner_b = b + item * stride_b + part.column * column_step_b(ldb);
        const bool aligned = is_aligned<2>(a, lda, stride_a) && is_aligned<2>(b, ldb, stride_b);
        WarpProduct warp(part.warp_row, part.warp_column);
        if (aligned && part.whole())
            multiply<2, false>(warp, part, corner_a, corner_b, tiles, k, lda, ldb);
        else if (aligned)
            multiply<2, true>(warp, part, corner_a, corner_b, tiles, k, lda, ldb);
        else if (part.whole())
            multiply<1, false>(warp, part, corner_a, corner_b, tiles, k, lda, ldb);
        else
            multiply<1, true>(warp, part, corner_a, corner_b, tiles, k, lda, ldb);
        const Part again(tile.down, tile.across, m, n);
        const int row = again.warp_row, column = again.warp_column;
        double* const corner = c + item * stride_c + (again.row + row) * ldc + again.column + column;
        warp.write(corner, ldc, again.rows - row, again.columns - column, is_aligned<2>(c, ldc, stride_c));
    }
}
