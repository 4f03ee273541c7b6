// Digits of a tile, put in the order of the workspace in shared memory.
#pragma once

#include "emulated_measure.cuh"
#include "emulated_spread.cuh"

// What a block of `split` works on in shared memory.
struct Splitting {
    unsigned int planes[DIGITS][PLANE / 4];
    int exponents[LINES];
    unsigned int squares[LINES];
    unsigned int is_last;
};

// Four steps of k of a line: a word of each plane, and their squares.
__device__ __forceinline__ unsigned int split_four(Splitting& to, const float (&values)[4], int line, int group) {
    unsigned int digits[4], squares = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int q = fixed_point(values[i], to.exponents[line]), high = q >> SQUARE_SHIFT;
        digits[i] = digits_of(q);
        squares += high * high;
    }
    const unsigned int low_01 = __byte_perm(digits[0], digits[1], 0x5140),
                       high_01 = __byte_perm(digits[0], digits[1], 0x7362);
    const unsigned int low_23 = __byte_perm(digits[2], digits[3], 0x5140),
                       high_23 = __byte_perm(digits[2], digits[3], 0x7362);
    const int word = (chunk_offset(line, group / 4) + group % 4 * 4) / 4;
    to.planes[0][word] = __byte_perm(high_01, high_23, 0x7632);
    to.planes[1][word] = __byte_perm(high_01, high_23, 0x5410);
    to.planes[2][word] = __byte_perm(low_01, low_23, 0x7632);
    to.planes[3][word] = __byte_perm(low_01, low_23, 0x5410);
    return squares;
}

// A tile from line `line` and step `depth` on.
__device__ __forceinline__ void split_tile(Splitting& to, const Operand& operand, const float* matrix, int line,
                                           int depth) {
    constexpr int GROUPS = DEPTH / 4, TURNS = LINES * GROUPS / PASS_THREADS;
    const bool along = operand.along_depth, aligned = operand.is_aligned();
#pragma unroll 4
    for (int turn = 0; turn < TURNS; ++turn) {
        const int index = turn * PASS_THREADS + threadIdx.x;
        const int of_tile = along ? index / GROUPS : index % LINES, group = along ? index % GROUPS : index / LINES;
        const int at_line = line + of_tile, at_depth = depth + group * 4;
        float values[4] = {};
        if (at_line < operand.lines) {
            if (along) {
                const float4 four = read_four(matrix + at_line * operand.line_step, at_depth, operand.depth, aligned);
                values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (at_depth + i < operand.depth) values[i] = matrix[at_line + (at_depth + i) * operand.depth_step];
            }
        }
        unsigned int squares = split_four(to, values, of_tile, group);
        if (along) {
#pragma unroll
            for (int step = 1; step < GROUPS; step *= 2)
                squares += __shfl_xor_sync(0xFFFFFFFF, squares, step);
        }
        if (!along || group == 0) atomicAdd(to.squares + of_tile, squares);
    }
}

// In the block that comes last for its lines: the mean over lines of their spreads; lines of zeros have none.
__device__ __forceinline__ void spread_of_lines(const Findings& findings, int block, int depth,
                                                float (&sums)[2][LINES]) {
    if (threadIdx.x < LINES) {
        sums[0][threadIdx.x] =
            line_spread(findings, static_cast<Index>(block) * LINES + threadIdx.x, depth, sums[1][threadIdx.x]);
    }
    for (int half = LINES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
            sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) findings.spreads[block] = sums[0][0] / fmaxf(sums[1][0], 1.0f);
}
