// A warp's box of sums that are stored as they are, 32 bits each: 16 rows of 32 columns. The file that includes this
// says what a sum is: HOPPER_SUM.
#pragma once

#include "hopper_box.cuh"
#include "hopper_epilogue.cuh"

__device__ __forceinline__ unsigned int bits_of(int sum) { return static_cast<unsigned int>(sum); }
__device__ __forceinline__ unsigned int bits_of(float sum) { return __float_as_uint(sum); }

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void write_words(unsigned int shared, unsigned int first, unsigned int second) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(first), "r"(second) : "memory");
}
#endif

#ifdef HAS_ACTIVATION
__device__ __forceinline__ unsigned int activated_word(unsigned int z) {
    return __float_as_uint(activated(__uint_as_float(z)));
}
#endif

__device__ __forceinline__ void write_box(unsigned int shared, const HOPPER_SUM* sums, int lane) {
    place_sums(sums, lane, [shared](int place, HOPPER_SUM first, HOPPER_SUM second) {
        write_words(shared + place, bits_of(first), bits_of(second));
    });
}
