// Elements as integers, and these as remainders, in the order of the planes.
#pragma once

#include "residue_measure.cuh"

// A warp takes all runs of a few lines, so that all 128 bytes of each are written at once: parts of them would leave
// the L2 before the rest is there.
constexpr int RUNS = DEPTH / RUN_STEPS;  // of a line in a tile
constexpr int LINES_OF_WARP = 32 / RUNS;
constexpr int PASSES = LINES / (LINES_OF_WARP * WARPS);  // over a tile
constexpr int WORDS_OF_RUN = RUN_STEPS / 4;
static_assert(RUN == 16 && 32 % RUNS == 0, "runs are laid out for these");

// An element times its line's scale, halves to even, by float64. The product is `most` and `rest` together. What is
// left of it beside multiples of 2^32 has 53 bits where `most` reaches 2^34, as a factor has three, and its sums are
// exact; of less, what is within 2^-19 of a half may be rounded as that is. Sums with EXACT_HIGH and EXACT_LOW end in
// the upper and the lower half of the integer.
constexpr double EXACT_HIGH = 0x1.8p84, EXACT_LOW = 0x1.8p52;
constexpr unsigned int EXACT_LOW_UPPER = 0x43380000;  // the upper half of its bits
constexpr int MAX_POWER = 1000;                       // of a scale that is a number
constexpr int MOVED = 500;                            // so far elements of lines with a larger one are moved before

__device__ __forceinline__ unsigned int upper_of(double value) {
    return static_cast<unsigned int>(__double_as_longlong(value) >> 32);
}

__device__ __forceinline__ unsigned int lower_of(double value) {
    return static_cast<unsigned int>(__double_as_longlong(value));
}

// 0 for a line of zeros.
__device__ __forceinline__ double factor_of(int scale) {
    const int power = power_of(scale) - (power_of(scale) > MAX_POWER ? MOVED : 0);
    return scale == 0 ? 0.0 : __hiloint2double((1023 + power) << 20 | (quarters_of(scale) & 3) << 18, 0);
}

// 2^63 more than the integer, so that nothing is negative.
__device__ __forceinline__ unsigned long long biased_integer(double value, double factor) {
    const double most = __dmul_rn(value, factor), rest = fma(value, factor, -most);
    const double high = __dadd_rn(most, EXACT_HIGH), left = __dadd_rn(most, -__dadd_rn(high, -EXACT_HIGH));
    const double low = __dadd_rn(__dadd_rn(left, rest), EXACT_LOW);
    const unsigned int upper = lower_of(high) + upper_of(low) - EXACT_LOW_UPPER + 0x80000000u;
    return static_cast<unsigned long long>(upper) << 32 | lower_of(low);
}

// The remainder of a whole number below 1.1·2^23 that is the nearest to 0, by float32 that rounds the inverse alone.
// The quotient is off by less than 0.28/m, and where m is odd, from a half by 0.5/m at least; of 256 it is exact, and
// 128 the same byte as -128.
__device__ __forceinline__ float reduced(float number, const Modulus& modulus) {
    const float quotient = fmaf(number, modulus.inverse, ROUNDING) - ROUNDING;
    return fmaf(quotient, modulus.negative, number);
}

// That of an integer, by a sum of at most eight products of bytes.
__device__ __forceinline__ float remainder_of(unsigned int low, unsigned int high, const Modulus& modulus) {
    return reduced(__uint_as_float(__dp4a(high, modulus.high, __dp4a(low, modulus.low, modulus.bits))), modulus);
}

// The last byte of each.
__device__ __forceinline__ unsigned int four_bytes(const float (&values)[4]) {
    unsigned int bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        bytes[i] = __float_as_uint(values[i] + ROUNDING);
    return __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
}

// A thread's elements as integers, 2^63 more, in halves.
struct Integers {
    unsigned int low[NUMBERS][RUN_STEPS], high[NUMBERS][RUN_STEPS];

    __device__ __forceinline__ void set(int index, unsigned long long integer) {
        low[index % NUMBERS][index / NUMBERS] = static_cast<unsigned int>(integer);
        high[index % NUMBERS][index / NUMBERS] = static_cast<unsigned int>(integer >> 32);
    }
};

// Four elements from `first` on, of each plane a byte.
template <bool IS_B>
__device__ __forceinline__ void four_remainders(unsigned int (&words)[PLANES], const Integers& integers, int first,
                                                const Modulus& modulus) {
    float planes[PLANES][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float x = remainder_of(integers.low[0][first + i], integers.high[0][first + i], modulus);
        if constexpr (IS_COMPLEX) {
            const float y = remainder_of(integers.low[1][first + i], integers.high[1][first + i], modulus);
            planes[0][i] = IS_B ? x : reduced(x - y, modulus);
            planes[1][i] = IS_B ? reduced(y - x, modulus) : x;
            planes[2][i] = IS_B ? reduced(y + x, modulus) : y;
        } else {
            planes[0][i] = x;
        }
    }
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
        words[plane] = four_bytes(planes[plane]);
}

// Where a thread's run lies in a tile.
struct Place {
    int line, run;

    __device__ __forceinline__ int offset() const {
        constexpr int OF_CHUNK = 16 / RUN_STEPS;
        return chunk_offset(line, run / OF_CHUNK) + run % OF_CHUNK * RUN_STEPS;
    }
};

template <bool ALONG>
__device__ __forceinline__ Place place_in_tile(int pass) {
    const int first = (pass * WARPS + threadIdx.x / 32) * LINES_OF_WARP, lane = threadIdx.x % 32;
    return {first + (ALONG ? lane / RUNS : lane % LINES_OF_WARP), ALONG ? lane % RUNS : lane / LINES_OF_WARP};
}

// Whether what became of an element's number changes its sign.
template <bool IS_B>
__device__ __forceinline__ bool is_negated(int number) {
#ifdef COMPLEX
    return number == 1 && (IS_B ? CONJUGATE_B : !CONJUGATE_A);
#else
    return false;
#endif
}

template <bool ALONG, bool IS_B>
__device__ __forceinline__ Integers read_integers(const Part& part, const Place& at, int scale, bool aligned) {
    double values[RUN];
    read_run<ALONG>(values, part.matrix, part.operand, part.line + at.line, part.depth + at.run * RUN_STEPS, part.whole,
                    aligned);
    if (power_of(scale) > MAX_POWER) {
#pragma unroll
        for (int i = 0; i < RUN; ++i)
            values[i] = __dmul_rn(values[i], power_of_two(MOVED));
    }
    const double factor = factor_of(scale);
    Integers found;
#pragma unroll
    for (int i = 0; i < RUN; ++i)
        found.set(i, biased_integer(is_negated<IS_B>(i % NUMBERS) ? -values[i] : values[i], factor));
    return found;
}

// A run of a plane, at once.
__device__ __forceinline__ void write_run(unsigned char* to, const unsigned int (&words)[WORDS_OF_RUN][PLANES],
                                          int plane) {
    if constexpr (IS_COMPLEX)
        *reinterpret_cast<uint2*>(to) = {words[0][plane], words[1][plane]};
    else
        *reinterpret_cast<uint4*>(to) = {words[0][plane], words[1][plane], words[WORDS_OF_RUN - 2][plane],
                                         words[WORDS_OF_RUN - 1][plane]};
}

template <bool ALONG, bool IS_B>
__device__ __forceinline__ void split_part(const Part& part, const Findings& findings) {
    const int moduli = findings.moduli();
    const bool aligned = part.operand.is_aligned();
    const Index of_plane = static_cast<Index>(findings.blocks) * findings.steps * TILE_BYTES;
    const int* const scales = findings.scales_in_use() + static_cast<Index>(part.block) * LINES;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        const Place at = place_in_tile<ALONG>(pass);
        const Integers integers = read_integers<ALONG, IS_B>(part, at, scales[at.line], aligned);
        unsigned char* to = findings.tile(0, 0, part.block, part.step) + at.offset();
#pragma unroll 1
        for (int modulus = 0; modulus < moduli; ++modulus) {
            const Modulus of = MODULI.of[modulus];
            unsigned int words[WORDS_OF_RUN][PLANES];
#pragma unroll
            for (int four = 0; four < WORDS_OF_RUN; ++four)
                four_remainders<IS_B>(words[four], integers, four * 4, of);
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane, to += of_plane)
                write_run(to, words, plane);
        }
    }
}
