// Conversions between float32 and the bits of float16. By PTX: without cuda_fp16.h, which not every NVRTC finds.
#pragma once

#ifndef EMULATED  // an emulation on the CPU brings its own
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
