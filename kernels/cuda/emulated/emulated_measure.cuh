// Measures every line of an operand before it is split: the largest magnitude, and how far the others lie below it, as
// sums of logarithms. One pass over the operands as they lie in memory.
//
// A logarithm is read from the bits of a magnitude: shifted down to four bits of mantissa, they are at most 16·(127 +
// log2), a piecewise linear logarithm, truncated. The sum of these is an integer, so its order does not matter, and it
// bounds the geometric mean from below. Zeros and subnormal numbers are neither added nor counted.
//
// The same is summed for sums of four magnitudes. The mean of these logarithms bounds the arithmetic mean from below,
// and comes much closer to the root mean square: it distinguishes elements of one size from those of a normal
// distribution.
#pragma once

#include "emulated_layout.cuh"

constexpr int MEASURED_ROWS = 32, MEASURED_COLUMNS = 512;  // of a matrix as it is stored, by a block of `measure`
constexpr int MEASURED_RUNS = MEASURED_COLUMNS / 128;      // of four neighbours for each lane
constexpr int LOG_SHIFT = 19;                              // leaves 16 to a binade
constexpr int COUNT_SHIFT = 21;                            // of a block's: a count above the sum of logs
constexpr int LINE_COUNT_SHIFT = 36;                       // of a line's
static_assert(MEASURED_COLUMNS * 4096 <= 1 << COUNT_SHIFT, "a sum does not reach the count above it");

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

// A normal number's log, counted; nothing of another.
__device__ __forceinline__ unsigned int counted_log(unsigned int bits) {
    return bits >= SMALLEST_NORMAL ? (bits >> LOG_SHIFT) + (1u << COUNT_SHIFT) : 0;
}

__device__ __forceinline__ unsigned int counted_log_of_four(float one, float two, float three, float four) {
    return counted_log(__float_as_uint((fabsf(one) + fabsf(two)) + (fabsf(three) + fabsf(four))));
}

// Where a block's findings go: from its first line on.
struct Measured {
    unsigned int* peaks;
    unsigned long long *logs, *logs_of_four;

    __device__ __forceinline__ void add(int line, unsigned int peak, unsigned int log, unsigned int log_of_four) const {
        atomicMax(peaks + line, peak);
        atomicAdd(logs + line, of_line(log));
        atomicAdd(logs_of_four + line, of_line(log_of_four));
    }

private:
    static __device__ __forceinline__ unsigned long long of_line(unsigned int found) {
        const unsigned int sum = found & ((1u << COUNT_SHIFT) - 1);
        return static_cast<unsigned long long>(found >> COUNT_SHIFT) << LINE_COUNT_SHIFT | sum;
    }
};

// Rows are lines: a warp takes one after the other.
__device__ __forceinline__ void measure_rows(const float* first, Index pitch, int rows, int columns, bool aligned,
                                             const Measured& to) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MEASURED_ROWS; i += PASS_THREADS / 32) {
        const int row = i + warp;
        if (row >= rows) break;
        unsigned int peak = 0, log = 0, log_of_four = 0;
#pragma unroll
        for (int run = 0; run < MEASURED_RUNS; ++run) {
            const float4 four = read_four(first + row * pitch, run * 128 + lane * 4, columns, aligned);
            const unsigned int bits[4] = {magnitude(four.x), magnitude(four.y), magnitude(four.z), magnitude(four.w)};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                peak = max(peak, bits[j]);
                log += counted_log(bits[j]);
            }
            log_of_four += counted_log_of_four(four.x, four.y, four.z, four.w);
        }
        peak = __reduce_max_sync(0xFFFFFFFF, peak);
        log = __reduce_add_sync(0xFFFFFFFF, log);
        log_of_four = __reduce_add_sync(0xFFFFFFFF, log_of_four);
        if (lane == 0) to.add(row, peak, log, log_of_four);
    }
}

// Of columns of a block; neighbours of a lane lie 32 apart, so that no two lanes meet in a bank.
struct OfColumns {
    unsigned int peaks[MEASURED_COLUMNS], logs[MEASURED_COLUMNS], logs_of_four[MEASURED_COLUMNS];
};

// Columns are lines: a thread takes four rows of each of its columns.
__device__ __forceinline__ void measure_columns(const float* first, Index pitch, int rows, int columns, bool aligned,
                                                const Measured& to, OfColumns& of_columns) {
    constexpr int APART = PASS_THREADS / 32;
    static_assert(MEASURED_ROWS == 4 * APART, "four rows are summed");
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < MEASURED_COLUMNS; i += PASS_THREADS)
        of_columns.peaks[i] = of_columns.logs[i] = of_columns.logs_of_four[i] = 0;
    __syncthreads();
#pragma unroll
    for (int run = 0; run < MEASURED_RUNS; ++run) {
        float4 fours[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = i * APART + warp;
            fours[i] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (row < rows) fours[i] = read_four(first + row * pitch, run * 128 + lane * 4, columns, aligned);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float values[4];
            unsigned int peak = 0, log = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                values[i] = j == 0 ? fours[i].x : j == 1 ? fours[i].y : j == 2 ? fours[i].z : fours[i].w;
                peak = max(peak, magnitude(values[i]));
                log += counted_log(magnitude(values[i]));
            }
            const int place = run * 128 + j * 32 + lane;
            atomicMax(of_columns.peaks + place, peak);
            atomicAdd(of_columns.logs + place, log);
            atomicAdd(of_columns.logs_of_four + place, counted_log_of_four(values[0], values[1], values[2], values[3]));
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MEASURED_COLUMNS; i += PASS_THREADS) {
        const int place = i / 128 * 128 + i % 4 * 32 + i % 128 / 4;
        if (i < columns) to.add(i, of_columns.peaks[place], of_columns.logs[place], of_columns.logs_of_four[place]);
    }
}

// `number` counts the blocks of this operand, whose lines begin at `first_line`.
__device__ __forceinline__ void measure_operand(const Operand& operand, int number, const Findings& findings,
                                                Index first_line, OfColumns& of_columns) {
    const bool along = operand.along_depth;
    const int rows = along ? operand.lines : operand.depth, columns = along ? operand.depth : operand.lines;
    const int across = blocks_of(columns, MEASURED_COLUMNS), of_item = across * blocks_of(rows, MEASURED_ROWS);
    const int item = number / of_item, row = number % of_item / across * MEASURED_ROWS;
    const int column = number % across * MEASURED_COLUMNS;
    const Index pitch = along ? operand.line_step : operand.depth_step;
    const float* const first = operand.first + item * operand.stride + row * pitch + column;
    const Index line = first_line + static_cast<Index>(item) * operand.blocks() * LINES + (along ? row : column);
    const Measured to = {findings.peaks + line, findings.logs + line, findings.logs_of_four + line};
    if (along)
        measure_rows(first, pitch, rows - row, columns - column, operand.is_aligned(), to);
    else
        measure_columns(first, pitch, rows - row, columns - column, operand.is_aligned(), to, of_columns);
}

__device__ __forceinline__ int measured_blocks(const Operand& operand) {
    const bool along = operand.along_depth;
    const int rows = along ? operand.lines : operand.depth, columns = along ? operand.depth : operand.lines;
    return operand.items * blocks_of(rows, MEASURED_ROWS) * blocks_of(columns, MEASURED_COLUMNS);
}
