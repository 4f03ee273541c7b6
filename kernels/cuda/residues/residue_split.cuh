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

// Four remainders, the nearest to 0, a byte each: of sums of at most eight products of bytes, by float32 that is exact
// but for the inverse. A quotient is off by less than 2^-12, and from a half by 2^-9 at least, where m is odd; of 256
// it is exact, and 128 the same byte as -128.
__device__ __forceinline__ unsigned int four_remainders(const unsigned int (&low)[RUN], const unsigned int (&high)[RUN],
                                                        int first, const Modulus& modulus) {
    unsigned int bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float sum =
            __uint_as_float(__dp4a(high[first + i], modulus.high, __dp4a(low[first + i], modulus.low, modulus.bits)));
        const float quotient = fmaf(sum - EXACT_FLOAT, modulus.inverse, ROUNDING) - ROUNDING;
        bytes[i] = __float_as_uint(fmaf(quotient, modulus.negative, sum + (ROUNDING - EXACT_FLOAT)));
    }
    return __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
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

template <bool ALONG>
__device__ __forceinline__ void split_part(const Part& part, const Findings& findings) {
    const int moduli = findings.moduli();
    const bool aligned = part.operand.is_aligned();
    const int* const scales = findings.scales_in_use() + static_cast<Index>(part.block) * LINES;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        const Place at = place_in_tile<ALONG>(pass);
        double values[RUN];
        read_run<ALONG>(values, part.matrix, part.operand, part.line + at.line, part.depth + at.chunk * RUN, part.whole,
                        aligned);
        const int scale = scales[at.line];
        unsigned int low[RUN], high[RUN];
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            const long long integer = scaled_integer(values[i], scale);
            low[i] = static_cast<unsigned int>(integer);
            high[i] = static_cast<unsigned int>(integer >> 32) ^ 0x80000000u;  // 2^63 more, and so not negative
        }
        const int offset = chunk_offset(at.line, at.chunk);
#pragma unroll 1
        for (int modulus = 0; modulus < moduli; ++modulus) {
            const Modulus of = MODULI.of[modulus];
            *reinterpret_cast<uint4*>(findings.tile(modulus, part.block, part.step) + offset) = {
                four_remainders(low, high, 0, of), four_remainders(low, high, 4, of), four_remainders(low, high, 8, of),
                four_remainders(low, high, 12, of)};
        }
    }
}
