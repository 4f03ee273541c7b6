// Digits of a tile, put in the order of the workspace inside registers. A warp takes 16 lines of the tile and all of
// its steps; lanes exchange words in fours, so that each writes runs of 16 bytes, and nothing goes through shared
// memory.
#pragma once

#include "emulated_measure.cuh"
#include "emulated_spread.cuh"

constexpr int WARPS = PASS_THREADS / 32;
constexpr int WARP_LINES = LINES / WARPS;
static_assert(WARP_LINES == 16 && DEPTH == 64, "what a lane has of a warp's part is laid out for these");

// ---- elements as integers ----
// 2^(31 - e) as two powers, since one may be out of range: bits of the first, and those of the second 8 places below.
// Both are zero for a line that has no digits.
__device__ __forceinline__ unsigned int scales_of(unsigned int peak) {
    if (peak >= INFINITE) return 0;
    const int power = 31 - line_exponent(peak), first = power >> 1;
    return static_cast<unsigned int>(127 + first) << 23 | static_cast<unsigned int>(127 + power - first) << 15;
}

// `fixed_point` in fewer instructions. Scaling loses bits only of what is nothing as an integer. Sums towards zero
// never reach a whole number that the exact one does not, and a NaN is converted to zero.
__device__ __forceinline__ int scaled_integer(float value, unsigned int scales) {
    const float scaled = value * __uint_as_float(scales & INFINITE) * __uint_as_float(scales << 8 & INFINITE);
    const float half = __uint_as_float((__float_as_uint(scaled) & 0x80000000u) | 0x3F000000u);
    return __float2int_rz(__fadd_rz(scaled, half));
}

// Four steps of a line: a word of each plane. `squares` grows by theirs.
__device__ __forceinline__ void digits_of_four(const float (&values)[4], unsigned int scales,
                                               unsigned int (&words)[DIGITS], unsigned int& squares) {
    unsigned int digits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int q = scaled_integer(values[i], scales), high = q >> SQUARE_SHIFT;
        digits[i] = digits_of(q);
        squares += high * high;
    }
    const unsigned int low_01 = __byte_perm(digits[0], digits[1], 0x5140),
                       high_01 = __byte_perm(digits[0], digits[1], 0x7362);
    const unsigned int low_23 = __byte_perm(digits[2], digits[3], 0x5140),
                       high_23 = __byte_perm(digits[2], digits[3], 0x7362);
    words[0] = __byte_perm(high_01, high_23, 0x7632);
    words[1] = __byte_perm(high_01, high_23, 0x5410);
    words[2] = __byte_perm(low_01, low_23, 0x7632);
    words[3] = __byte_perm(low_01, low_23, 0x5410);
}

// ---- lanes in fours ----
// Lane j's word i becomes lane i's word j.
__device__ __forceinline__ void transpose_four(unsigned int (&words)[4]) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & bit) continue;
            const bool upper = threadIdx.x & bit;
            const unsigned int got = __shfl_xor_sync(0xFFFFFFFF, upper ? words[i] : words[i | bit], bit);
            if (upper)
                words[i] = got;
            else
                words[i | bit] = got;
        }
}

// Lane j has the sum of four lanes' j-th number.
__device__ __forceinline__ unsigned int sum_of_four(const unsigned int (&numbers)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    const unsigned int low =
        (odd ? numbers[1] : numbers[0]) + __shfl_xor_sync(0xFFFFFFFF, odd ? numbers[0] : numbers[1], 1);
    const unsigned int high =
        (odd ? numbers[3] : numbers[2]) + __shfl_xor_sync(0xFFFFFFFF, odd ? numbers[2] : numbers[3], 1);
    return (upper ? high : low) + __shfl_xor_sync(0xFFFFFFFF, upper ? low : high, 2);
}

__device__ __forceinline__ void put_chunk(unsigned char* plane, int line, int chunk, const unsigned int (&words)[4]) {
    *reinterpret_cast<uint4*>(plane + chunk_offset(line, chunk)) = {words[0], words[1], words[2], words[3]};
}

// ---- a warp's part of a tile ----
struct Part {
    const float* matrix;
    int line, depth;  // the tile's first
    bool whole;       // no bounds are met in the tile, and four neighbours can be read at once
    bool aligned;
    unsigned char* tile;
    unsigned long long* squares;  // of the tile's lines
    unsigned int scales;          // in each lane, of the warp's line lane % WARP_LINES
};

__device__ __forceinline__ float4 read_row(const Part& part, const float* row, bool inside, int column, int columns) {
    if (part.whole) return *reinterpret_cast<const float4*>(row + column);
    return inside ? read_four(row, column, columns, part.aligned) : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

// Lines along memory: two of them at a time, next to each other, and four steps in a lane.
__device__ __forceinline__ void split_along(const Part& part, const Operand& operand) {
    constexpr int TURNS = WARP_LINES / 2;
    const int lane = threadIdx.x % 32, group = lane % 16, first = threadIdx.x / 32 * WARP_LINES + lane / 16;
    float4 read[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int line = part.line + first + turn * 2;
        read[turn] = read_row(part, part.matrix + line * operand.line_step, line < operand.lines,
                              part.depth + group * 4, operand.depth);
    }
    unsigned int own = 0;  // squares of turn group % TURNS
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const float values[4] = {read[turn].x, read[turn].y, read[turn].z, read[turn].w};
        unsigned int words[DIGITS], squares = 0;
        digits_of_four(values, __shfl_sync(0xFFFFFFFF, part.scales, turn * 2 + lane / 16), words, squares);
        transpose_four(words);
        put_chunk(part.tile + lane % 4 * PLANE, first + turn * 2, group / 4, words);
#pragma unroll
        for (int lanes = 1; lanes < 16; lanes *= 2)
            squares += __shfl_xor_sync(0xFFFFFFFF, squares, lanes);
        if (group == turn) own = squares;
    }
    if (group < TURNS) atomicAdd(part.squares + first + group * 2, static_cast<unsigned long long>(own));
}

// Lines across memory: a lane has four of them, and four steps of each; lanes in fours have 16 steps, a chunk. Twice,
// for 32 steps each time.
__device__ __forceinline__ void split_across(const Part& part, const Operand& operand) {
    constexpr int TURNS = 2;
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * WARP_LINES, lines = first + lane / 4 % 4 * 4;
    float read[TURNS][4][4];  // by step and line
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int step = part.depth + (turn * 2 + lane / 16) * 16 + lane % 4 * 4 + i;
            const float4 four = read_row(part, part.matrix + step * operand.depth_step, step < operand.depth,
                                         part.line + lines, operand.lines);
            read[turn][i][0] = four.x, read[turn][i][1] = four.y;
            read[turn][i][2] = four.z, read[turn][i][3] = four.w;
        }
    unsigned int scales[4], squares[4] = {};
#pragma unroll
    for (int line = 0; line < 4; ++line)
        scales[line] = __shfl_sync(0xFFFFFFFF, part.scales, lane / 4 % 4 * 4 + line);
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        unsigned int words[4][DIGITS];
#pragma unroll
        for (int line = 0; line < 4; ++line) {
            const float values[4] = {read[turn][0][line], read[turn][1][line], read[turn][2][line],
                                     read[turn][3][line]};
            digits_of_four(values, scales[line], words[line], squares[line]);
        }
#pragma unroll
        for (int digit = 0; digit < DIGITS; ++digit) {
            unsigned int of_lines[4] = {words[0][digit], words[1][digit], words[2][digit], words[3][digit]};
            transpose_four(of_lines);
            put_chunk(part.tile + digit * PLANE, lines + lane % 4, turn * 2 + lane / 16, of_lines);
        }
    }
    unsigned int own = sum_of_four(squares);
    own += __shfl_xor_sync(0xFFFFFFFF, own, 16);
    if (lane < WARP_LINES) atomicAdd(part.squares + first + lane, static_cast<unsigned long long>(own));
}

// In the warp that comes last for its lines: the mean over lines of their spreads.
__device__ __forceinline__ void spread_of_warps(const Findings& findings, int block, int depth) {
    float sum = 0.0f, count = 0.0f;
    for (int line = threadIdx.x % 32; line < LINES; line += 32) {
        float counted;
        sum += line_spread(findings, static_cast<Index>(block) * LINES + line, depth, counted);
        count += counted;
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, lanes);
        count += __shfl_xor_sync(0xFFFFFFFF, count, lanes);
    }
    if (threadIdx.x % 32 == 0) findings.spreads[block] = sum / fmaxf(count, 1.0f);
}
