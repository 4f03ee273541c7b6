// The product of a tile in fp32 on CUDA cores, for lines that have no digits (infinities, NaN) or that would need more
// of them than there are, and for products too small to be split.
#pragma once

#include "emulated_layout.cuh"

constexpr int PLAIN_THREADS = 256;
constexpr int PLAIN_DEPTH = 16;
constexpr int PLAIN_ROW = LINES + 4;  // words: rows of four-word runs, which begin in different banks

// PLAIN_DEPTH steps of the tile's lines, a row of shared memory for each step.
__device__ __forceinline__ void fetch_plain(float* shared, const Operand& operand, const float* matrix, int line,
                                            int depth) {
    const bool along = operand.along_depth;
#pragma unroll 2
    for (int turn = 0; turn < LINES * PLAIN_DEPTH / PLAIN_THREADS; ++turn) {
        const int index = turn * PLAIN_THREADS + threadIdx.x;
        const int at_line = along ? index / PLAIN_DEPTH : index % LINES;
        const int at_depth = along ? index % PLAIN_DEPTH : index / LINES;
        const bool inside = line + at_line < operand.lines && depth + at_depth < operand.depth;
        const Index place = (line + at_line) * operand.line_step + (depth + at_depth) * operand.depth_step;
        shared[at_depth * PLAIN_ROW + at_line] = inside ? matrix[place] : 0.0f;
    }
}

__device__ __forceinline__ void read_eight(float (&values)[8], const float* row, int first) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float4 four = *reinterpret_cast<const float4*>(row + half * (LINES / 2) + first);
        values[half * 4] = four.x, values[half * 4 + 1] = four.y;
        values[half * 4 + 2] = four.z, values[half * 4 + 3] = four.w;
    }
}

// A thread computes four rows and four columns in each quarter of the tile. What pads a tile is zero, and meets
// infinities only where the product is not in C, or at steps of k where both operands are padded.
__device__ __forceinline__ void plain_tile(float* shared, const Operand& a, const Operand& b, float* c, Index ldc,
                                           int row, int column, int item) {
    float* const of_a = shared;
    float* const of_b = shared + PLAIN_DEPTH * PLAIN_ROW;
    const float *const matrix_a = a.first + item * a.stride, *const matrix_b = b.first + item * b.stride;
    const int first_row = threadIdx.x / 16 * 4, first_column = threadIdx.x % 16 * 4;
    float sums[8][8] = {};
    for (int depth = 0; depth < a.depth; depth += PLAIN_DEPTH) {
        fetch_plain(of_a, a, matrix_a, row, depth);
        fetch_plain(of_b, b, matrix_b, column, depth);
        __syncthreads();
#pragma unroll 2
        for (int step = 0; step < PLAIN_DEPTH; ++step) {
            float lines_a[8], lines_b[8];
            read_eight(lines_a, of_a + step * PLAIN_ROW, first_row);
            read_eight(lines_b, of_b + step * PLAIN_ROW, first_column);
            add_outer_product(sums, lines_a, lines_b);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int at_row = row + i / 4 * (LINES / 2) + first_row + i % 4;
            const int at_column = column + j / 4 * (LINES / 2) + first_column + j % 4;
            if (at_row < a.lines && at_column < b.lines) c[at_row * ldc + at_column] = sums[i][j];
        }
}
