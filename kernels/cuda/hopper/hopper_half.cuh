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
#include "hopper_half_box.cuh"
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
