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

// Of two planes' product, or the next part of it along k. That of the first is in both parts of C: the second is added
// to it to make the imaginary one, and the third the real one.
__device__ __forceinline__ void keep_of_plane(unsigned int* words, const int (&sums)[SUMS], const Modulus& modulus,
                                              int plane, bool is_first) {
    unsigned int* const to = IS_COMPLEX && plane == 1 ? words + RESULT_BYTES / 4 : words;
    if (is_first && plane == 0)
        keep<false>(to, to, sums, modulus);
    else
        keep<true>(to, is_first ? words : to, sums, modulus);
}
