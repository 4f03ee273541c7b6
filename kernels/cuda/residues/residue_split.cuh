// Elements as integers, and these as remainders, in the order of the planes.
#pragma once

#include "residue_measure.cuh"

constexpr int PASSES = LINES * CHUNKS / PASS_THREADS;  // over a tile, a chunk for each thread
constexpr int ACROSS_LINES = 16;  // that a warp takes where lines lie across, two chunks each: halves of a sector
static_assert(RUN == 16 && PASSES == 4, "runs are laid out for these");

// An element times its line's scale, halves to even. A zero scale, of a line of zeros, gives zeros.
__device__ __forceinline__ long long scaled_integer(double value, int scale) {
    const long long bits = __double_as_longlong(value);
    const int biased = static_cast<int>(bits >> 52) & 0x7FF;
    const unsigned long long mantissa = (bits & 0xFFFFFFFFFFFFFll) | (biased ? 1ull << 52 : 0);
    const unsigned long long whole = mantissa * static_cast<unsigned int>(quarters_of(scale));
    const int shift = max(biased, 1) - 1075 + power_of(scale) - 2;
    unsigned long long found;
    if (shift >= 0) {
        found = whole << min(shift, 63);  // of a zero any shift may be asked for
    } else {
        const int right = min(-shift, 63);
        const unsigned long long odd = whole >> right & 1;
        found = (whole + (1ull << (right - 1)) - 1 + odd) >> right;
    }
    return bits < 0 ? -static_cast<long long>(found) : static_cast<long long>(found);
}

// A remainder, the nearest to 0, counted from ROUNDING: of a sum of at most eight products of bytes, by float32 that is
// exact but for the inverse. A quotient is off by less than 2^-12, and from a half by 2^-9 at least, where m is odd; of
// 256 it is exact, and 128 the same byte as -128.
__device__ __forceinline__ float remainder_from_rounding(unsigned int low, unsigned int high, const Modulus& modulus) {
    const float sum = __uint_as_float(__dp4a(high, modulus.high, __dp4a(low, modulus.low, modulus.bits)));
    const float quotient = fmaf(sum - EXACT_FLOAT, modulus.inverse, ROUNDING) - ROUNDING;
    return fmaf(quotient, modulus.negative, sum + (ROUNDING - EXACT_FLOAT));
}

// Likewise of a small number, such as a sum of two remainders.
__device__ __forceinline__ float reduced_from_rounding(float number, const Modulus& modulus) {
    const float quotient = fmaf(number, modulus.inverse, ROUNDING) - ROUNDING;
    return fmaf(quotient, modulus.negative, number + ROUNDING);
}

// The last byte of each.
__device__ __forceinline__ unsigned int four_bytes(const float (&values)[4]) {
    unsigned int bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        bytes[i] = __float_as_uint(values[i]);
    return __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
}

// A thread's elements as integers, 2^63 more and so not negative, in halves.
struct Integers {
    unsigned int low[NUMBERS][RUN], high[NUMBERS][RUN];

    __device__ __forceinline__ void set(int index, long long integer) {
        low[index % NUMBERS][index / NUMBERS] = static_cast<unsigned int>(integer);
        high[index % NUMBERS][index / NUMBERS] = static_cast<unsigned int>(integer >> 32) ^ 0x80000000u;
    }
};

// Four elements from `first` on, of each plane a byte.
template <bool IS_B>
__device__ __forceinline__ void four_remainders(unsigned int (&words)[PLANES], const Integers& integers, int first,
                                                const Modulus& modulus) {
    float planes[PLANES][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float x = remainder_from_rounding(integers.low[0][first + i], integers.high[0][first + i], modulus);
        if constexpr (IS_COMPLEX) {
            const float y = remainder_from_rounding(integers.low[1][first + i], integers.high[1][first + i], modulus);
            planes[0][i] = IS_B ? x : reduced_from_rounding(x - y, modulus);
            planes[1][i] = IS_B ? reduced_from_rounding(y - x, modulus) : x;
            planes[2][i] = IS_B ? reduced_from_rounding(x - ROUNDING + (y - ROUNDING), modulus) : y;
        } else {
            planes[0][i] = x;
        }
    }
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane)
        words[plane] = four_bytes(planes[plane]);
}

// Where a thread's run of steps lies in a tile.
struct Place {
    int line, chunk;
};

template <bool ALONG>
__device__ __forceinline__ Place place_in_tile(int pass) {
    if (ALONG) {
        const int number = pass * PASS_THREADS + threadIdx.x;
        return {number / CHUNKS, number % CHUNKS};
    }
    const int number = pass * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int GROUPS = LINES / ACROSS_LINES;
    return {number % GROUPS * ACROSS_LINES + lane % ACROSS_LINES, number / GROUPS * 2 + lane / ACROSS_LINES};
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
__device__ __forceinline__ void read_integers(Integers& integers, const Part& part, const Place& at, int scale,
                                              bool aligned) {
#pragma unroll
    for (int run = 0; run < NUMBERS; ++run) {
        double values[RUN];
        read_run<ALONG>(values, part.matrix, part.operand, part.line + at.line,
                        part.depth + at.chunk * RUN + run * RUN_STEPS, part.whole, aligned);
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            const long long integer = scaled_integer(values[i], scale);
            integers.set(run * RUN + i, is_negated<IS_B>(i % NUMBERS) ? -integer : integer);
        }
    }
}

template <bool ALONG, bool IS_B>
__device__ __forceinline__ void split_part(const Part& part, const Findings& findings) {
    const int moduli = findings.moduli();
    const bool aligned = part.operand.is_aligned();
    const int* const scales = findings.scales_in_use() + static_cast<Index>(part.block) * LINES;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        const Place at = place_in_tile<ALONG>(pass);
        Integers integers;
        read_integers<ALONG, IS_B>(integers, part, at, scales[at.line], aligned);
        const int offset = chunk_offset(at.line, at.chunk);
#pragma unroll 1
        for (int modulus = 0; modulus < moduli; ++modulus) {
            const Modulus of = MODULI.of[modulus];
            unsigned int words[4][PLANES];
#pragma unroll
            for (int four = 0; four < 4; ++four)
                four_remainders<IS_B>(words[four], integers, four * 4, of);
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane)
                *reinterpret_cast<uint4*>(findings.tile(modulus, plane, part.block, part.step) + offset) = {
                    words[0][plane], words[1][plane], words[2][plane], words[3][plane]};
        }
    }
}
