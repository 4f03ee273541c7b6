// One thread per element of C, as in `naive`, with UNROLL steps of k in one iteration.
//
// An iteration costs a comparison, a branch and two pointer moves beside its loads and its multiply-add. With UNROLL
// steps an iteration these are paid once for all of them, and the loads, which wait for nothing, are all under way
// before the first product is needed. Traffic stays what it was. A compiler left alone unrolls too (`naive` is what it
// makes of the loop), so here it is told the factor, and UNROLL=1 is the plain loop.
#include "common.cuh"

static_assert(BLOCK_M * BLOCK_N >= 32, "a block needs at least one warp of threads");
static_assert(BLOCK_M * BLOCK_N <= 1024, "a block has at most 1024 threads, one for each element of its tile");
static_assert(UNROLL >= 1, "an iteration is at least one step of k");

extern "C" __global__ void __launch_bounds__(BLOCK_M* BLOCK_N)
    unrolled(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
             Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const Index row = tile.row + threadIdx.y;
    const Index column = tile.column + threadIdx.x;
    if (row >= m || column >= n) return;

    const Index step_a = column_step_a(lda), step_b = row_step_b(ldb);
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* from_a = a + item * stride_a + row * row_step_a(lda);
        const Element* from_b = b + item * stride_b + column * column_step_b(ldb);
        Accumulator sum = 0;
        Index left = k;
#pragma unroll 1
        for (; left >= UNROLL; left -= UNROLL) {
#pragma unroll
            for (int step = 0; step < UNROLL; ++step)
                sum = multiply_add(widen(from_a[step * step_a]), widen(from_b[step * step_b]), sum);
            from_a += UNROLL * step_a;
            from_b += UNROLL * step_b;
        }
#pragma unroll 1
        for (; left > 0; --left) {  // the last few, where UNROLL does not divide k
            sum = multiply_add(widen(*from_a), widen(*from_b), sum);
            from_a += step_a;
            from_b += step_b;
        }
        c[item * stride_c + row * ldc + column] = narrow(sum);
    }
}
