// What the kernels share whose sums are stored as they are, 32 bits each: of operands of one byte or four, along k both
// of them, or one out of registers. The file that includes this names its instruction, as hopper_mma.cuh wants it.
#pragma once

#include "hopper.cuh"
#include "hopper_box.cuh"

__device__ __forceinline__ unsigned int bits_of(int sum) { return static_cast<unsigned int>(sum); }
__device__ __forceinline__ unsigned int bits_of(float sum) { return __float_as_uint(sum); }

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void write_pair(unsigned int shared, unsigned int first, unsigned int second) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(first), "r"(second) : "memory");
}
#endif

// 16 rows of 32 columns.
__device__ __forceinline__ void write_box(unsigned int shared, const HOPPER_SUM* sums, int lane) {
    place_sums(sums, lane, [shared](int place, HOPPER_SUM first, HOPPER_SUM second) {
        write_pair(shared + place, bits_of(first), bits_of(second));
    });
}

#include "hopper_product.cuh"
