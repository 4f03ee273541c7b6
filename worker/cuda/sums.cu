// One pass over a matrix for the check of a product: each row times a vector, its sum of squares, and how many of its
// elements are NaN or infinite (those are left out of both sums). Integers: the rows times the vector, modulo 2^64.
//
// TRANSPOSED says how the matrix lies: 0, a row's elements are neighbours; 1, the rows' are, `ld` being the step from
// one column to the next. Either way neighbouring threads read neighbouring elements. Long rows are cut into CHUNKs, so
// that a matrix of few rows keeps the whole device busy; the pieces meet in atomic additions, into zeroed results.
#define TRANSPOSE_A 0
#define TRANSPOSE_B 0
#include "common.cuh"

static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block is made of whole warps");

#if defined(DTYPE_INT8) || defined(DTYPE_INT32)
typedef unsigned long long Sum;  // wraps, which is right modulo 2^32
typedef long long Factor;
#else
typedef double Sum;
typedef double Factor;
#endif

struct Sums {
    Sum product;
    double squares;
    unsigned long long bad;

    __device__ void add(Element element, Factor factor, int exponent) {
#if defined(DTYPE_INT8) || defined(DTYPE_INT32)
        product += static_cast<Sum>(static_cast<long long>(element) * factor);
#else
        double value = static_cast<double>(widen(element));
        if (!isfinite(value)) {
            ++bad;
            return;
        }
        if (exponent != 0) value = ldexp(value, -exponent);
        product = fma(value, factor, product);
        squares = fma(value, value, squares);
#endif
    }

    __device__ void into(Index place, Sum* products, double* all_squares, unsigned long long* all_bad) const {
        atomicAdd(products + place, product);
        if (squares != 0.0) atomicAdd(all_squares + place, squares);
        if (bad != 0) atomicAdd(all_bad + place, bad);
    }
};

__device__ __forceinline__ Sums sum_of_warp(Sums sums) {
    for (int offset = 16; offset > 0; offset /= 2) {
        sums.product += __shfl_down_sync(0xFFFFFFFFu, sums.product, offset);
        sums.squares += __shfl_down_sync(0xFFFFFFFFu, sums.squares, offset);
        sums.bad += __shfl_down_sync(0xFFFFFFFFu, sums.bad, offset);
    }
    return sums;
}

// The matrix is rows×columns as the product sees it. Results are `rows` apart from one item of the batch to the next.
extern "C" __global__ void __launch_bounds__(THREADS)
    sums(const Element* __restrict__ matrix, Index rows, Index columns, Index ld, Index stride,
         const Factor* __restrict__ vector, Index vector_stride, int exponent, Sum* products, double* squares,
         unsigned long long* bad, Index batch) {
    const Index chunks = (columns + CHUNK - 1) / CHUNK;
    const Index first = blockIdx.x % chunks * CHUNK;
    const Index last = first + CHUNK < columns ? first + CHUNK : columns;
    const Index group = blockIdx.x / chunks;
    const int lane = threadIdx.x % 32;
    const Index row = TRANSPOSED ? group * THREADS + threadIdx.x : group * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;  // whole warps where the warp works on one row

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* elements = matrix + item * stride;
        const Factor* factors = vector + item * vector_stride;
        Sums sums = {0, 0.0, 0};
#if TRANSPOSED
        for (Index column = first; column < last; ++column)
            sums.add(elements[column * ld + row], factors[column], exponent);
        sums.into(item * rows + row, products, squares, bad);
#else
        for (Index column = first + lane; column < last; column += 32)
            sums.add(elements[row * ld + column], factors[column], exponent);
        sums = sum_of_warp(sums);
        if (lane == 0) sums.into(item * rows + row, products, squares, bad);
#endif
    }
}

// Single elements, as float64: found[i] = matrix(rows[i], columns[i]).
extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const Element* __restrict__ matrix, Index ld, const Index* __restrict__ rows,
           const Index* __restrict__ columns, double* found, Index count) {
    const Index i = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= count) return;
    const Element element = TRANSPOSED ? matrix[columns[i] * ld + rows[i]] : matrix[rows[i] * ld + columns[i]];
#if defined(DTYPE_INT8) || defined(DTYPE_INT32)
    found[i] = static_cast<double>(element);
#else
    found[i] = static_cast<double>(widen(element));
#endif
}
