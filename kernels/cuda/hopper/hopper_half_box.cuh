// A warp's box of sums that are rounded to 16 bits: 16 rows of 64 columns. The file that includes this says how two of
// them are: HOPPER_NARROW, a conversion of PTX.
#pragma once

#include "hopper_epilogue.cuh"

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ unsigned int narrowed(HOPPER_SUM low, HOPPER_SUM high) {
    unsigned int pair;
    asm(HOPPER_NARROW " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif

#ifdef HAS_ACTIVATION
// Two elements.
__device__ __forceinline__ unsigned int activated_word(unsigned int z) {
    return narrowed(activated(as_float(static_cast<Delivered>(z & 0xFFFF))),
                    activated(as_float(static_cast<Delivered>(z >> 16))));
}
#endif

// A pair of chunks of 8 columns at a time.
__device__ __forceinline__ void write_box(unsigned int shared, const HOPPER_SUM* sums, int lane) {
    const int line = lane % 16, half = lane / 16;  // which row this lane gives the address of, and which chunk of two
#pragma unroll
    for (int chunk = 0; chunk < 8; chunk += 2) {
        const HOPPER_SUM* const four = &sums[chunk * 4];
        const unsigned int pairs[4] = {narrowed(four[0], four[1]), narrowed(four[2], four[3]),
                                       narrowed(four[4], four[5]), narrowed(four[6], four[7])};
        store_matrices(shared + line * SWIZZLE_BYTES + ((chunk + half) ^ (line % 8)) * 16, pairs);
    }
}
