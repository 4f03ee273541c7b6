// What the kernels share whose sums are stored as they are, 32 bits each: of operands of one byte or four, along k both
// of them, or one out of registers. The file that includes this names its instruction, as hopper_mma.cuh wants it.
#pragma once

#include "hopper.cuh"
#include "hopper_word_box.cuh"
// which has `write_box`, for
#include "hopper_product.cuh"
