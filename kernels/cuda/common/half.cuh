// Between float32 and the bits of float16, where elements are of another type; where they are float16, common.cuh has
// the same two.
#pragma once

#if !defined(EMULATED) && !defined(DTYPE_FLOAT16)  // an emulation on the CPU brings its own
__device__ __forceinline__ float float_of_half(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ unsigned short half_of_float(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif
