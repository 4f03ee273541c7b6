// Sums of products of elements in float64, for the check: how a block reads their terms, and what float64 elements add
// to them. After common.cuh.
#pragma once

__device__ __forceinline__ double infinity() { return __longlong_as_double(0x7FF0000000000000ll); }

__device__ __forceinline__ double number(Element element) { return static_cast<double>(widen(element)); }

// DEPTH terms of LINES rows of A, or columns of B, from `depth` on: zero past the end. `along` says whether a line's
// terms are neighbours in memory. `line_of(at)` is the line at that place, negative where there is none; what
// `term_of(at, value)` gives of an element is kept.
template <int THREADS, int DEPTH, int LINES, typename LineOf, typename TermOf>
__device__ __forceinline__ void read_terms(double (&terms)[DEPTH][LINES], const Element* from, bool along, Index pitch,
                                           Index depth, Index k, LineOf line_of, TermOf term_of) {
#pragma unroll
    for (int i = threadIdx.x; i < LINES * DEPTH; i += THREADS) {
        const int at = along ? i / DEPTH : i % LINES, term = along ? i % DEPTH : i / LINES;
        const Index line = line_of(at), step = depth + term;
        double value = 0.0;
        if (line >= 0 && step < k) value = number(from[along ? line * pitch + step : step * pitch + line]);
        terms[term][at] = term_of(at, value);
    }
}

// A sum of terms. Of float64 elements it keeps what its roundings leave out (T. Ogita, S. M. Rump and S. Oishi,
// "Accurate sum and dot product", SIAM J. Sci. Comput. 26(6), 2005): a plain sum is off by a part of what the product
// is granted.
struct DoubleSum {
    double sum;
#if defined(DTYPE_FLOAT64)
    double left_out;
    __device__ __forceinline__ void accumulate(double a, double b, double term) {
        const double before = sum, of_term = fma(a, b, -term);
        sum += term;
        const double added = sum - before;
        left_out += (before - (sum - added)) + (term - added) + of_term;
    }
    __device__ __forceinline__ double error_of(double given) const { return fabs(given - sum - left_out); }
#else
    __device__ __forceinline__ void accumulate(double a, double b, double) { sum = fma(a, b, sum); }  // term is exact
    __device__ __forceinline__ double error_of(double given) const { return fabs(given - sum); }
#endif
};
