// Warp tiles fed by a pipeline: copies run STAGES-1 tiles ahead, fragments one step ahead.
//
// Asynchronous copies bring tiles from memory straight into shared memory, so that no register holds data on its way
// and none has to be waited for until its tile is needed. Within a tile each thread reads the operands of its next
// step while it multiplies those of the present one: the latency of shared memory hides behind the multiply-adds. An
// operand stored along k is transposed on its way in, one element a copy, so elements must have the 4 bytes that a copy
// has at least.
#include "pipeline.cuh"
#include "tile_groups.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    pipelined(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
              Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
              Index batch GROUP_PARAMETERS) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tiles = reinterpret_cast<Accumulator*>(shared);
    const ThreadTile place(threadIdx.x);
    const Tile tile = FIND_TILE(BLOCK_M, BLOCK_N);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool aligned_a = is_aligned<CourierA::COUNT>(a, lda, stride_a);
    const bool aligned_b = is_aligned<CourierB::COUNT>(b, ldb, stride_b);
    const bool aligned_c = is_aligned<GROUP>(c, ldc, stride_c);
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N && aligned_a && aligned_b;

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const CourierA courier_a(a + item * stride_a + tile.row * row_step_a(lda), lda, rows, aligned_a);
        const CourierB courier_b(b + item * stride_b + tile.column * column_step_b(ldb), ldb, columns, aligned_b);
        Pipeline pipeline(courier_a, courier_b, place, tiles, k);
        pipeline.run(k, interior);
        pipeline.sums.write(c + item * stride_c + tile.row * ldc + tile.column, ldc, rows, columns, place, aligned_c);
    }
}
