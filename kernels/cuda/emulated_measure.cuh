// What the largest elements are, of lines and across them: the first pass before an emulated product.
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
