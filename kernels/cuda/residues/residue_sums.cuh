// Turns sums into remainders, which wait in global memory until those of all moduli are there. For complex products,
// remainders of the first planes are needed for both parts of C, and stay in shared memory until then.
#pragma once

#include "residue_ring.cuh"

constexpr int AHEAD = 8;  // words that a thread reads before it adds to them
static_assert(CONSUMERS * WARPGROUP == HOLDERS && WORDS * 4 == SUMS, "as results lie");

// A byte to which 128 is still to be added: of a sum less 128 the remainder that is the nearest to 0, found as those of
// elements are (residue_split.cuh). The last byte of a number's bits is that of the number, for `number` and the
// quotient alike. `more`: what else belongs to the sum.
__device__ __forceinline__ unsigned int byte_of(int sum, unsigned int more, const Modulus& modulus) {
    const unsigned int number = __dp4a(static_cast<unsigned int>(sum), modulus.low, modulus.sum_bits + more);
    const float quotient = fmaf(__uint_as_float(number), modulus.inverse, ROUNDING);
    return number - __float_as_uint(quotient) * static_cast<unsigned int>(modulus.value);
}

// `words`: the first of a thread's. MORE: remainders of sums before, at `others`, are added; several are read at once.
template <bool MORE>
__device__ __forceinline__ void keep(unsigned int* words, const unsigned int* others, const int (&sums)[SUMS],
                                     const Modulus& modulus) {
#pragma unroll
    for (int first = 0; first < WORDS; first += AHEAD) {
        unsigned int before[AHEAD] = {};
        if (MORE) {
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                before[i] = others[(first + i) * HOLDERS] ^ 0x80808080u;
        }
#pragma unroll
        for (int word = first; word < first + AHEAD; ++word) {
            unsigned int bytes[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                bytes[i] = byte_of(sums[word * 4 + i], before[word - first] >> 8 * i & 0xFF, modulus);
            words[word * HOLDERS] =
                __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
        }
    }
}

// Whether a plane's products are added to the sums of the one before: the second's, which make the imaginary part.
__device__ __forceinline__ bool goes_on(int plane, int steps) {
    return IS_COMPLEX && plane == 1 && 2 * (steps + 1) <= CHUNK;
}

__device__ __forceinline__ void clear(int (&sums)[SUMS]) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
        sums[i] = SUM_BIAS;
}

// Of a plane, or of the next part of it along k. `words`: those of the real part, behind which those of the imaginary
// one lie; `own`: those of the first plane, in shared memory.
__device__ __forceinline__ void keep_of_plane(unsigned int* words, unsigned int* own, const int (&sums)[SUMS],
                                              const Modulus& modulus, int plane, bool is_first, int steps) {
    unsigned int* const to = !IS_COMPLEX || plane == 2 ? words : plane == 1 ? words + RESULT_BYTES / 4 : own;
    if (is_first && (plane == 0 || goes_on(plane, steps)))
        keep<false>(to, to, sums, modulus);
    else
        keep<true>(to, is_first ? own : to, sums, modulus);
}
