// Each thread keeps THREAD_M rows of one column of C in registers.
//
// A block computes a BLOCK_M×BLOCK_N tile of C with a thread for every THREAD_M elements; along k its tiles are only
// BLOCK_K deep, so that few threads fill them in a few loads. An element of B, once read from shared memory, serves
// THREAD_M multiply-adds. Those of A are the same for all threads of a warp, one address for all, and lie together for
// the rows of a thread, so that the compiler makes one read of four of them.
#include "common.cuh"

constexpr int THREADS = BLOCK_M / THREAD_M * BLOCK_N;
static_assert(BLOCK_M % THREAD_M == 0, "the block's tile is a whole number of THREAD_M rows");
static_assert(BLOCK_N % 32 == 0, "the threads of a warp share their rows, and so read the same elements of A");
static_assert(THREADS <= 1024, "a block has at most 1024 threads, one for THREAD_M elements of its tile");
static_assert(BLOCK_M * BLOCK_K % THREADS == 0 && BLOCK_N * BLOCK_K % THREADS == 0,
              "each thread stages as many elements as every other");

constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, THREAD_M, THREAD_M);

// Tiles in shared memory are BLOCK_K rows, one for each step of k. Where an operand is stored along k, neighbouring
// threads write down a column: rows longer by 16 bytes put their words into different banks (at BLOCK_K=16 two into
// each), and every row still begins where four elements can be read at once.
constexpr int PADDING = 16 / sizeof(Accumulator);
constexpr int ROW_A = BLOCK_M + PADDING, ROW_B = BLOCK_N + PADDING;

// Brings OUTER rows of A, or columns of B, over BLOCK_K steps of k. A thread keeps its place in every line, LENGTH
// elements that lie together in memory, and takes every LINES-th of them.
template <int OUTER, int ROW, bool ALONG_K>
struct Stage {
    static constexpr int LENGTH = ALONG_K ? BLOCK_K : OUTER;
    static constexpr int LINES = THREADS / LENGTH;
    static_assert(THREADS % LENGTH == 0, "the block's threads are a whole number of a tile's lines");

    static __device__ __forceinline__ int thread() { return threadIdx.y * BLOCK_N + threadIdx.x; }

    // The thread's first element of the tile that begins at `corner`.
    static __device__ __forceinline__ const Element* first(const Element* corner, Index ld) {
        return corner + thread() / LENGTH * ld + thread() % LENGTH;
    }

    // `from` is that element; `outers` and `depths` say how much of the tile lies in the operand.
    template <bool GUARDED>
    static __device__ __forceinline__ void fill(Accumulator* tile, const Element* from, Index ld, int outers,
                                                Index depths) {
#pragma unroll
        for (int share = 0; share < OUTER * BLOCK_K / THREADS; ++share) {
            const int line = thread() / LENGTH + share * LINES, place = thread() % LENGTH;
            const int outer = ALONG_K ? line : place, depth = ALONG_K ? place : line;
            // What lies outside is zero in A and in B alike: 0 against an infinity would make a NaN.
            const bool inside = !GUARDED || (outer < outers && depth < depths);
            tile[depth * ROW + outer] = inside ? widen(*from) : Accumulator(0);
            from += LINES * ld;
        }
    }
};
using StageA = Stage<BLOCK_M, ROW_A, !TRANSPOSE_A>;
using StageB = Stage<BLOCK_N, ROW_B, TRANSPOSE_B>;

__device__ __forceinline__ void multiply(const Accumulator* tile_a, const Accumulator* tile_b,
                                         Accumulator (&sums)[THREAD_M]) {
#pragma unroll(THREAD_M < 16 ? 4 : 2)  // what is read in advance must find registers
    for (int depth = 0; depth < BLOCK_K; ++depth) {
        const Accumulator from_b = tile_b[depth * ROW_B + threadIdx.x];
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i)
            sums[i] = multiply_add(tile_a[depth * ROW_A + threadIdx.y * THREAD_M + i], from_b, sums[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    register_tiled_rows(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                        Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b,
                        Index stride_c, Index batch) {
    alignas(16) __shared__ Accumulator tile_a[BLOCK_K * ROW_A];
    alignas(16) __shared__ Accumulator tile_b[BLOCK_K * ROW_B];
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const int rows = m - tile.row < BLOCK_M ? m - tile.row : BLOCK_M;
    const int columns = n - tile.column < BLOCK_N ? n - tile.column : BLOCK_N;
    const bool interior = rows == BLOCK_M && columns == BLOCK_N;

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* from_a = StageA::first(a + item * stride_a + tile.row * row_step_a(lda), lda);
        const Element* from_b = StageB::first(b + item * stride_b + tile.column * column_step_b(ldb), ldb);
        Accumulator sums[THREAD_M] = {};
        for (Index left = k; left > 0; left -= BLOCK_K) {
            if (interior && left >= BLOCK_K) {  // no element needs a guard
                StageA::fill<false>(tile_a, from_a, lda, rows, left);
                StageB::fill<false>(tile_b, from_b, ldb, columns, left);
            } else {
                StageA::fill<true>(tile_a, from_a, lda, rows, left);
                StageB::fill<true>(tile_b, from_b, ldb, columns, left);
            }
            __syncthreads();
            multiply(tile_a, tile_b, sums);
            __syncthreads();  // nobody overwrites the tiles while others still read them
            from_a += BLOCK_K * column_step_a(lda);
            from_b += BLOCK_K * row_step_b(ldb);
        }
        const int first = threadIdx.y * THREAD_M;
        Product* const to = c + item * stride_c + (tile.row + first) * ldc + tile.column + threadIdx.x;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i)
            if (first + i < rows && static_cast<int>(threadIdx.x) < columns) to[i * ldc] = narrow(sums[i]);
    }
}
