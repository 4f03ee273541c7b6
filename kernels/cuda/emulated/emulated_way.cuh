// How many int8 products a tile of an emulated product takes.
//
// Errors are in units of 2^-24·√k·F·F', where F and F' are the magnitudes that the scales of the two lines take to 2^31
// (emulated_judge.cuh), and r = root mean square / F. Digits after the third, if three are taken, and the rounding of q
// leave errors spread evenly over a place of theirs: 0.58·r' and 0.58·r at three digits, a 256th of it at four. Of
// products left out, those of digits 1 and 2 come to 0.47, one of the two to 0.33, those of 2 and 2 to 0.333/256, and
// the three of digit sum 4 to 0.577/256. Sums in float32 are off by 0.27·√k·r·r' or more, those of elements that lie
// far apart by 0.43 of it.
//
// A tile takes the fewest products of which three things hold.
//
// - Its widest line, with lines of the mean spread, is off by no more than float32 sums are, where elements that meet
//   are not related.
// - Its heaviest line, with lines of the mean weight, stays within a limit to E, whatever meets. E bounds what float32
//   sums are off by from below. Elements of a normal distribution have root mean squares a binade above geometric
//   means, and pairs of them two: so the limits of six and eight grant four times what elements of one size would
//   allow. The limit of ten grants twice as much as such elements allow.
// - Its two heaviest lines keep to the class of fp32, |C - A·B| <= 4·√k·2^-24·(|A|·|B|), by eight standard deviations,
//   which are 2·c <= k·2^-E for an error of c. Of ten products the limit above says so.
//
// A library that sums k in parts is off by half as much. There six are too many left out, and MIN_PRODUCTS says how
// many a tile takes that would do with six.
#pragma once

#include "emulated_layout.cuh"
#include "hopper_schedule.cuh"

enum Way { SIX, SEVEN, EIGHT, TEN };
constexpr Way FEWEST = MIN_PRODUCTS == 6 ? SIX : MIN_PRODUCTS == 7 ? SEVEN : MIN_PRODUCTS == 8 ? EIGHT : TEN;

// Binades from the root mean square of a normal distribution down to the mean logarithm of the mean of four magnitudes,
// by logarithms made of straight pieces.
constexpr float NORMAL_MEANS = 0.53f;

// The largest E that a number of products carries.
__device__ __forceinline__ float limit_of(Way way, int depth) {
    const float beyond = way == SIX ? 1.2f : way == EIGHT ? 1.5f : 7.77f;
    return 0.5f * log2f(static_cast<float>(depth)) + beyond;
}

// What each zero of a line weighs. N is smaller by every zero, and both bounds with it: 1.5 are enough for that, since
// -N/k·log2(N/k) <= 1.5·(1 - N/k).
__device__ __forceinline__ float binades_of_zero(int depth) { return limit_of(TEN, depth) + 1.5f; }

// Of spreads (1 / r)², the mean squares over that of F·F'·r·r'.
__device__ __forceinline__ bool is_as_float32(float spread_a, float spread_b, Way way, int depth) {
    const float granted = 0.27f * 0.27f * static_cast<float>(depth);
    const float rounded = 0.34f * (spread_a + spread_b), dropped = spread_a * spread_b;
    const float place = 1.0f / 65536;  // a 256th, squared
    return way == SIX ? 0.22f * dropped + rounded <= granted : 0.11f * place * dropped + rounded <= 0.4f * granted;
}

__device__ __forceinline__ bool is_carried(const Spread& a, const Spread& b, Way way, int depth) {
    return fmaxf(a.heaviest + b.mean_weight, a.mean_weight + b.heaviest) <= limit_of(way, depth) &&
           a.heaviest + b.heaviest <= log2f(static_cast<float>(depth)) - 1.0f &&
           is_as_float32(a.widest, b.mean, way, depth) && is_as_float32(a.mean, b.widest, way, depth);
}

__device__ __forceinline__ Way way_of(const Spread& a, const Spread& b, int depth) {
    if (FEWEST == TEN) return TEN;
    if (is_carried(a, b, SIX, depth)) return FEWEST;
    return is_carried(a, b, EIGHT, depth) ? EIGHT : TEN;
}

__device__ __forceinline__ Spread worse_of(const Spread& one, const Spread& other) {
    return {fmaxf(one.heaviest, other.heaviest), fmaxf(one.mean_weight, other.mean_weight),
            fmaxf(one.widest, other.widest), fmaxf(one.mean, other.mean)};
}

// A tile of C: of which lines, and how. Tiles below each other in a cluster go the same way, as they share digits of B.
struct Task {
    int block_a, block_b;  // of lines
    Way way;

    __device__ __forceinline__ Task(const Findings& findings, const Operand& a, const Operand& b, const Work& work) {
        const int row = work.row / LINES, first = row / CLUSTER * CLUSTER;
        const int before = (a.items > 1 ? work.item : 0) * a.blocks();
        block_a = before + row;
        block_b = a.items * a.blocks() + (b.items > 1 ? work.item : 0) * b.blocks() + work.column / LINES;
        Spread of_a = findings.spreads[before + first];
        for (int other = first + 1; other < min(first + CLUSTER, a.blocks()); ++other)
            of_a = worse_of(of_a, findings.spreads[before + other]);
        way = way_of(of_a, findings.spreads[block_b], a.depth);
    }
};
