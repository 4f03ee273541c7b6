// D = alpha·P + beta·C of complex matrices, part by part; a part of a factor that is 0 takes part in nothing, so a real
// factor scales both parts. In float64, without fusing, then rounded to the type of a part. `complex_epilogue_check`
// counts the elements that are not what this gives, on its own. Compiled for the type of a part.
#include "common.cuh"

constexpr int THREADS = 256;

struct alignas(2 * sizeof(Element)) Pair {
    Element re, im;
};

struct Sum {
    double re, im;
};

__device__ __forceinline__ Sum scaled(double re, double im, Pair x) {
    const double a = x.re, b = x.im;
    if (im == 0.0) return {__dmul_rn(re, a), __dmul_rn(re, b)};
    if (re == 0.0) return {-__dmul_rn(im, b), __dmul_rn(im, a)};
    return {__dadd_rn(__dmul_rn(re, a), -__dmul_rn(im, b)), __dadd_rn(__dmul_rn(re, b), __dmul_rn(im, a))};
}

// An element by each thread in turn; columns fastest. `c` is not read where beta is 0.
extern "C" __global__ void __launch_bounds__(THREADS)
    complex_epilogue(const Pair* __restrict__ p, const Pair* __restrict__ c, Pair* __restrict__ d, Index m, Index n,
                     Index ldp, Index ldc, Index ldd, Index stride_p, Index stride_c, Index stride_d, Index batch,
                     Index alpha_re, Index alpha_im, Index beta_re, Index beta_im) {
    const double ar = __longlong_as_double(alpha_re), ai = __longlong_as_double(alpha_im);
    const double br = __longlong_as_double(beta_re), bi = __longlong_as_double(beta_im);
    const bool has_p = ar != 0.0 || ai != 0.0, has_c = br != 0.0 || bi != 0.0;
    const Index count = batch * m * n, step = static_cast<Index>(gridDim.x) * THREADS;
    for (Index place = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x; place < count; place += step) {
        const Index column = place % n, row = place / n % m, item = place / n / m;
        Sum total = {0.0, 0.0};
        if (has_p) total = scaled(ar, ai, p[item * stride_p + row * ldp + column]);
        if (has_c) {
            const Sum more = scaled(br, bi, c[item * stride_c + row * ldc + column]);
            total = has_p ? Sum{__dadd_rn(total.re, more.re), __dadd_rn(total.im, more.im)} : more;
        }
        d[item * stride_d + row * ldd + column] = {static_cast<Element>(total.re), static_cast<Element>(total.im)};
    }
}

// ---- the check ----
// Σ of factor · part over those that are not 0: the real part where `imaginary` is false.
__device__ __forceinline__ double term_of(double re, double im, const Element* x, bool imaginary) {
    const double own = x[imaginary], other = imaginary ? x[0] : -static_cast<double>(x[1]);
    if (im == 0.0) return __dmul_rn(re, own);
    if (re == 0.0) return __dmul_rn(im, other);
    return __dadd_rn(__dmul_rn(re, own), __dmul_rn(im, other));
}

__device__ __forceinline__ bool differs(Element given, double expected) {
    const Element rounded = static_cast<Element>(expected);
    return given != rounded && !(given != given && rounded != rounded);
}

// A warp takes rows of the batch in turn, a lane every 32nd of their columns.
extern "C" __global__ void __launch_bounds__(THREADS)
    complex_epilogue_check(const Element* __restrict__ p, const Element* __restrict__ c, const Element* __restrict__ d,
                           Index m, Index n, Index ldp, Index ldc, Index ldd, Index stride_p, Index stride_c,
                           Index stride_d, Index batch, Index alpha_re, Index alpha_im, Index beta_re, Index beta_im,
                           unsigned long long* wrong) {
    const double factors[2][2] = {{__longlong_as_double(alpha_re), __longlong_as_double(alpha_im)},
                                  {__longlong_as_double(beta_re), __longlong_as_double(beta_im)}};
    const bool has_p = factors[0][0] != 0.0 || factors[0][1] != 0.0,
               has_c = factors[1][0] != 0.0 || factors[1][1] != 0.0;
    unsigned long long found = 0;
    const Index warps = static_cast<Index>(gridDim.x) * THREADS / 32;
    for (Index line = static_cast<Index>(blockIdx.x) * THREADS / 32 + threadIdx.x / 32; line < batch * m;
         line += warps) {
        const Index item = line / m, row = line % m;
        for (Index column = threadIdx.x % 32; column < n; column += 32) {
            const Element* const of_p = p + 2 * (item * stride_p + row * ldp + column);
            const Element* const of_c = c + 2 * (item * stride_c + row * ldc + column);
            const Element* const of_d = d + 2 * (item * stride_d + row * ldd + column);
            bool is_wrong = false;
            for (int imaginary = 0; imaginary < 2; ++imaginary) {
                double expected = has_p ? term_of(factors[0][0], factors[0][1], of_p, imaginary) : 0.0;
                if (has_c) {
                    const double more = term_of(factors[1][0], factors[1][1], of_c, imaginary);
                    expected = has_p ? __dadd_rn(expected, more) : more;
                }
                is_wrong |= differs(of_d[imaginary], expected);
            }
            found += is_wrong;
        }
    }
    if (found) atomicAdd(wrong, found);
}
