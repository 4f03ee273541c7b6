// The activation that follows a sum: one of ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_SILU, or
// none. NaN stays NaN; at -∞ all are 0, their limit. A pass after a product computes them in float64, as
// worker/cpu/activations.py does, a kernel with an epilogue in float32. kernels/model/activations.py says how far off
// either is.
#pragma once

#if defined(ACTIVATION_GELU) || defined(ACTIVATION_GELU_TANH) || defined(ACTIVATION_SILU)
__device__ __forceinline__ double power_of_e(double x) { return exp(x); }
__device__ __forceinline__ float power_of_e(float x) { return expf(x); }
__device__ __forceinline__ double complementary(double x) { return erfc(x); }
__device__ __forceinline__ float complementary(float x) { return erfcf(x); }
__device__ __forceinline__ double quotient(double x, double y) { return x / y; }
__device__ __forceinline__ float quotient(float x, float y) { return __fdividef(x, y); }  // of y in [1, 2]

// From here down.
__device__ __forceinline__ bool is_0(double x) { return x < -1e300; }
__device__ __forceinline__ bool is_0(float x) { return x < -256.0f; }

// x / (1 + e^-q), without an e^-q that overflows.
template <typename Real>
__device__ __forceinline__ Real times_sigmoid(Real x, Real q) {
    const Real power = power_of_e(q < Real(0) ? q : -q);
    return quotient(q >= Real(0) ? x : x * power, Real(1) + power);
}
#endif

template <typename Real>
__device__ __forceinline__ Real activated(Real x) {
#if defined(ACTIVATION_RELU)
    return x <= Real(0) ? Real(0) : x;
#elif defined(ACTIVATION_GELU)
    return is_0(x) ? Real(0) : Real(0.5) * x * complementary(-x * Real(0.7071067811865476));
#elif defined(ACTIVATION_GELU_TANH)
    const Real q = x * (Real(1.5957691216057308) + Real(0.07135481627260025) * (x * x));
    return is_0(x) ? Real(0) : times_sigmoid(x, q);
#elif defined(ACTIVATION_SILU)
    return is_0(x) ? Real(0) : times_sigmoid(x, x);
#else
    return x;
#endif
}
