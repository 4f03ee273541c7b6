// One thread per element of C, neighbouring threads on neighbouring rows: the wrong way round, to be compared.
//
// Threads of a warp share a column of B (one address, broadcast) and read down a column of A. Its elements lie a row
// apart, so one load of a warp touches up to 32 sectors of memory (32 bytes each) and uses one element of each, where
// `naive` uses all of what it touches. C is written as badly. A transposed A lies the other way round: there the loads
// are in order, and only the writes stay scattered.
#include "common.cuh"

static_assert(BLOCK_M * BLOCK_N >= 32, "a block needs at least one warp of threads");
static_assert(BLOCK_M * BLOCK_N <= 1024, "a block has at most 1024 threads, one for each element of its tile");

extern "C" __global__ void __launch_bounds__(BLOCK_M* BLOCK_N)
    naive_uncoalesced(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                      Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
                      Index batch) {
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const Index row = tile.row + threadIdx.x;  // x is what differs first between the threads of a warp
    const Index column = tile.column + threadIdx.y;
    if (row >= m || column >= n) return;

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* from_a = a + item * stride_a + row * row_step_a(lda);
        const Element* from_b = b + item * stride_b + column * column_step_b(ldb);
        Accumulator sum = 0;
        for (Index depth = 0; depth < k; ++depth) {
            sum = multiply_add(widen(*from_a), widen(*from_b), sum);
            from_a += column_step_a(lda);
            from_b += row_step_b(ldb);
        }
        c[item * stride_c + row * ldc + column] = narrow(sum);
    }
}
