// 8-bit operands with block scales as the float32 numbers that their elements stand for, one rounding each.
//
// Two functions for two purposes, which find an element's scale in two ways: a fault in one of them shows in the check.
#include "common.cuh"

constexpr int ACROSS = 32, DOWN = 8, THREADS = ACROSS * DOWN;

// Calls `write(item, row, column)` for every element; tiles go on x and y, the batch on z.
template <typename Write>
__device__ __forceinline__ void for_each_element(Index rows, Index columns, Index batch, Write write) {
    const Index column = static_cast<Index>(blockIdx.x) * ACROSS + threadIdx.x % ACROSS;
    if (column >= columns) return;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z)
        for (Index row = static_cast<Index>(blockIdx.y) * DOWN + threadIdx.x / ACROSS; row < rows;
             row += static_cast<Index>(gridDim.y) * DOWN)
            write(item, row, column);
}

// For a product. Scales lie stage by stage of k (hopper_scales.cuh); `width` lines share one. `along_columns`: k runs
// along an operand's columns as it is stored, so that its rows are lines.
extern "C" __global__ void __launch_bounds__(THREADS)
    dequantise(const Element* __restrict__ from, float* __restrict__ to, const float* __restrict__ scales, Index rows,
               Index columns, Index batch, Index pitch_from, Index pitch_to, Index stride_from, Index stride_to,
               Index pitch_scales, Index stride_scales, Index width, Index along_columns) {
    for_each_element(rows, columns, batch, [&](Index item, Index row, Index column) {
        const Index depth = along_columns ? column : row, line = along_columns ? row : column;
        const float scale = scales[item * stride_scales + depth / 128 * pitch_scales + line / width];
        to[item * stride_to + row * pitch_to + column] =
            widen(from[item * stride_from + row * pitch_from + column]) * scale;
    });
}

// For the check. Scales are as they were sent: one for each block of `high` rows and `wide` columns, row by row.
extern "C" __global__ void __launch_bounds__(THREADS)
    dequantise_check(const Element* __restrict__ from, float* __restrict__ to, const float* __restrict__ scales,
                     Index rows, Index columns, Index batch, Index pitch_from, Index pitch_to, Index stride_from,
                     Index stride_to, Index high, Index wide) {
    const Index across = (columns + wide - 1) / wide, down = (rows + high - 1) / high;
    for_each_element(rows, columns, batch, [&](Index item, Index row, Index column) {
        const float scale = scales[(item * down + row / high) * across + column / wide];
        to[item * stride_to + row * pitch_to + column] =
            scale * widen(from[item * stride_from + row * pitch_from + column]);
    });
}
