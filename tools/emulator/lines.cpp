#include "lines.hpp"

#include "emulated.hpp"

// Once more for processors that multiply and add in one instruction; the others call a function for it.
#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

namespace emulated {

namespace {

float from_bfloat16(unsigned int bits) { return __uint_as_float(bits << 16); }
float from_float16(unsigned int bits) { return float_of_half(static_cast<unsigned short>(bits)); }
float from_float8(unsigned int bits) {  // sign, 4 bits of exponent, 3 of fraction; all ones but for the sign is NaN
    if ((bits & 0x7F) == 0x7F) return __builtin_nanf("");
    const float size = __uint_as_float((bits & 0x7F) << 20) * 0x1p120f;  // the biases of both exponents differ by 120
    return bits & 0x80 ? -size : size;
}

// By what an element of so many bits is as a number.
template <int BITS, typename Number>
float added(float sum, const Line& a, const Line& b, Number number) {
    constexpr unsigned int mask = (1u << BITS) - 1;
    for (int word = 0; word < 8; ++word)
        for (int at = 0; at < 32; at += BITS)
            sum = fmaf(number(a.words[word] >> at & mask), number(b.words[word] >> at & mask), sum);
    return sum;
}

}  // namespace

int added_int8(int sum, const Line& a, const Line& b) {
    unsigned int wrapping = static_cast<unsigned int>(sum);
    for (int word = 0; word < 8; ++word)
        for (int at = 0; at < 32; at += 8)
            wrapping += static_cast<unsigned int>(static_cast<signed char>(a.words[word] >> at) *
                                                  static_cast<signed char>(b.words[word] >> at));
    return static_cast<int>(wrapping);
}
FOR_EACH_PROCESSOR
float added_float16(float sum, const Line& a, const Line& b) { return added<16>(sum, a, b, from_float16); }
FOR_EACH_PROCESSOR
float added_bfloat16(float sum, const Line& a, const Line& b) { return added<16>(sum, a, b, from_bfloat16); }
FOR_EACH_PROCESSOR
float added_float8(float sum, const Line& a, const Line& b) { return added<8>(sum, a, b, from_float8); }
FOR_EACH_PROCESSOR
float added_float32(float sum, const Line& a, const Line& b) {
    for (int word = 0; word < 8; ++word)
        sum = fmaf(__uint_as_float(a.words[word]), __uint_as_float(b.words[word]), sum);
    return sum;
}

}  // namespace emulated
