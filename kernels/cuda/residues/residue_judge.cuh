// How lines are scaled, and how many moduli a product takes; or whether it is left to float64.
//
// Let ã and b̃ be the scaled lines of a row and a column, a' and b' these rounded to integers. Norms of a' and b' are at
// most R, so Σa'b' is told by its remainders, and
//
//   |Σa'b' - Σãb̃| <= ½·Σ|ã| + ½·Σ|b̃| + k/4 <= √k·R
//
// whatever the elements are: rounding is by a half at most, and Σ|ã| <= √k·(R - ½·√k). The class of fp64 grants
// 4·√k·2^-53·Σ|ãb̃|. So the bound of the class holds, without any assumption about roundings, wherever
//
//   Σ|ãb̃| >= R·2^51.                                                                                             (1)
//
// Σ|ãb̃| is not known without multiplying, but bounded by geometric means. With 2^e above a line's elements, and N the
// steps at which both lines have normal numbers, the arithmetic mean is no less than the geometric one:
//
//   Σ|ãb̃| >= N·2^(ẽ + ẽ' - (W + W')/N),   W = Σ(ẽ - log2|ã|) over the line's normal numbers, ẽ: e of the scaled line
//
// since every term of W is positive, so that dropping those that meet zeros only helps. Let h = ẽ + ½·log2(k) -
// log2(R), of either line. Then (1) says (W + W')/N - log2(N/k) <= log2(R) - 51 + h + h' = T. A line with Z zeros (or
// subnormal numbers) among k gives N >= k - Z - Z', and -(1 - z)·log2(1 - z) <= 1.4427·z; so (1) holds wherever both
// lines' weights,
//
//   W/k + Z/k·(T + 1.45) - h,
//
// together are at most log2(R) - 51. For T its largest value is taken, and h counts as at most 4.
#pragma once

#include "residue_measure.cuh"

constexpr float MOST_ABOVE = 4.0f;                // that h counts as
constexpr float STEPS_OF_WEIGHT = 1024.0f;        // to a binade: weights are kept as whole numbers
constexpr float LEAST_WEIGHT = -8.0f;             // no weight is smaller
constexpr unsigned int NO_REMAINDERS = 1u << 24;  // the weight of a line with an infinity or a NaN
constexpr float SPARED = 0.05f;                   // binades, for what putting together rounds

__device__ __forceinline__ float limit_of(int way) { return log_norm_of(way) - 51.0f - SPARED; }

// What is known of a line.
struct Line {
    double squares;  // as a segment's
    int exponent;
    unsigned long long log, count;
    bool is_finite;
};

__device__ __forceinline__ Line line_of(const Findings& findings, Index line) {
    Line found = {0.0, EMPTY, 0, 0, true};
    for (int segment = 0; segment < findings.of_line; ++segment) {
        const Segment next = findings.segments[line * findings.of_line + segment];
        const int exponent = max(found.exponent, next.exponent);
        const int lower = max(found.exponent - exponent, -500), next_lower = max(next.exponent - exponent, -500);
        found.squares = ldexp(found.squares, 2 * lower) + ldexp(static_cast<double>(next.squares), 2 * next_lower);
        found.exponent = exponent;
        found.log += next.log;
        found.count += next.count;
        found.is_finite = found.is_finite && next.count < NOT_FINITE;
    }
    return found;
}

// The scale that takes a line's norm to R at most, and to 4/5 of it at least.
struct Scale {
    int above;  // 2^exponent of the line, scaled, is quarters/4 · 2^above
    int quarters;
};

__device__ __forceinline__ Scale scale_of(const Line& line, int way) {
    const double room = norm_of(way) * (1.0 - 0x1p-16) / sqrt(line.squares);
    const long long bits = __double_as_longlong(room);
    return {static_cast<int>(bits >> 52) - 1023, static_cast<int>(bits >> 50 & 3) + 4};
}

// In steps, rounded up, and counted from LEAST_WEIGHT.
__device__ __forceinline__ unsigned int weight_of(const Line& line, const Scale& scale, int way, int depth) {
    const float k = static_cast<float>(depth), limit = limit_of(way);
    const float part = static_cast<float>(line.count) / k;
    const double below = static_cast<double>(line.count) * (line.exponent + 1023) - static_cast<double>(line.log) / 16;
    const int quarters = scale.quarters;
    const float quarter_log = quarters == 4 ? 0.0f : quarters == 5 ? 0.3219f : quarters == 6 ? 0.5849f : 0.8073f;
    const float above = static_cast<float>(scale.above) + quarter_log + 0.5f * log2f(k) - log_norm_of(way);
    const float of_zeros = (1.0f - part) * (limit + 2.0f * MOST_ABOVE + 1.45f);
    const float weight = static_cast<float>(below / depth) + of_zeros - fminf(above, MOST_ABOVE);
    return static_cast<unsigned int>(ceilf((fmaxf(weight, LEAST_WEIGHT) - LEAST_WEIGHT) * STEPS_OF_WEIGHT));
}

// By a thread: a line's scales, and its weights into those that are heaviest so far.
__device__ __forceinline__ void judge_line(const Findings& findings, Index line, int depth,
                                           unsigned int (&heaviest)[WAYS]) {
    const Line found = line_of(findings, line);
    const bool is_empty = found.is_finite && found.exponent == EMPTY;
#pragma unroll
    for (int way = 0; way < WAYS; ++way) {
        int packed = 0;
        if (!found.is_finite) {
            atomicMax(&heaviest[way], NO_REMAINDERS);
        } else if (!is_empty) {
            const Scale scale = scale_of(found, way);
            packed = packed_scale(scale.above - found.exponent, scale.quarters);
            atomicMax(&heaviest[way], weight_of(found, scale, way, depth));
        }
        findings.scales[way * findings.lines + line] = packed;
    }
}

// Past the last line, where `split` reads zeros: they are scaled, too.
__device__ __forceinline__ void set_empty(const Findings& findings, Index line) {
    for (int way = 0; way < WAYS; ++way)
        findings.scales[way * findings.lines + line] = 0;
}

// By one thread, once all lines are judged.
__device__ __forceinline__ void decide(Verdict& verdict) {
    for (int way = 0; way < WAYS; ++way) {
        const float limit = (limit_of(way) - 2.0f * LEAST_WEIGHT) * STEPS_OF_WEIGHT;
        if (__ldcg(&verdict.heaviest[0][way]) + __ldcg(&verdict.heaviest[1][way]) <= static_cast<unsigned int>(limit)) {
            verdict.moduli = FEWEST + way;
            return;
        }
    }
    verdict.in_float64 = 1;
}
