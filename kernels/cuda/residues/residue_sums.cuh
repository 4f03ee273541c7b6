// What becomes of sums: remainders, which wait in global memory until those of all moduli are there.
#pragma once

#include "residue_ring.cuh"

static_assert(CONSUMERS * WARPGROUP == HOLDERS && WORDS * 4 == SUMS, "as results lie");

// 0 to m, of a sum whose magnitude is below 2^30. The inverse is too large by less than one: the quotient is never too
// large, as that adds less than a 256th, and too small by one at most, where it is a whole number below 0.
__device__ __forceinline__ int remainder_of(int sum, const Modulus& modulus) {
    return sum - (__mulhi(sum, modulus.fine_inverse) >> 6) * modulus.value;
}

// `words`: the first of a thread's. MORE: remainders of sums before, at `others`, are added.
template <bool MORE>
__device__ __forceinline__ void keep(unsigned int* words, const unsigned int* others, const int (&sums)[SUMS],
                                     const Modulus& modulus) {
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
        const unsigned int before = MORE ? others[word * HOLDERS] : 0;
        unsigned int bytes[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int sum = sums[word * 4 + i] + static_cast<int>(before >> 8 * i & 0xFF);
            bytes[i] = static_cast<unsigned int>(remainder_of(sum, modulus));
        }
        words[word * HOLDERS] =
            __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
    }
}

// Whether a plane's products are added to the sums of the one before: those of the first are in both parts of C. The
// second completes the imaginary one, the third the real one.
__device__ __forceinline__ bool goes_on(int plane, int steps) {
    return IS_COMPLEX && plane == 1 && 2 * (steps + 1) <= CHUNK;
}

__device__ __forceinline__ void clear(int (&sums)[SUMS]) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
        sums[i] = 0;
}

// Of a plane, or of the next part of it along k.
__device__ __forceinline__ void keep_of_plane(unsigned int* words, const int (&sums)[SUMS], const Modulus& modulus,
                                              int plane, bool is_first, int steps) {
    unsigned int* const to = IS_COMPLEX && plane == 1 ? words + RESULT_BYTES / 4 : words;
    if (is_first && (plane == 0 || goes_on(plane, steps)))
        keep<false>(to, to, sums, modulus);
    else
        keep<true>(to, is_first ? words : to, sums, modulus);
}
