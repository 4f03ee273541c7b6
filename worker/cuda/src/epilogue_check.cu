// Counts the elements of D that are not what activation(alpha·P + beta·C + bias) gives: each is computed again, and
// must lie between what a right computation may give at least and at most, which are the same but after gelu and silu.
// NaN equals NaN. As worker/check/epilogue.py does it on the host; it shares nothing with epilogue.cu but the element
// types.
#include "activation_bounds.cuh"
#include "common.cuh"
#include "output.cuh"

constexpr int WARPS = 8, THREADS = 32 * WARPS, AHEAD = 4;

#if defined(DTYPE_INT32)
__device__ __forceinline__ bool is_wrong(Output given, int p, int c, int bias, double alpha, double beta) {
    const unsigned long long of_p = static_cast<unsigned long long>(static_cast<long long>(alpha) * p);
    const unsigned long long of_c = static_cast<unsigned long long>(static_cast<long long>(beta) * c);
    return given != static_cast<Output>(static_cast<unsigned int>(of_p + of_c + static_cast<long long>(bias)));
}
#else
__device__ __forceinline__ bool is_wrong(Output given, Product p, Product c, double bias, double alpha, double beta) {
    const double of_p = alpha == 0.0 ? 0.0 : __dmul_rn(alpha, static_cast<double>(widen(p)));
    const double of_c = beta == 0.0 ? 0.0 : __dmul_rn(beta, static_cast<double>(widen(c)));
    const Bounds bounds = bounds_of(__dadd_rn(__dadd_rn(of_p, of_c), bias));
    const double lowest = value_of(output_of(bounds.lowest)), highest = value_of(output_of(bounds.highest));
    const double value = value_of(given);
    const bool is_between = lowest <= value && value <= highest, are_nan = value != value && lowest != lowest;
    return !is_between && !are_nan;
}
#endif

// A warp takes rows of the batch in turn, a lane every 32nd of their columns. Steps of a bias as in epilogue.cu.
extern "C" __global__ void __launch_bounds__(THREADS)
    epilogue_check(const Product* __restrict__ p, const Product* __restrict__ c, const Output* __restrict__ d,
                   const Product* __restrict__ bias, Index m, Index n, Index ldp, Index ldc, Index ldd, Index stride_p,
                   Index stride_c, Index stride_d, Index batch, Index alpha_bits, Index beta_bits, Index bias_row_step,
                   Index bias_column_step, unsigned long long* wrong) {
    const double alpha = __longlong_as_double(alpha_bits), beta = __longlong_as_double(beta_bits);
    unsigned long long found = 0;
    const Index warps = static_cast<Index>(gridDim.x) * WARPS;
    for (Index line = static_cast<Index>(blockIdx.x) * WARPS + threadIdx.x / 32; line < batch * m; line += warps) {
        const Index item = line / m, row = line % m;
        const Product* const of_p = p + item * stride_p + row * ldp;
        const Output* const of_d = d + item * stride_d + row * ldd;
        const Product* const of_c = beta == 0.0 ? of_p : c + item * stride_c + row * ldc;
#pragma unroll AHEAD
        for (Index column = threadIdx.x % 32; column < n; column += 32) {
#if defined(HAS_BIAS)
            const auto more = widen(bias[row * bias_row_step + column * bias_column_step]);
#else
            const Accumulator more = 0;
#endif
            found += is_wrong(of_d[column], of_p[column], of_c[column], more, alpha, beta);
        }
    }
    if (found) atomicAdd(wrong, found);
}
