// Whether a product has elements that are not finite: then `*found`, which was 0, becomes 1. Compiled for the type of a
// part; `columns`, `pitch` and `stride` are in parts.
#include "common.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    complex_finite(const Element* __restrict__ matrix, unsigned* __restrict__ found, Index rows, Index columns,
                   Index pitch, Index stride, Index batch) {
    bool is_any = false;
    for (Index line = blockIdx.y; line < rows * batch; line += gridDim.y) {
        const Element* const row = matrix + line / rows * stride + line % rows * pitch;
        for (Index column = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x; column < columns;
             column += static_cast<Index>(gridDim.x) * THREADS) {
            const Element part = row[column];
            is_any |= part - part != part - part;  // NaN of an infinity, too
        }
    }
    if (is_any) *found = 1;
}
