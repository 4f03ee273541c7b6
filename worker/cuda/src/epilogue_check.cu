// Counts the elements of D that are not what alpha·P + beta·C gives: each is computed again. NaN equals NaN. As
// worker/check/epilogue.py does it on the host; it shares nothing with epilogue.cu but the element types.
#include "common.cuh"

constexpr int WARPS = 8, THREADS = 32 * WARPS, AHEAD = 4;

__device__ __forceinline__ bool is_wrong(Product given, Product expected) {
#if defined(DTYPE_INT32)
    return given != expected;
#else
    const Accumulator one = widen(given), other = widen(expected);
    return one != other && !(one != one && other != other);
#endif
}

#if defined(DTYPE_INT32)
__device__ __forceinline__ Product expected_of(int p, int c, double alpha, double beta) {
    const unsigned long long of_p = static_cast<unsigned long long>(static_cast<long long>(alpha) * p);
    const unsigned long long of_c = static_cast<unsigned long long>(static_cast<long long>(beta) * c);
    return static_cast<Product>(static_cast<unsigned int>(of_p + of_c));
}
#else
__device__ __forceinline__ Product expected_of(Product p, Product c, double alpha, double beta) {
    const double of_p = alpha == 0.0 ? 0.0 : __dmul_rn(alpha, static_cast<double>(widen(p)));
    const double of_c = beta == 0.0 ? 0.0 : __dmul_rn(beta, static_cast<double>(widen(c)));
    return narrow(static_cast<Accumulator>(__dadd_rn(of_p, of_c)));
}
#endif

// A warp takes rows of the batch in turn, a lane every 32nd of their columns.
extern "C" __global__ void __launch_bounds__(THREADS)
    epilogue_check(const Product* __restrict__ p, const Product* __restrict__ c, const Product* __restrict__ d, Index m,
                   Index n, Index ldp, Index ldc, Index ldd, Index stride_p, Index stride_c, Index stride_d,
                   Index batch, Index alpha_bits, Index beta_bits, unsigned long long* wrong) {
    const double alpha = __longlong_as_double(alpha_bits), beta = __longlong_as_double(beta_bits);
    unsigned long long found = 0;
    const Index warps = static_cast<Index>(gridDim.x) * WARPS;
    for (Index line = static_cast<Index>(blockIdx.x) * WARPS + threadIdx.x / 32; line < batch * m; line += warps) {
        const Index item = line / m, row = line % m;
        const Product *const of_p = p + item * stride_p + row * ldp, *const of_d = d + item * stride_d + row * ldd;
        const Product* const of_c = beta == 0.0 ? of_p : c + item * stride_c + row * ldc;
#pragma unroll AHEAD
        for (Index column = threadIdx.x % 32; column < n; column += 32)
            found += is_wrong(of_d[column], expected_of(of_p[column], of_c[column], alpha, beta));
    }
    if (found) atomicAdd(wrong, found);
}
