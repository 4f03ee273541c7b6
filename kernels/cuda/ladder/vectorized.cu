// Register tiles, and every move of data 16 bytes wide.
//
// Operands come from memory in runs of 16 bytes, and a thread reads its rows of A and columns of B from shared memory
// in runs as well: a quarter of the load instructions for float32. For that both tiles lie in shared memory along their
// outer axis, so A, which is stored along k, is transposed on its way in. A thread's tile is cut into groups as wide as
// a run, spaced by the block's threads, so that neighbouring threads read neighbouring runs.
#include "tiles.cuh"

constexpr int THREADS_X = BLOCK_N / THREAD_N, THREADS_Y = BLOCK_M / THREAD_M, THREADS = THREADS_X * THREADS_Y;
static_assert(BLOCK_M % THREAD_M == 0 && BLOCK_N % THREAD_N == 0, "the block's tile is a whole number of thread tiles");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block is 1 to 32 whole warps");
static_assert(THREAD_M % GROUP == 0 && THREAD_N % GROUP == 0, "a thread's tile is a whole number of 16-byte groups");

using LoaderA = TileLoader<BLOCK_M, BLOCK_K, THREADS, A_ALONG_K>;
using LoaderB = TileLoader<BLOCK_N, BLOCK_K, THREADS, B_ALONG_K>;
constexpr int HELD = LoaderA::SHARE * LoaderA::COUNT + LoaderB::SHARE * LoaderB::COUNT;
constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, THREAD_M* THREAD_N, words_beside(THREAD_M + THREAD_N, HELD));

// Where group `group` of a thread begins among the block's rows or columns.
__device__ __forceinline__ int place(int group, int threads, int thread) { return (group * threads + thread) * GROUP; }

template <bool GUARDED>
__device__ __forceinline__ void multiply(const Accumulator* tile_a, const Accumulator* tile_b,
                                         Accumulator (&sums)[THREAD_M][THREAD_N]) {
#pragma unroll(GUARDED ? 1 : 2)  // guards need the registers that reading ahead would take
    for (int depth = 0; depth < BLOCK_K; ++depth) {
        Accumulator from_a[THREAD_M], from_b[THREAD_N];
#pragma unroll
        for (int group = 0; group < THREAD_M / GROUP; ++group)
            read_run<GROUP>(from_a + group * GROUP,
                            tile_a + depth * LoaderA::ROW + place(group, THREADS_Y, threadIdx.y));
#pragma unroll
        for (int group = 0; group < THREAD_N / GROUP; ++group)
            read_run<GROUP>(from_b + group * GROUP,
                            tile_b + depth * LoaderB::ROW + place(group, THREADS_X, threadIdx.x));
        add_outer_product(sums, from_a, from_b);
    }
}

// Brings the next tile of each operand, of which `depths` steps lie in them, and multiplies.
template <bool GUARDED>
__device__ __forceinline__ void multiply_next(LoaderA& carrier_a, LoaderB& carrier_b, Accumulator* tile_a,
                                              Accumulator* tile_b, Index depths,
                                              Accumulator (&sums)[THREAD_M][THREAD_N]) {
    carrier_a.template fetch<GUARDED>(depths);
    carrier_b.template fetch<GUARDED>(depths);
    __syncthreads();  // nobody overwrites the tiles while others still read them
    carrier_a.put(tile_a);
    carrier_b.put(tile_b);
    __syncthreads();
    multiply<GUARDED>(tile_a, tile_b, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    vectorized(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
               Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tile_a = reinterpret_cast<Accumulator*>(shared);
    Accumulator* const tile_b = tile_a + LoaderA::WORDS;
    const int thread = threadIdx.y * THREADS_X + threadIdx.x;
    // As tile_of_block, but by a division of 32 bits, for the registers it saves: the grid has fewer than 2^31 blocks.
    const unsigned int across = static_cast<unsigned int>((n + BLOCK_N - 1) / BLOCK_N);
    const Tile tile = {static_cast<Index>(blockIdx.x / across) * BLOCK_M,
                       static_cast<Index>(blockIdx.x % across) * BLOCK_N};
    const Index rows = m - tile.row, columns = n - tile.column;

    const bool aligned = is_aligned<LoaderA::COUNT>(a, lda, stride_a) && is_aligned<LoaderB::COUNT>(b, ldb, stride_b);
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N && aligned;
    const int whole = interior ? static_cast<int>(k / BLOCK_K) : 0;  // tiles in which no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        LoaderA carrier_a(a + item * stride_a + tile.row * row_step_a(lda), lda, rows, thread, aligned);
        LoaderB carrier_b(b + item * stride_b + tile.column * column_step_b(ldb), ldb, columns, thread, aligned);
        Accumulator sums[THREAD_M][THREAD_N] = {};
        for (int done = 0; done < whole; ++done)
            multiply_next<false>(carrier_a, carrier_b, tile_a, tile_b, BLOCK_K, sums);
        for (Index depth = static_cast<Index>(whole) * BLOCK_K; depth < k; depth += BLOCK_K)
            multiply_next<true>(carrier_a, carrier_b, tile_a, tile_b, k - depth, sums);
        const bool aligned_c = is_aligned<GROUP>(c, ldc, stride_c);
        Product* const corner_c = c + item * stride_c + tile.row * ldc + tile.column;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            const int row = place(i / GROUP, THREADS_Y, threadIdx.y) + i % GROUP;
            if (row >= rows) continue;
#pragma unroll
            for (int group = 0; group < THREAD_N / GROUP; ++group) {
                const int column = place(group, THREADS_X, threadIdx.x);
                write_run<GROUP>(corner_c + row * ldc + column, sums[i] + group * GROUP, columns - column, aligned_c);
            }
        }
    }
}
