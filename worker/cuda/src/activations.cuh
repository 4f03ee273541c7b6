// The activation that follows a sum, in float64: one of ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH,
// ACTIVATION_SILU, or none. NaN stays NaN; at -∞ all are 0, their limit. As worker/cpu/activations.py has them.
#pragma once

#if defined(ACTIVATION_GELU) || defined(ACTIVATION_GELU_TANH) || defined(ACTIVATION_SILU)
constexpr double ALL_ARE_0 = -1e300;  // in float64, from here down

// x / (1 + e^-q), without an e^-q that overflows.
__device__ __forceinline__ double times_sigmoid(double x, double q) {
    const double power = exp(-fabs(q));
    return (q >= 0.0 ? x : x * power) / (1.0 + power);
}
#endif

template <typename Exact>
__device__ __forceinline__ Exact activated(Exact x) {
#if defined(ACTIVATION_RELU)
    return x <= 0.0 ? 0.0 : x;
#elif defined(ACTIVATION_GELU)
    return x < ALL_ARE_0 ? 0.0 : 0.5 * x * erfc(-x * 0.7071067811865476);
#elif defined(ACTIVATION_GELU_TANH)
    return x < ALL_ARE_0 ? 0.0 : times_sigmoid(x, x * (1.5957691216057308 + 0.07135481627260025 * (x * x)));
#elif defined(ACTIVATION_SILU)
    return x < ALL_ARE_0 ? 0.0 : times_sigmoid(x, x);
#else
    return x;
#endif
}
