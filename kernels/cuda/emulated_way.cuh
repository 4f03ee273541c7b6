// How a tile of an emulated product is made: of how many int8 products, or on CUDA cores.
#pragma once

#include "emulated_layout.cuh"
#include "hopper_schedule.cuh"

enum Way { PLAIN, SIX, SEVEN, EIGHT, TEN };
constexpr Way FEWEST = LEAST == 6 ? SIX : LEAST == 7 ? SEVEN : LEAST == 8 ? EIGHT : TEN;

// What a tile takes, by what it is off by in the mean square, in units of 2^-24·√k·(root mean squares of its lines).
//
// Let s = 2^31 / root mean square of a line's q. Digits after the third, if three are taken, and the rounding of q
// leave errors spread evenly over a place of theirs: 0.58·s from each operand at three digits, a 256th of it at four.
// Of products left out, those of digits 1 and 2 come to 0.47·s·s', of 2 and 2 to 0.333/256·s·s', and the three of digit
// sum 4 to 0.577/256·s·s'. Sums in float32 are off by 0.3·√k (cuBLAS, measured; a random walk's rounding gives 0.41).
//
// Elements that lie far apart, so that eight or ten are asked for, leave a float32 sum many terms too small to be
// rounded in it: over 40 binades it is off by 0.43 of that, measured, and so is what eight may be off by.
//
// That holds where large elements of A meet large ones of B. If the largest that meet have exponents `gap` less than
// the largest of each, terms may be that much smaller than the lines let expect, and float32's errors with them. One is
// chance.
//
// A library that sums k in parts is off by half of that. There six are too many left out, and LEAST says how many a
// tile takes that would do with six: with seven, one of the two products of digits 1 and 2 is left out, 0.33·s·s'. Of a
// short and wide product it may sum so many parts that eight are too few; ten leave next to nothing but the last
// rounding.
__device__ __forceinline__ Way way_of(float spread_a, float spread_b, const unsigned int* exponents, int k) {
    const int gap = max(0, static_cast<int>(exponents[0] + exponents[1] - exponents[2]) - 1);
    const float granted = 0.27f * 0.27f * static_cast<float>(k), smaller = exp2f(2.0f * min(gap, 60));
    const float rounded = 0.34f * (spread_a + spread_b) * smaller, dropped = spread_a * spread_b * smaller;
    const float place = 1.0f / 65536;  // a 256th, squared
    if (0.22f * dropped + rounded <= granted) return FEWEST;
    if (0.11f * place * dropped + rounded <= 0.4f * granted) return FEWEST == TEN ? TEN : EIGHT;
    return place * (0.33f * dropped + rounded) <= granted ? TEN : PLAIN;
}

// A tile of C: of which lines, and how. Tiles below each other in a cluster go the same way, as they share digits of B.
struct Task {
    int block_a, block_b;  // of lines
    Way way;

    __device__ __forceinline__ Task(const Findings& findings, const Operand& a, const Operand& b, const Work& work)
        : way(PLAIN) {
        const int row = work.row / LINES, first = row / CLUSTER * CLUSTER;
        const int before = (a.items > 1 ? work.item : 0) * a.blocks();
        block_a = before + row;
        block_b = a.items * a.blocks() + (b.items > 1 ? work.item : 0) * b.blocks() + work.column / LINES;
        if (is_direct(a.lines, b.lines, a.depth)) return;
        float spread_a = 0;
        for (int other = first; other < min(first + CLUSTER, a.blocks()); ++other)
            spread_a = fmaxf(spread_a, findings.spreads[before + other]);
        way = way_of(spread_a, findings.spreads[block_b], findings.exponents + 4ll * work.item, a.depth);
    }
};
