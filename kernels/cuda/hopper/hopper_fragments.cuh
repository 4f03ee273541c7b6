// How threads fill registers with an MN-major operand, for hopper_across.cuh, which says what is called A and C here. A
// box of it is STEP rows of k by 128 bytes, swizzled: 32 words or 128 bytes of each row; or 64 bytes, for each of three
// warpgroups. Of the 32 bytes of k that an instruction takes, a thread holds words lane % 4 and lane % 4 + 4, for rows
// lane / 4 and lane / 4 + 8 of the instruction. These two rows are adjacent in memory, so a thread reads both at once.
#pragma once

#include "hopper_schedule.cuh"
#include "hopper_stages.cuh"

// Of a thread: 8 bytes in a row of 128, two sums of C, permuted as the copy engine does in row 0 of eight. Two warps
// share such rows, 16 columns each. Bytes lie there as they are: half a warp has two chunks of 16 bytes that differ in
// their lowest bit, which rows lane % 4 · 2 keep apart. Words are read from such places too, in rows lane % 4, and so
// must also differ in their upper bit: chunks of half a warp are 0 and 5 (or 1 and 4, or 2 more).
struct Pair {
    int chunk, within;

    __device__ __forceinline__ Pair(int warp, int lane)
        : chunk(sizeof(Element) == 1 ? warp % 2 * 4 + lane / 8 : warp % 2 * 2 ^ lane / 8 % 2 * 5 ^ lane / 16),
          within(lane / 4 % 2 * 8) {}

    __device__ __forceinline__ int column() const { return (chunk * 16 + within) / 4; }
    __device__ __forceinline__ int place(int row) const { return row * SWIZZLE_BYTES + (chunk ^ row) * 16 + within; }
};

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void read_two(unsigned int* to, unsigned int shared) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(shared));
}

// Four 8×8 matrices of 16-bit elements, transposed: lane 8i + r gives the address of row r of matrix i, and every lane
// gets of each matrix the elements lane / 4 of rows lane % 4 · 2 and the next.
__device__ __forceinline__ void read_matrices_transposed(unsigned int (&to)[4], unsigned int shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared));
}

// Four bytes of eight, `first`'s being 0 to 3; each four bits of `which`, the lowest first, name one. In its place
// among matrix instructions: what they read is written before their fence.
__device__ __forceinline__ unsigned int select_bytes(unsigned int first, unsigned int second, unsigned int which) {
    unsigned int bytes;
    asm volatile("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(first), "r"(second), "r"(which));
    return bytes;
}
#endif

// Of words.
template <int ELEMENT_BYTES>
struct Fragments {
    int first, second;  // second: rows 4 to 7 of eight, where the chunk's upper bit is another

    __device__ __forceinline__ Fragments(int consumer, int warp, int lane) {
        const int box = consumer * (BOX / 32) + warp / 2;
        first = Pair(warp, lane).place(lane % 4) + box * A_BOX_BYTES;
        second = (first ^ 64) + 4 * SWIZZLE_BYTES;
    }

    __device__ __forceinline__ void read(unsigned int (&words)[4], unsigned int from) const {
        read_two(words, from + first);
        read_two(words + 2, from + second);
    }
};

// Of bytes. A warp has a chunk of its own, 16 columns. A matrix is that chunk in eight rows of k, of which a thread
// gets its two columns in two rows next to each other: half a word for each column. Two matrices thus make a word for
// either, and four make what an instruction takes. Each thread's four rows lie together, as the instruction wants them,
// and so those of lanes 2 and 3 modulo 4 begin 8 after those of 0 and 1; but rows 8 apart lie in the same banks. So one
// matrix has the first half of a word for the former and the second for the latter, the next has the others, and bytes
// are picked by the lane. Rows of 64 bytes are permuted by pairs, which lie in the same banks as a row of 128.
template <>
struct Fragments<1> {
    int place;
    unsigned int evens, odds;

    __device__ __forceinline__ Fragments(int consumer, int warp, int lane) {
        const int matrix = lane / 8, slot = lane % 8, half = matrix % 2 ^ slot / 4;
        const int row = matrix / 2 * 16 + slot / 2 * 4 + half * 2 + slot % 2;
        if constexpr (A_LINE == SWIZZLE_BYTES)
            place = row * A_LINE + ((consumer * 4 + warp) ^ row % 8) * 16;
        else
            place = consumer * A_BOX_BYTES + row * A_LINE + (warp ^ row / 2 % 4) * 16;
        evens = lane % 4 < 2 ? 0x6420 : 0x2064;
        odds = evens + 0x1111;
    }

    __device__ __forceinline__ void read(unsigned int (&words)[4], unsigned int from) const {
        unsigned int pairs[4];
        read_matrices_transposed(pairs, from + place);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            words[i] = select_bytes(pairs[i], pairs[i + 1], evens);
            words[i + 1] = select_bytes(pairs[i], pairs[i + 1], odds);
        }
    }
};
