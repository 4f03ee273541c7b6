// Measures lines before they are scaled: how large the elements of each segment are, in one pass over the operands as
// they lie in memory. Only the upper halves of elements are read, as integers.
//
// A logarithm is read from these bits: shifted down to four bits of mantissa, they are at most 16·(1023 + log2), a
// piecewise linear logarithm, truncated. The sum of these bounds the geometric mean from below. Zeros and subnormal
// numbers are not added.
#pragma once

#include "residue_layout.cuh"

constexpr int LOG_SHIFT = 16;  // leaves 16 to a binade
static_assert(SEGMENT == 32 * RUN, "a warp takes a segment at once");

// The upper half of a magnitude, no smaller than it is: whatever the lower half has counts for its last place.
__device__ __forceinline__ unsigned int upper_half(double value) {
    const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
    return (static_cast<unsigned int>(bits >> 32) & 0x7FFFFFFF) | (static_cast<unsigned int>(bits) != 0);
}

// value · 2^-exponent or a little more, of a value below 2^exponent. A subnormal number is taken for a larger one.
__device__ __forceinline__ float scaled_up(unsigned int half, int exponent) {
    const int biased = static_cast<int>(half >> 20) - 1023 - exponent + 127;
    const unsigned int mantissa = ((half & 0xFFFFF) + 1) << 3;  // may carry into the exponent
    return biased > 0 ? __uint_as_float((static_cast<unsigned int>(biased) << 23) + mantissa) : 0x1p-126f;
}

// squares · 4^-binades or a little more.
__device__ __forceinline__ float lowered(float squares, int binades) {
    return binades < 60 ? squares * __uint_as_float(static_cast<unsigned int>(127 - 2 * binades) << 23) : 0x1p-110f;
}

__device__ __forceinline__ Segment nothing() { return {0.0f, EMPTY, 0, 0}; }

// Both together. The same whichever comes first.
__device__ __forceinline__ Segment joined(const Segment& one, const Segment& other) {
    const int exponent = max(one.exponent, other.exponent);
    return {lowered(one.squares, exponent - one.exponent) + lowered(other.squares, exponent - other.exponent), exponent,
            one.log + other.log, one.count + other.count};
}

__device__ __forceinline__ Segment measured(const double (&values)[RUN]) {
    unsigned int halves[RUN], peak = 0;
    Segment found = nothing();
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        halves[i] = upper_half(values[i]);
        peak = max(peak, halves[i]);
    }
    if (peak == 0) return found;
    if (peak >= INFINITE) return {0.0f, EMPTY, 0, NOT_FINITE};
    found.exponent = static_cast<int>(peak >> 20) - 1022;
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        if (halves[i] == 0) continue;
        const float value = scaled_up(halves[i], found.exponent);
        found.squares = fmaf(value, value, found.squares);
        if (halves[i] >= SMALLEST_NORMAL) {
            found.log += halves[i] >> LOG_SHIFT;
            ++found.count;
        }
    }
    return found;
}

// RUN numbers of a line from the element at `depth` on; zeros past the last of either. `whole`: no bounds are met.
template <bool ALONG>
__device__ __forceinline__ void read_run(double (&values)[RUN], const double* matrix, const Operand& operand, int line,
                                         int depth, bool whole, bool aligned) {
    const double* const first =
        matrix + line * operand.line_step * (ALONG ? 1 : NUMBERS) + depth * operand.depth_step * (ALONG ? NUMBERS : 1);
    if ((ALONG || IS_COMPLEX) && whole && aligned) {
#pragma unroll
        for (int i = 0; i < RUN; i += 2) {
            const double* const at = first + (ALONG ? i : i / 2 * operand.depth_step);
            const double2 two = *reinterpret_cast<const double2*>(at);
            values[i] = two.x, values[i + 1] = two.y;
        }
        return;
    }
    const int left = line < operand.lines ? operand.depth - depth : 0;
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
        const int step = i / NUMBERS;
        values[i] = whole || step < left ? first[ALONG ? i : step * operand.depth_step + i % NUMBERS] : 0.0;
    }
}

// A warp's segment of a line of `depth` numbers, neighbours by neighbours: which lane has which does not matter.
__device__ __forceinline__ void read_across_warp(double (&values)[RUN], const double* line, int first, int depth,
                                                 bool aligned) {
#pragma unroll
    for (int i = 0; i < RUN; i += 2) {
        const int step = first + i * 32 + threadIdx.x % 32 * 2;
        double2 two = {0.0, 0.0};
        if (aligned && step + 2 <= depth) {
            two = *reinterpret_cast<const double2*>(line + step);
        } else {
            if (step < depth) two.x = line[step];
            if (step + 1 < depth) two.y = line[step + 1];
        }
        values[i] = two.x, values[i + 1] = two.y;
    }
}

// Where lines lie along memory, a warp takes a segment, and segments are numbered line by line. Where they lie across,
// a block takes segments of a warp's width of neighbouring lines, a part of the steps for each warp; these are numbered
// through the lines first.
constexpr int PART = SEGMENT / WARPS / NUMBERS;  // steps of a segment that a warp takes across lines
constexpr int RUN_STEPS = RUN / NUMBERS;         // of a run
static_assert(PART % RUN_STEPS == 0, "parts are whole runs");

// Blocks that measure an operand.
__device__ __forceinline__ int measured_blocks(const Operand& operand, bool along, int of_line) {
    const Index each = along ? WARPS : 1, side = along ? operand.lines : blocks_of(operand.lines, 32);
    return static_cast<int>((operand.items * side * of_line + each - 1) / each);
}

// Where what is found of a line's segment goes.
__device__ __forceinline__ Segment& place_of(const Findings& findings, const Operand& operand, Index first_line,
                                             int item, int line, int segment) {
    return findings
        .segments[(first_line + static_cast<Index>(item) * operand.blocks() * LINES + line) * findings.of_line +
                  segment];
}

// By a warp: a segment of a line.
__device__ __forceinline__ void measure_along(const Operand& operand, Index number, const Findings& findings,
                                              Index first_line) {
    const Index of_item = static_cast<Index>(operand.lines) * findings.of_line;
    if (number >= operand.items * of_item) return;
    const int item = static_cast<int>(number / of_item), within = static_cast<int>(number - item * of_item);
    const int line = within / findings.of_line, segment = within % findings.of_line;
    double values[RUN];
    read_across_warp(values, operand.first + item * operand.stride + line * operand.line_step, segment * SEGMENT,
                     operand.depth * NUMBERS, operand.is_aligned());
    Segment found = measured(values);
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2)
        found = joined(
            found,
            {__shfl_xor_sync(0xFFFFFFFF, found.squares, lanes), __shfl_xor_sync(0xFFFFFFFF, found.exponent, lanes),
             __shfl_xor_sync(0xFFFFFFFF, found.log, lanes), __shfl_xor_sync(0xFFFFFFFF, found.count, lanes)});
    if (threadIdx.x % 32 == 0) place_of(findings, operand, first_line, item, line, segment) = found;
}

// By a block: a segment of 32 lines.
__device__ __forceinline__ void measure_across(const Operand& operand, Index number, const Findings& findings,
                                               Index first_line, Segment (&parts)[WARPS][32]) {
    const int across = blocks_of(operand.lines, 32), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Index of_item = static_cast<Index>(across) * findings.of_line;
    const int item = static_cast<int>(number / of_item), within = static_cast<int>(number - item * of_item);
    const int line = within % across * 32 + lane, segment = within / across;
    const double* const matrix = operand.first + item * operand.stride;
    const int first = segment * (SEGMENT / NUMBERS) + warp * PART, last = min(first + PART, operand.depth);
    const bool inside = within % across * 32 + 32 <= operand.lines, aligned = IS_COMPLEX && operand.is_aligned();
    Segment found = nothing();
    for (int depth = first; depth < last; depth += RUN_STEPS) {
        double values[RUN];
        read_run<false>(values, matrix, operand, line, depth, inside && depth + RUN_STEPS <= operand.depth, aligned);
        found = joined(found, measured(values));
    }
    parts[warp][lane] = found;
    __syncthreads();
    if (warp > 0 || line >= operand.lines) return;
    for (int part = 1; part < WARPS; ++part)
        found = joined(found, parts[part][lane]);
    place_of(findings, operand, first_line, item, line, segment) = found;
}
