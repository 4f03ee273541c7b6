// Between which float64 a right activation lies, for the check: it is computed once more, and both computations may be
// off by the bound of kernels/model/activations.py; with OF_FLOAT32 the one that is checked by that of float32. Macros
// as in activations.cuh, with which this shares nothing else.
#pragma once

struct Bounds {
    double lowest, highest;
};

#if defined(ACTIVATION_GELU) || defined(ACTIVATION_GELU_TANH) || defined(ACTIVATION_SILU)

constexpr double UNIT = 0x1p-53, SMALLEST = 0x1p-1074, MAX_RELATIVE = 1e6, EXTREME = 1e300;
#ifdef OF_FLOAT32
constexpr double UNIT_OF_GIVEN = 0x1p-24, SMALLEST_OF_GIVEN = 0x1p-147, OF_QUOTIENT = 3.0, ALL_ARE_0_BELOW = -256.0;
#else
constexpr double UNIT_OF_GIVEN = UNIT, SMALLEST_OF_GIVEN = SMALLEST, OF_QUOTIENT = 0.0, ALL_ARE_0_BELOW = -EXTREME;
#endif

#if defined(ACTIVATION_GELU)

__device__ __forceinline__ double again(double x) {
    const double half = 0.5 * x * erfc(fabs(x) * 0.7071067811865476);
    return x < 0.0 ? half : x - half;
}
__device__ __forceinline__ double relative_error(double below) { return 2.0 * below * below + 20.0; }

#else

__device__ __forceinline__ double exponent_of(double x) {
#if defined(ACTIVATION_SILU)
    return x;
#else
    return x * (1.5957691216057308 + 0.07135481627260025 * (x * x));
#endif
}
__device__ __forceinline__ double again(double x) {
    const double q = exponent_of(x), power = exp(q < 0.0 ? q : -q), share = 1.0 / (1.0 + power);
    return q < 0.0 ? power * x * share : x * share;
}
__device__ __forceinline__ double relative_error(double below) {
#if defined(ACTIVATION_SILU)
    return 12.0 + OF_QUOTIENT;
#else
    return 6.0 * fabs(exponent_of(below)) + 15.0 + OF_QUOTIENT;
#endif
}

#endif

__device__ __forceinline__ Bounds bounds_of(double x) {
    if (x < ALL_ARE_0_BELOW) return {0.0, 0.0};
    if (!(x < EXTREME)) return {x, x};  // all are x there; and NaN
    const double value = again(x), relative = relative_error(x < 0.0 ? x : 0.0);
    const double off = (relative < MAX_RELATIVE ? relative : MAX_RELATIVE) * fabs(value);
    const double both = off * (UNIT + UNIT_OF_GIVEN) + (1.0 + fabs(x)) * (SMALLEST + SMALLEST_OF_GIVEN);
    return {value - both, value + both};
}

#else

__device__ __forceinline__ Bounds bounds_of(double x) {
#if defined(ACTIVATION_RELU)
    if (x < 0.0) return {0.0, 0.0};
#endif
    return {x, x};
}

#endif
