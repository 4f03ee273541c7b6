// Single elements of a matrix, as float64: found[i] = matrix(rows[i], columns[i]), by the steps between rows and
// columns.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256)
    gather(const Element* __restrict__ matrix, Index row_step, Index column_step, const Index* __restrict__ rows,
           const Index* __restrict__ columns, double* found, Index count) {
    const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Element element = matrix[rows[i] * row_step + columns[i] * column_step];
#if defined(DTYPE_INT8) || defined(DTYPE_INT32)
    found[i] = static_cast<double>(element);
#else
    found[i] = static_cast<double>(widen(element));
#endif
}
