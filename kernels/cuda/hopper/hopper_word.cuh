// What the kernels share whose sums are stored as they are, 32 bits each: of operands of one byte or four, along k both
// of them, or one out of registers. The file that includes this names its instruction, as hopper_mma.cuh wants it.
#pragma once

#include "hopper.cuh"
#if defined(OUTPUT_BFLOAT16)
#define HOPPER_NARROW "cvt.rn.bf16x2.f32"
#include "hopper_half_box.cuh"
#elif defined(OUTPUT_FLOAT16)
#define HOPPER_NARROW "cvt.rn.f16x2.f32"
#include "hopper_half_box.cuh"
#else
#include "hopper_word_box.cuh"
#endif
// which have `write_box`, for
#include "hopper_product.cuh"
