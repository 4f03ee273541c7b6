// Tensor cores for float64: each warp multiplies slabs of 16 rows by slabs of 16 columns, out of tiles that
// asynchronous copies bring into shared memory.
//
// An operand of float64 is copied in pieces of 16 bytes where its rows begin at multiples of that, and of 8 where they
// do not: rows of any pitch go the same way, past all registers. What lies outside is written as zeros by the copy.
#include "async.cuh"
#include "dmma.cuh"
#include "tiles.cuh"

constexpr int WARPS_N = BLOCK_N / WARP_N, THREADS = BLOCK_M / WARP_M * WARPS_N * 32;
constexpr int SLABS_M = WARP_M / SQUARE, SLABS_N = WARP_N / SQUARE, STEPS = BLOCK_K / STEP;
constexpr int ITEMS = STEPS * SLABS_M;  // of a tile: each slab of A at each step
constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, SLABS_M * SLABS_N * 8, SLABS_N * 4 * SLOTS + 4 * SLOTS);
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "the block's tile is a whole number of warp tiles");
static_assert(WARP_M % SQUARE == 0 && WARP_N % SQUARE == 0, "a warp's tile is a whole number of 16×16 squares");
static_assert(BLOCK_K % STEP == 0, "the tile's depth is a whole number of instructions");
static_assert(STEPS % 2 == 0, "slabs take turns in two sets of registers");
static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");

// How a tile of one operand lies in shared memory: as in the operand, line by line. Padding keeps what lanes read
// together in different banks. Runs of 16 bytes are read by eight lanes: of lines along k four runs each of two lines,
// one left out between them, which so are 64 bytes apart; of lines across k two runs each of four, 32 bytes apart.
// Single elements along k are read by sixteen lanes, four next to each other of four lines, 32 bytes apart.
template <int OUTER, bool ALONG_K>
struct Layout {
    static constexpr int LINE = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;
    static constexpr int ROW = LINE + (ALONG_K && STEPS_IN_PAIRS ? 4 : 2);
    static constexpr int ELEMENTS = LINES * ROW;
    static_assert(LINE % 16 == 0, "lines begin in the same bank, but for the padding");

    // The lane's part of the slab that begins `outer` rows or columns into the tile, at `depth`.
    __device__ __forceinline__ static void read(Slab& slab, const double* tile, int outer, int depth) {
        const int row = outer + threadIdx.x % 32 / 4 * 2;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot += STEPS_IN_PAIRS ? 2 : 1) {
            const int step = depth + step_of(slot);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                double run[2];
                if (!STEPS_IN_PAIRS) {
                    slab.at[i][slot] = tile[(row + i) * ROW + step];
                } else if (ALONG_K) {
                    read_run<2>(run, tile + (row + i) * ROW + step);
                    slab.at[i][slot] = run[0];
                    slab.at[i][slot + 1] = run[1];
                } else {
                    read_run<2>(run, tile + (step + i) * ROW + row);
                    slab.at[0][slot + i] = run[0];
                    slab.at[1][slot + i] = run[1];
                }
            }
        }
    }
};

using LayoutA = Layout<BLOCK_M, A_ALONG_K>;
using LayoutB = Layout<BLOCK_N, B_ALONG_K>;
constexpr int PAIR = LayoutA::ELEMENTS + LayoutB::ELEMENTS;  // of one tile of A and one of B

// Copies tiles of one operand, one BLOCK_K after the other, COUNT elements at a time. `corner` is where the block's
// rows (of A) or columns (of B) begin; `outers` of them lie in the operand.
template <int OUTER, bool ALONG_K, int COUNT>
struct Courier {
    using Tile = Layout<OUTER, ALONG_K>;
    static constexpr int ACROSS = Tile::LINE / COUNT, DOWN = THREADS / ACROSS;
    static_assert(THREADS % ACROSS == 0, "each thread copies runs of the same place in their lines");
    static_assert(Tile::LINES % DOWN == 0, "each thread copies as many runs as every other");

    const double* from;  // this thread's first run of the next tile
    Index ld;
    int outers;
    int line, first;  // of that run within the tile

    __device__ __forceinline__ Courier(const double* corner, Index ld, Index outers)
        : from(corner + threadIdx.x / ACROSS * ld + threadIdx.x % ACROSS * COUNT),
          ld(ld),
          outers(outers < OUTER ? static_cast<int>(outers) : OUTER),
          line(threadIdx.x / ACROSS),
          first(threadIdx.x % ACROSS * COUNT) {}

    // Starts to copy the next tile, of whose steps `depths` lie in the operand. What lies outside becomes zero: 0
    // against an infinity of the other operand would make a NaN.
    __device__ __forceinline__ void copy(double* tile, Index depths) {
        const int depth = depths < BLOCK_K ? static_cast<int>(depths) : BLOCK_K;
        const int lines = ALONG_K ? outers : depth, length = ALONG_K ? depth : outers;
        const int left = lesser(COUNT, length - first > 0 ? length - first : 0);  // elements of this thread's runs
        double* const to = tile + line * Tile::ROW + first;
        const double* run = from;
#pragma unroll
        for (int share = 0; share < Tile::LINES / DOWN; ++share) {
            const int taken = line + share * DOWN < lines ? left : 0;
            copy_part_async<COUNT * sizeof(double)>(to + share * DOWN * Tile::ROW, run, taken * sizeof(double));
            run += DOWN * ld;
        }
        from += ALONG_K ? BLOCK_K : BLOCK_K * ld;
    }
};

// A warp's part of C, and the slabs that it multiplies: the present ones, and the next.
struct WarpProduct {
    SquareSums sums[SLABS_M][SLABS_N];
    Slab of_a[2], of_b[2][SLABS_N];
    int row, column;  // of the warp's tile within the block's

    // Reads the slab of A of an item, and where a step begins with it, all slabs of B. The item after a tile's last is
    // the first of the next tile.
    __device__ __forceinline__ void read(const double* pair, int item) {
        const int depth = item % ITEMS / SLABS_M * STEP;
        if (item % SLABS_M == 0)
#pragma unroll
            for (int j = 0; j < SLABS_N; ++j)
                LayoutB::read(of_b[item / SLABS_M % 2][j], pair + LayoutA::ELEMENTS, column + j * SQUARE, depth);
        LayoutA::read(of_a[item % 2], pair, row + item % SLABS_M * SQUARE, depth);
    }

    __device__ __forceinline__ void multiply(int item) {
        const Slab& a = of_a[item % 2];
#pragma unroll
        for (int j = 0; j < SLABS_N; ++j) {
            const Slab& b = of_b[item / SLABS_M % 2][j];
            add_product(sums[item % SLABS_M][j], TURNED ? b : a, TURNED ? a : b);
        }
    }

    // `corner` is where the warp's tile of C begins; `rows`×`columns` elements from there lie in C.
    __device__ __forceinline__ void write(double* corner, Index ldc, Index rows, Index columns, bool aligned) const {
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

__device__ __forceinline__ double* next_stage(double* stage, double* tiles) {
    return stage == tiles + (STAGES - 1) * PAIR ? tiles : stage + PAIR;
}

// Multiplies one product of the batch. A warp whose tile lies outside C only copies.
template <typename CourierA, typename CourierB>
__device__ __forceinline__ void multiply_tiles(WarpProduct& warp, CourierA courier_a, CourierB courier_b, double* tiles,
                                               Index k, bool works) {
    double *present = tiles, *vacant = tiles;
    // Groups of copies count tiles, so there is one for each tile, were it past the end of k.
    auto copy_next = [&](Index ahead) {
        if (ahead < k) {
            courier_a.copy(vacant, k - ahead);
            courier_b.copy(vacant + LayoutA::ELEMENTS, k - ahead);
        }
        commit_copies();
        vacant = next_stage(vacant, tiles);
    };
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage)
        copy_next(stage * BLOCK_K);
    wait_copies<STAGES - 2>();
    __syncthreads();
    if (works) warp.read(present, 0);
    for (Index depth = 0; depth < k; depth += BLOCK_K) {
        copy_next(depth + (STAGES - 1) * BLOCK_K);
        if (works) {
#pragma unroll
            for (int item = 0; item < ITEMS - 1; ++item) {
                warp.read(present, item + 1);
                warp.multiply(item);
            }
        }
        present = next_stage(present, tiles);
        wait_copies<STAGES - 2>();
        __syncthreads();  // the next tile is there for all, and none reads the present one any more
        if (works) {
            warp.read(present, ITEMS);  // garbage where there is none
            warp.multiply(ITEMS - 1);
        }
    }
    wait_copies<0>();
    __syncthreads();  // the next product of the batch begins with all stages vacant
}

// Blocks next to each other take tiles of eight rows of tiles, column by column: they share more than those of a row.
__device__ __forceinline__ Tile tile_in_groups(Index m, Index n) {
    constexpr int ROWS = 8;
    const Index down = (m + BLOCK_M - 1) / BLOCK_M, across = (n + BLOCK_N - 1) / BLOCK_N, block = blockIdx.x;
    const Index first = block / (ROWS * across) * ROWS, within = block % (ROWS * across);
    const Index rows = down - first < ROWS ? down - first : ROWS;
    return {(first + within % rows) * BLOCK_M, within / rows * BLOCK_N};
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tensor_fp64(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
                Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    DYNAMIC_SHARED(shared);
    double* const tiles = reinterpret_cast<double*>(shared);
    const Tile tile = tile_in_groups(m, n);
    const int id = threadIdx.x / 32, warp_row = id / WARPS_N * WARP_M, warp_column = id % WARPS_N * WARP_N;
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool works = warp_row < rows && warp_column < columns;
    const bool aligned = is_aligned<2>(a, lda, stride_a) && is_aligned<2>(b, ldb, stride_b);
    const bool aligned_c = is_aligned<2>(c, ldc, stride_c);

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const double* const corner_a = a + item * stride_a + tile.row * row_step_a(lda);
        const double* const corner_b = b + item * stride_b + tile.column * column_step_b(ldb);
        WarpProduct warp;
        warp.row = warp_row;
        warp.column = warp_column;
        if (aligned)
            multiply_tiles(warp, Courier<BLOCK_M, A_ALONG_K, 2>(corner_a, lda, rows),
                           Courier<BLOCK_N, B_ALONG_K, 2>(corner_b, ldb, columns), tiles, k, works);
        else
            multiply_tiles(warp, Courier<BLOCK_M, A_ALONG_K, 1>(corner_a, lda, rows),
                           Courier<BLOCK_N, B_ALONG_K, 1>(corner_b, ldb, columns), tiles, k, works);
        double* const corner = c + item * stride_c + (tile.row + warp_row) * ldc + tile.column + warp_column;
        warp.write(corner, ldc, rows - warp_row, columns - warp_column, aligned_c);
    }
}
