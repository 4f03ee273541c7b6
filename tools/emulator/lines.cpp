#include "lines.hpp"

#include "emulated.hpp"

namespace emulated {

namespace {

float from_bfloat16(unsigned int bits) { return __uint_as_float(bits << 16); }
float from_float16(unsigned int bits) { return float_of_half(static_cast<unsigned short>(bits)); }
float from_float8(unsigned int bits) {  // sign, 4 bits of exponent, 3 of fraction; all ones but for the sign is NaN
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 0x7F) == 0x7F) return __builtin_nanf("");
    const float size = static_cast<float>(exponent ? ldexp(8.0 + fraction, exponent - 10) : ldexp(fraction, -9));
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
float added_float16(float sum, const Line& a, const Line& b) { return added<16>(sum, a, b, from_float16); }
float added_bfloat16(float sum, const Line& a, const Line& b) { return added<16>(sum, a, b, from_bfloat16); }
float added_float8(float sum, const Line& a, const Line& b) { return added<8>(sum, a, b, from_float8); }
float added_float32(float sum, const Line& a, const Line& b) {
    for (int word = 0; word < 8; ++word)
        sum = fmaf(__uint_as_float(a.words[word]), __uint_as_float(b.words[word]), sum);
    return sum;
}

}  // namespace emulated
