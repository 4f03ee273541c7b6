// What complex_layout.cu writes, made another way for the check of the product: part by part, where the check reads it.
// It shares nothing with complex_layout.cu but the element types.
#include "common.cuh"

constexpr int THREADS = 256;

// A (rows × columns complex): part `column % 2` of element column / 2. `from` is as stored, pitches in its parts.
__device__ __forceinline__ Element part_of(const Element* from, Index row, Index column, Index pitch, bool transposed,
                                           bool imaginary) {
    return transposed ? from[column * pitch + 2 * row + imaginary] : from[row * pitch + 2 * column + imaginary];
}

// `rows` × `columns` parts of each matrix of the batch. With `blocks`, rows are of blocks, too.
extern "C" __global__ void __launch_bounds__(THREADS)
    complex_check(const Element* __restrict__ from, Element* __restrict__ to, Index rows, Index columns,
                  Index pitch_from, Index pitch_to, Index stride_from, Index stride_to, Index batch, Index transposed,
                  Index blocks, Index of_a, Index of_b) {
    const Index count = batch * rows * columns, step = static_cast<Index>(gridDim.x) * THREADS;
    for (Index place = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x; place < count; place += step) {
        const Index column = place % columns, row = place / columns % rows, item = place / columns / rows;
        const bool lower = blocks && row % 2, right = column % 2;
        Element value = part_of(from + item * stride_from, blocks ? row / 2 : row, column / 2, pitch_from,
                                transposed != 0, lower != right);
        const bool is_conjugated = lower != right && of_b < 0;
        const bool is_lower_of_conjugate = lower && of_a < 0, is_minus_s = lower && !right;
        if (blocks && (is_conjugated ^ is_lower_of_conjugate ^ is_minus_s)) value = -value;
        to[item * stride_to + row * pitch_to + column] = value;
    }
}
