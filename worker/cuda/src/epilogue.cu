// D = activation(alpha·P + beta·C + bias), element by element: what is delivered in place of the product P = A·B. A
// term whose factor is 0 is left out, whatever is in its matrix.
//
// Floats are computed in float64 and rounded to float32 unless that is the type, and from there to 16 bits; integers
// modulo 2^32. No multiplication is fused with an addition of terms: the check expects the same bits
// (epilogue_check.cu). Macros say whether there is a bias, which activation, and the type of D where it is not
// the product's.
#include "activations.cuh"
#include "common.cuh"
#include "output.cuh"

constexpr int WARPS = 8, THREADS = 32 * WARPS, ROWS = 4, COLUMNS = 4;  // rows of a warp, columns of a lane

#if defined(DTYPE_INT32)
typedef unsigned int Exact;
#else
typedef double Exact;
#endif

__device__ __forceinline__ double scaled(double factor, double value) { return __dmul_rn(factor, value); }
__device__ __forceinline__ double added(double one, double other) { return __dadd_rn(one, other); }
__device__ __forceinline__ unsigned int scaled(unsigned int factor, unsigned int value) { return factor * value; }
__device__ __forceinline__ unsigned int added(unsigned int one, unsigned int other) { return one + other; }

__device__ __forceinline__ Exact as_factor(double factor) {
#if defined(DTYPE_INT32)
    return static_cast<unsigned int>(static_cast<long long>(factor));
#else
    return factor;
#endif
}

__device__ __forceinline__ Exact exact(Product value) { return static_cast<Exact>(widen(value)); }

// A warp takes 4 rows, a lane 4 of their columns, 32 apart. Tiles are counted along x, columns fastest; the batch goes
// on z. `c` is not read where beta is 0, nor `bias` without HAS_BIAS. A bias has a step of 0 along the axis that it is
// the same on; one serves the whole batch.
extern "C" __global__ void __launch_bounds__(THREADS)
    epilogue(const Product* __restrict__ p, const Product* __restrict__ c, Output* __restrict__ d,
             const Product* __restrict__ bias, Index m, Index n, Index ldp, Index ldc, Index ldd, Index stride_p,
             Index stride_c, Index stride_d, Index batch, Index alpha_bits, Index beta_bits, Index bias_row_step,
             Index bias_column_step) {
    const double alpha = __longlong_as_double(alpha_bits), beta = __longlong_as_double(beta_bits);
    const Index across = (n + 32 * COLUMNS - 1) / (32 * COLUMNS), tile = blockIdx.x;
    const Index first_row = (tile / across * WARPS + threadIdx.x / 32) * ROWS;
    const Index first_column = tile % across * 32 * COLUMNS + threadIdx.x % 32;
    const bool has_p = alpha != 0.0, has_c = beta != 0.0;
    const Exact of_p = as_factor(alpha), of_c = as_factor(beta);
    for (Index item = blockIdx.z; item < batch; item += gridDim.z)
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                const Index row = first_row + i, column = first_column + 32 * j;
                if (row >= m || column >= n) continue;
                Exact total = 0;
                if (has_p) total = scaled(of_p, exact(p[item * stride_p + row * ldp + column]));
                if (has_c) {
                    const Exact more = scaled(of_c, exact(c[item * stride_c + row * ldc + column]));
                    total = has_p ? added(total, more) : more;
                }
#if defined(HAS_BIAS)
                total = added(total, exact(bias[row * bias_row_step + column * bias_column_step]));
#endif
                d[item * stride_d + row * ldd + column] = output_of(activated(total));
            }
}
