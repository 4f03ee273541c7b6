// What the two kernels for 16-bit floats share: sums in float32, operands along or across k as they are stored, rounded
// once. The file that includes this names its type for PTX: HOPPER_TYPE, as in "bf16", and HOPPER_NARROW, the
// conversion of two sums.
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

#ifndef EMULATED  // an emulation on the CPU brings its own word
__device__ __forceinline__ unsigned int narrowed(HOPPER_SUM low, HOPPER_SUM high) {
    unsigned int pair;
    asm(HOPPER_NARROW " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif

// 16 rows of 64 columns, rounded: pairs of neighbouring sums.
constexpr int BOX_PAIRS = 16;

__device__ __forceinline__ void write_pairs(unsigned int shared, const unsigned int* pairs, int lane) {
    const int line = lane % 16, half = lane / 16;  // which row this lane gives the address of, and which chunk of two
#pragma unroll
    for (int chunk = 0; chunk < 8; chunk += 2) {
        const unsigned int four[4] = {pairs[2 * chunk], pairs[2 * chunk + 1], pairs[2 * chunk + 2],
                                      pairs[2 * chunk + 3]};
        store_matrices(shared + line * SWIZZLE_BYTES + ((chunk + half) ^ (line % 8)) * 16, four);
    }
}

__device__ __forceinline__ void write_box(unsigned int shared, const HOPPER_SUM* sums, int lane) {
    unsigned int pairs[BOX_PAIRS];
#pragma unroll
    for (int i = 0; i < BOX_PAIRS; ++i)
        pairs[i] = narrowed(sums[2 * i], sums[2 * i + 1]);
    write_pairs(shared, pairs, lane);
}

#include "hopper_product.cuh"
