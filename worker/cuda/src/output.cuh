// What an epilogue writes: the product's own type, or one of OUTPUT_FLOAT16, OUTPUT_BFLOAT16, OUTPUT_FLOAT32.
// `output_of` rounds a float64 to it, to 16 bits by way of float32; `value_of` widens one, exactly. After common.cuh.
#pragma once

#include "half.cuh"

#if defined(OUTPUT_FLOAT16)

typedef unsigned short Output;

__device__ __forceinline__ Output output_of(double value) { return half_of_float(static_cast<float>(value)); }
__device__ __forceinline__ double value_of(Output bits) { return float_of_half(bits); }

#elif defined(OUTPUT_BFLOAT16)

typedef unsigned short Output;

__device__ __forceinline__ Output output_of(double value) {  // to nearest, ties to even, as in common.cuh
    const unsigned int bits = __float_as_uint(static_cast<float>(value)), upper = bits >> 16;
    if (value != value) return static_cast<Output>(upper | 0x40);
    return static_cast<Output>((bits + 0x7FFF + (upper & 1)) >> 16);
}
__device__ __forceinline__ double value_of(Output bits) {
    return __uint_as_float(static_cast<unsigned int>(bits) << 16);
}

#elif defined(OUTPUT_FLOAT32)

typedef float Output;

__device__ __forceinline__ Output output_of(double value) { return static_cast<float>(value); }
__device__ __forceinline__ double value_of(Output value) { return value; }

#else

typedef Product Output;

template <typename Exact>
__device__ __forceinline__ Output output_of(Exact value) {
    return narrow(static_cast<Accumulator>(value));
}
__device__ __forceinline__ double value_of(Output value) { return static_cast<double>(widen(value)); }

#endif
