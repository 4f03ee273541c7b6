// The two passes before an emulated product: what the largest elements are, and then digits.
#pragma once

#include "emulated_layout.cuh"

constexpr int PASS_THREADS = 256;
constexpr int MEASURED_ROWS = 32, MEASURED_COLUMNS = 512;  // of a matrix as it is stored, by a block of `measure`

// Four neighbours from column `column` on; zeros past the `columns`-th.
__device__ __forceinline__ float4 read_four(const float* row, int column, int columns, bool aligned) {
    if (aligned && column + 4 <= columns) return *reinterpret_cast<const float4*>(row + column);
    float4 four;
    four.x = column < columns ? row[column] : 0.0f;
    four.y = column + 1 < columns ? row[column + 1] : 0.0f;
    four.z = column + 2 < columns ? row[column + 2] : 0.0f;
    four.w = column + 3 < columns ? row[column + 3] : 0.0f;
    return four;
}

__device__ __forceinline__ unsigned int magnitude(float value) { return __float_as_uint(value) & 0x7FFFFFFF; }

// ---- peaks of lines and, across them, of steps of k. An infinity or a NaN makes a line's peak, and no step's: other
// lines have digits. ----
struct Measured {
    int rows, columns;  // as stored
    Index pitch;
    bool columns_are_steps;
    unsigned int *row_peaks, *column_peaks;
};

__device__ __forceinline__ void measure_block(const float* matrix, const Measured& at, int first_row, int first_column,
                                              bool aligned, unsigned int* of_columns) {
    constexpr int RUNS = MEASURED_COLUMNS / 128;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < MEASURED_COLUMNS; i += PASS_THREADS)
        of_columns[i] = 0;
    __syncthreads();
    unsigned int column_peaks[RUNS][4] = {};
#pragma unroll
    for (int line = 0; line < MEASURED_ROWS; line += PASS_THREADS / 32) {
        const int row = first_row + line + warp;
        if (row >= at.rows) break;
        unsigned int peak = 0;
#pragma unroll
        for (int run = 0; run < RUNS; ++run) {
            const int column = first_column + run * 128 + lane * 4;
            const float4 four = read_four(matrix + row * at.pitch, column, at.columns, aligned);
            const unsigned int found[4] = {magnitude(four.x), magnitude(four.y), magnitude(four.z), magnitude(four.w)};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const unsigned int finite = found[i] < INFINITE ? found[i] : 0;
                column_peaks[run][i] = max(column_peaks[run][i], at.columns_are_steps ? finite : found[i]);
                peak = max(peak, at.columns_are_steps ? found[i] : finite);
            }
        }
        peak = __reduce_max_sync(0xFFFFFFFF, peak);
        if (lane == 0) atomicMax(at.row_peaks + row, peak);
    }
#pragma unroll
    for (int run = 0; run < RUNS; ++run)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            atomicMax(of_columns + run * 128 + lane * 4 + i, column_peaks[run][i]);
    __syncthreads();
    for (int i = threadIdx.x; i < MEASURED_COLUMNS; i += PASS_THREADS)
        if (first_column + i < at.columns) atomicMax(at.column_peaks + first_column + i, of_columns[i]);
}

// `number` counts the blocks of this operand. Its lines' peaks begin at `peaks`, those of its steps at `depth_peaks`.
__device__ __forceinline__ void measure_operand(const Operand& operand, int number, unsigned int* peaks,
                                                unsigned int* depth_peaks, int steps, unsigned int* of_columns) {
    const bool along = operand.along_depth;
    const int rows = along ? operand.lines : operand.depth, columns = along ? operand.depth : operand.lines;
    const int across = blocks_of(columns, MEASURED_COLUMNS), of_item = across * blocks_of(rows, MEASURED_ROWS);
    const int item = number / of_item, row = number % of_item / across, column = number % across;
    peaks += static_cast<Index>(item) * operand.blocks() * LINES;
    depth_peaks += static_cast<Index>(item) * steps * DEPTH;
    const Measured at = {rows,
                         columns,
                         along ? operand.line_step : operand.depth_step,
                         along,
                         along ? peaks : depth_peaks,
                         along ? depth_peaks : peaks};
    measure_block(operand.first + item * operand.stride, at, row * MEASURED_ROWS, column * MEASURED_COLUMNS,
                  operand.is_aligned(), of_columns);
}

__device__ __forceinline__ int measured_blocks(const Operand& operand) {
    const bool along = operand.along_depth;
    const int rows = along ? operand.lines : operand.depth, columns = along ? operand.depth : operand.lines;
    return operand.items * blocks_of(rows, MEASURED_ROWS) * blocks_of(columns, MEASURED_COLUMNS);
}

// ---- digits ----
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

// In the block that comes last for its lines: the mean over lines of (2^e / root mean square)²; lines of zeros have
// none.
__device__ __forceinline__ void spread_of_lines(const Findings& findings, int block, int depth,
                                                float (&sums)[2][LINES]) {
    if (threadIdx.x < LINES) {
        const Index line = static_cast<Index>(block) * LINES + threadIdx.x;
        const unsigned long long squares = __ldcg(findings.squares + line);
        const bool is_bad = findings.peaks[line] >= INFINITE;
        const float scale = static_cast<float>(1 << (62 - 2 * SQUARE_SHIFT));
        const float spread = squares ? static_cast<float>(depth) * scale / static_cast<float>(squares) : 0.0f;
        sums[0][threadIdx.x] = is_bad ? __uint_as_float(INFINITE) : spread;
        sums[1][threadIdx.x] = squares ? 1.0f : 0.0f;
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

// Of a product of the batch: the largest exponents of A, of B, and of elements that meet, over these DEPTH steps of k.
__device__ __forceinline__ void compare_exponents(const unsigned int* of_a, const unsigned int* of_b,
                                                  unsigned int* exponents) {
    const unsigned int a = of_a[threadIdx.x] >> 23, b = of_b[threadIdx.x] >> 23;
    const unsigned int found[3] = {a, b, of_a[threadIdx.x] && of_b[threadIdx.x] ? a + b : 0};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const unsigned int largest = __reduce_max_sync(0xFFFFFFFF, found[i]);
        if (threadIdx.x % 32 == 0) atomicMax(exponents + i, largest);
    }
}
