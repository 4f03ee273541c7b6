// What the two kernels for 16-bit floats share: sums in float32, operands along or across k as they are stored, rounded
// once, or not at all with OUTPUT_FLOAT32. The file that includes this names its type for PTX: HOPPER_TYPE, as in
// "bf16", and HOPPER_NARROW, the conversion of two sums.
#pragma once

#define HOPPER_SUM float
#define HOPPER_SUM_REGISTER "+f"
#define HOPPER_MMA "k16.f32." HOPPER_TYPE "." HOPPER_TYPE
#if TRANSPOSE_A
#define HOPPER_ACROSS_A "1"
#else
#define HOPPER_ACROSS_A "0"
#endif
#if TRANSPOSE_B
#define HOPPER_ACROSS_B "0"
#else
#define HOPPER_ACROSS_B "1"
#endif
#define HOPPER_MMA_END ", 1, 1, " HOPPER_ACROSS_A ", " HOPPER_ACROSS_B

#include "hopper.cuh"

#ifdef OUTPUT_FLOAT32
#include "hopper_word_box.cuh"
#else

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ unsigned int narrowed(HOPPER_SUM low, HOPPER_SUM high) {
    unsigned int pair;
    asm(HOPPER_NARROW " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif

// 16 rows of 64 columns, a pair of chunks at a time.
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

#endif

#include "hopper_product.cuh"

// What these kernels are given besides, of a grouped product.
#ifdef GROUPED
#define C_ROW_MAP , const __grid_constant__ TensorMap c_row
#define C_ROW_AND_GROUPS , c_row, groups
#else
#define C_ROW_MAP
#define C_ROW_AND_GROUPS
#endif
