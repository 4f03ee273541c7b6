// Elements as integers, and these as remainders, in the order of the planes.
#pragma once

#include "residue_measure.cuh"

constexpr int PASSES = LINES * CHUNKS / PASS_THREADS;  // over a tile, a chunk for each thread
// That a warp takes where lines lie across: all chunks of each, 128 bytes. They are written at once, or a part of them
// would leave the L2 before the next is there.
constexpr int ACROSS_LINES = 32 / CHUNKS;
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
        found = whole >> right;
        const unsigned long long cut = whole << (64 - right);
        found += (cut | (found & 1)) > 1ull << 63;  // more than a half, or a half beside what is odd
    }
    return bits < 0 ? -static_cast<long long>(found) : static_cast<long long>(found);
}

// The remainder of a whole number below 1.1·2^23 that is the nearest to 0, by float32 that rounds the inverse alone.
// The quotient is off by less than 0.28/m, and where m is odd, from a half by 0.5/m at least; of 256 it is exact, and
// 128 the same byte as -128.
__device__ __forceinline__ float reduced(float number, const Modulus& modulus) {
    const float quotient = fmaf(number, modulus.inverse, ROUNDING) - ROUNDING;
    return fmaf(quotient, modulus.negative, number);
}

// That of an integer, which is as good as a sum of at most eight products of bytes.
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
    const int first = (pass * WARPS + threadIdx.x / 32) * ACROSS_LINES, lane = threadIdx.x % 32;
    return {first + lane % ACROSS_LINES, lane / ACROSS_LINES};
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
    const Index of_plane = static_cast<Index>(findings.blocks) * findings.steps * TILE_BYTES;
    const int* const scales = findings.scales_in_use() + static_cast<Index>(part.block) * LINES;
#pragma unroll 1
    for (int pass = 0; pass < PASSES; ++pass) {
        const Place at = place_in_tile<ALONG>(pass);
        Integers integers;
        read_integers<ALONG, IS_B>(integers, part, at, scales[at.line], aligned);
        unsigned char* to = findings.tile(0, 0, part.block, part.step) + chunk_offset(at.line, at.chunk);
#pragma unroll 1
        for (int modulus = 0; modulus < moduli; ++modulus) {
            const Modulus of = MODULI.of[modulus];
            unsigned int words[4][PLANES];
#pragma unroll
            for (int four = 0; four < 4; ++four)
                four_remainders<IS_B>(words[four], integers, four * 4, of);
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane, to += of_plane)
                *reinterpret_cast<uint4*>(to) = {words[0][plane], words[1][plane], words[2][plane], words[3][plane]};
        }
    }
}
