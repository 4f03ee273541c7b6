// Which lines digits can carry, and what the others need. Everything follows from the sums of logarithms that `measure`
// leaves, so the same operands are always treated alike.
//
// Let F be the magnitude that a line's scale takes to 2^31, and let E be the mean of log2(F·F' / |a·b|) over the N
// steps of k at which a row of A and a column of B both have normal numbers. The arithmetic mean is no less than the
// geometric one, so Σ|a·b| >= N·F·F'·2^-E and Σ(a·b)² >= N·(F·F'·2^-E)². Errors of digits are relative to F·F', so a
// limit to E is a limit to errors relative to both: the first is the bound of the class of fp32, the second what sums
// in float32 are off by.
//
// E is not known without multiplying, but bounded. A line with Z zeros (or subnormal numbers) among k, whose other
// elements lie W binades below F when added up, gives E·N <= W + W' and N >= k - Z - Z'. With zeros counted as so many
// binades, E <= limit wherever both lines' weights, (W + Z·binades) / k, together stay below the limit.
#pragma once

#include "emulated_measure.cuh"
#include "emulated_way.cuh"

constexpr int STEPS_OF_WEIGHT = 8;               // to a binade: weights are kept as whole numbers
constexpr int NO_DIGITS = WEIGHTS - 1;           // the weight of a line with an infinity or a NaN
constexpr int LISTED_PART = 32, MIN_LISTED = 4;  // of an operand's lines at most one in so many is listed
constexpr unsigned int PARTS = 1 << 20;          // of an operand, in which listed lines are compared

struct LineFound {
    float weight;     // binades
    float spread;     // (largest element / root mean square)²
    int kept_weight;  // rounded up, in steps
    bool is_empty;    // nothing but zeros
};

// How many binades below F a mean of logarithms lies, from their sum, and how many they are.
__device__ __forceinline__ float binades_below(float full, unsigned long long log) {
    const float count = static_cast<float>(log >> LINE_COUNT_SHIFT);
    const float sum = static_cast<float>(log & ((1ull << LINE_COUNT_SHIFT) - 1));
    return full - sum / (16.0f * count);
}

__device__ __forceinline__ LineFound line_found(const Findings& findings, Index line, int depth) {
    const unsigned int peak = findings.peaks[line];
    const unsigned long long log = findings.logs[line], log_of_four = findings.logs_of_four[line];
    if (peak == 0) return {0.0f, 0.0f, 0, true};
    if (peak >= INFINITE || log >> LINE_COUNT_SHIFT == 0) return {0.0f, 0.0f, NO_DIGITS, false};
    const int quarters = line_quarters(peak);
    const float below = quarters == 0 ? 0.0f : quarters == 1 ? 0.3219281f : quarters == 2 ? 0.5849625f : 0.8073549f;
    const float full = static_cast<float>(line_exponent(peak) + 127) - below, k = static_cast<float>(depth);
    const float part = static_cast<float>(log >> LINE_COUNT_SHIFT) / k;
    const float weight = binades_below(full, log) * part + binades_of_zero(depth) * (1.0f - part);
    const float fours = static_cast<float>(log_of_four >> LINE_COUNT_SHIFT);
    const float below_mean = binades_below(full, log_of_four) + 2.0f - NORMAL_MEANS;
    const float spread = exp2f(2.0f * below_mean) * fmaxf(k / (4.0f * fours), 1.0f);
    return {weight, spread, min(static_cast<int>(ceilf(fmaxf(weight, 0.0f) * STEPS_OF_WEIGHT)), NO_DIGITS - 1), false};
}

// Run by a warp. Writes the spread of a block of lines, of those that weigh `most` at most. Calls `visit` for every
// line that is not empty, with its number in the block and its weight.
template <class Visit>
__device__ __forceinline__ void judge_lines(const Findings& findings, int block, int depth, int most, Visit visit) {
    const int lane = threadIdx.x % 32;
    Spread found = {0.0f, 0.0f, 0.0f, 0.0f};
    float count = 0.0f;
#pragma unroll
    for (int i = 0; i < LINES / 32; ++i) {
        const LineFound line = line_found(findings, static_cast<Index>(block) * LINES + i * 32 + lane, depth);
        if (line.is_empty) continue;
        visit(i * 32 + lane, line.kept_weight);
        if (line.kept_weight > most) continue;
        count += 1.0f;
        found = {fmaxf(found.heaviest, line.weight), found.mean_weight + line.weight, fmaxf(found.widest, line.spread),
                 found.mean + line.spread};
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        count += __shfl_xor_sync(0xFFFFFFFF, count, lanes);
        found = {fmaxf(found.heaviest, __shfl_xor_sync(0xFFFFFFFF, found.heaviest, lanes)),
                 found.mean_weight + __shfl_xor_sync(0xFFFFFFFF, found.mean_weight, lanes),
                 fmaxf(found.widest, __shfl_xor_sync(0xFFFFFFFF, found.widest, lanes)),
                 found.mean + __shfl_xor_sync(0xFFFFFFFF, found.mean, lanes)};
    }
    const float lines = fmaxf(count, 1.0f);
    if (lane == 0)
        findings.spreads[block] = {found.heaviest, found.mean_weight / lines, found.widest, found.mean / lines};
}

// What the threads of a block of `judge` share.
struct Judging {
    unsigned int weights[2][WEIGHTS];  // how many lines of A and of B have each; in the end, how many have it or more
    unsigned int heaviest[2];
    unsigned int best;  // what is listed, in parts of both operands, and of A's weights the largest that is not
    bool is_last;
};

// The largest sum of two weights that ten products carry.
__device__ __forceinline__ int largest_sum(int depth) {
    return min(static_cast<int>(limit_of(TEN, depth) * STEPS_OF_WEIGHT), NO_DIGITS - 1);
}

__device__ __forceinline__ unsigned int lines_above(const Judging& judging, int is_b, int weight) {
    return judging.weights[is_b][weight + 1];
}

// Run by a block, once all lines are counted. Chooses how the largest sum of weights, `most`, is divided between A and
// B so that the fewest lines weigh more than their share. Returns A's share.
__device__ __forceinline__ int divide(Judging& judging, const Findings& findings, int all_a, int all_b, int most) {
    const int own = threadIdx.x;
    if (own == 0) judging.best = 0xFFFFFFFF;
    for (int is_b = 0; is_b < 2; ++is_b)
        judging.weights[is_b][own] = __ldcg(&findings.verdict->weights[is_b][own]);
    __syncthreads();
    for (int apart = 1; apart < WEIGHTS; apart *= 2) {
        unsigned int more[2];
        for (int is_b = 0; is_b < 2; ++is_b)
            more[is_b] = own + apart < WEIGHTS ? judging.weights[is_b][own + apart] : 0;
        __syncthreads();
        for (int is_b = 0; is_b < 2; ++is_b)
            judging.weights[is_b][own] += more[is_b];
        __syncthreads();
    }
    if (own <= most) {
        const unsigned int part_a = static_cast<unsigned long long>(lines_above(judging, 0, own)) * PARTS / all_a;
        const unsigned int part_b =
            static_cast<unsigned long long>(lines_above(judging, 1, most - own)) * PARTS / all_b;
        atomicMin(&judging.best, (part_a + part_b) * WEIGHTS + own);
    }
    __syncthreads();
    return judging.best % WEIGHTS;
}

__device__ __forceinline__ bool are_few(unsigned int listed, int all) {
    return listed <= static_cast<unsigned int>(max(all / LISTED_PART, MIN_LISTED));
}

// Run by the last block, where some pairs of lines weigh more than ten products can carry.
__device__ __forceinline__ void list_lines(Judging& judging, const Findings& findings, const Operand& a,
                                           const Operand& b) {
    const int all_a = a.items * a.lines, all_b = b.items * b.lines, most = largest_sum(a.depth);
    const int most_a = divide(judging, findings, all_a, all_b, most), most_b = most - most_a;
    if (!are_few(lines_above(judging, 0, most_a), all_a) || !are_few(lines_above(judging, 1, most_b), all_b)) {
        if (threadIdx.x == 0) findings.verdict->in_float32 = 1;
        return;
    }
    if (threadIdx.x == 0) findings.verdict->any_listed = 1;
    const int blocks_a = a.items * a.blocks(), blocks = blocks_a + b.items * b.blocks();
    for (int block = threadIdx.x / 32; block < blocks; block += PASS_THREADS / 32) {
        const bool is_b = block >= blocks_a;
        const int of_item = is_b ? b.blocks() : a.blocks(), within = is_b ? block - blocks_a : block;
        const int item = within / of_item, before = block - within % of_item, most_here = is_b ? most_b : most_a;
        unsigned int* const list = findings.lists + static_cast<Index>(before) * LINES;
        unsigned int* const listed = findings.listed + (is_b ? a.items : 0) + item;
        judge_lines(findings, block, a.depth, most_here, [&](int line, int weight) {
            if (weight > most_here) list[atomicAdd(listed, 1u)] = within % of_item * LINES + line;
        });
    }
}
