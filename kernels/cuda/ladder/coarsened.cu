// Each thread computes FACTOR elements of one row of C.
//
// All of them need the same row of A: its element is loaded once and serves FACTOR multiply-adds, so a step of k takes
// FACTOR+1 loads where FACTOR threads of `naive` take 2·FACTOR. Their sums do not wait for each other either.
//
// Which columns a thread has decides the speed. STRIDED=1 spaces them by the threads of a block's row: each load of a
// warp reads neighbouring elements of B. STRIDED=0 gives a thread adjacent columns: what a warp reads with one load,
// and writes with one store, then lies FACTOR elements apart.
#include "common.cuh"

constexpr int THREADS_X = BLOCK_N / FACTOR, THREADS = THREADS_X * BLOCK_M;
static_assert(BLOCK_N % FACTOR == 0, "a row of the block's tile is a whole number of FACTOR columns");
static_assert(THREADS >= 32, "a block needs at least one warp of threads");
static_assert(THREADS <= 1024, "a block has at most 1024 threads, one for FACTOR elements of its tile");
static_assert(STRIDED == 0 || STRIDED == 1, "STRIDED is 0 (adjacent columns) or 1 (columns spaced by the block's row)");

constexpr int SPACING = STRIDED ? THREADS_X : 1;  // from one column of a thread to its next

// Sums over k. Where GUARDED, some of the columns lie past the last of B, `last` columns after the thread's first: that
// one is then read in their place, and nobody writes the sum.
template <bool GUARDED>
__device__ __forceinline__ void sum_up(const Element* from_a, const Element* from_b, Index k, Index lda, Index ldb,
                                       Index last, Accumulator (&sums)[FACTOR]) {
#pragma unroll 2  // more loads under way would not find registers
    for (Index depth = 0; depth < k; ++depth) {
        const Accumulator shared = widen(*from_a);
#pragma unroll
        for (int i = 0; i < FACTOR; ++i) {
            const Index own = i * SPACING, column = GUARDED && own > last ? last : own;
            sums[i] = multiply_add(shared, widen(from_b[column * column_step_b(ldb)]), sums[i]);
        }
        from_a += column_step_a(lda);
        from_b += row_step_b(ldb);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    coarsened(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
              Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const Index row = tile.row + threadIdx.y;
    const Index column = tile.column + threadIdx.x * (STRIDED ? 1 : FACTOR);  // the thread's first
    if (row >= m || column >= n) return;

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* from_a = a + item * stride_a + row * row_step_a(lda);
        const Element* from_b = b + item * stride_b + column * column_step_b(ldb);
        Accumulator sums[FACTOR] = {};
        if (tile.column + BLOCK_N <= n)
            sum_up<false>(from_a, from_b, k, lda, ldb, n - 1 - column, sums);
        else
            sum_up<true>(from_a, from_b, k, lda, ldb, n - 1 - column, sums);
        Product* const to = c + item * stride_c + row * ldc + column;
#pragma unroll
        for (int i = 0; i < FACTOR; ++i)
            if (column + i * SPACING < n) to[i * SPACING] = narrow(sums[i]);
    }
}
