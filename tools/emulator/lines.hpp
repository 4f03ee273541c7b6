// What tensor cores do with a row of A and a column of B, of 32 bytes each: products of their elements, one after the
// other, onto a sum.
#pragma once

namespace emulated {

struct alignas(16) Line {
    unsigned int words[8];
};

int added_int8(int sum, const Line& a, const Line& b);  // wraps
float added_float16(float sum, const Line& a, const Line& b);
float added_bfloat16(float sum, const Line& a, const Line& b);
float added_float8(float sum, const Line& a, const Line& b);
float added_float32(float sum, const Line& a, const Line& b);

}  // namespace emulated
