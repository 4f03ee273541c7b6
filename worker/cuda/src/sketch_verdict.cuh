// The comparison of C·x with A·(B·x), row by row and group by group, and with what rounding may make of it.
#pragma once
#include "sketch.cuh"

__device__ __forceinline__ Index only_if(bool many, Index item) { return many ? item : 0; }

#if FLOATS
// The squared ratio of a difference to its tolerance: no difference is 0, and what is no number is infinite
// (`row_errors` in worker/check/sketch.py says the same for the host).
__device__ __forceinline__ double squared_ratio(const Check& check, Index at, Index item, Index row,
                                                double difference) {
    const double unit = __ldcg(check.unit + only_if(check.items_x > 1, item) * check.groups + at % check.groups);
    double underflow = check.underflow;
#if SCALED
    const Index of_a = only_if(check.items_a > 1, item) * check.m + row;
    underflow = scaled_down(underflow, exponent_of(__ldcg(check.row_peaks + of_a)));
#endif
    const double q = __ldcg(check.q + at), for_underflow = underflow * underflow * unit;
    const double tolerance = q * check.of_terms + __ldcg(check.r + at) * check.of_sums + for_underflow;
    const double ratio = difference * difference / tolerance;
    if (difference == 0.0 && isfinite(tolerance)) return 0.0;
    // A row that is smaller than what is granted for underflow would pass whatever it is.
    return isfinite(ratio) && isfinite(tolerance) && for_underflow <= q ? ratio : of_bits(INFINITE_BITS);
}

// A row of C with elements that are not finite, though A's is: by a warp.
__device__ __forceinline__ void find_odd_columns(const Check& check, Index line) {
    const Index item = line / check.m, of_x = only_if(check.items_x > 1, item);
    const Output* const row = check.c + item * check.stride_c + line % check.m * check.ldc;
    for (Index column = threadIdx.x % 32; column < check.n; column += 32)
        if (!isfinite(number(row[column])) && __ldcg(check.w + of_x * check.n + column) != 0.0) {
            check.odd_columns[item * check.n + column] = 1;
            *check.worst = INFINITE_BITS;
        }
}

// Of THREADS rows in a group: the largest difference of their projections.
__device__ __forceinline__ void compare(const Check& check, Index unit) {
    const Index at = unit * THREADS + threadIdx.x, line = at / check.groups, item = line / check.m;
    double ratio = 0.0;
    bool again = false;
    if (item < check.batch) {
        double largest = 0.0;
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            double difference = fabs(__ldcg(check.s + at * VECTORS + v) - __ldcg(check.p + at * VECTORS + v));
            if (difference != difference) difference = of_bits(INFINITE_BITS);
            largest = max(largest, difference);
        }
        check.difference[at] = largest;
        const bool bad = __ldcg(check.bad_rows + line) != 0;
        again = !bad && __ldcg(check.odd_rows + line) != 0 && at % check.groups == 0;
        ratio = bad ? of_bits(INFINITE_BITS) : squared_ratio(check, at, item, line % check.m, largest);
    }
    for (int lane = 0; holds_for_any(again) && lane < 32; ++lane)
        if (__shfl_sync(0xFFFFFFFFu, again, lane)) find_odd_columns(check, __shfl_sync(0xFFFFFFFFu, line, lane));
    for (int lanes = 16; lanes > 0; lanes /= 2)
        ratio = fmax(ratio, __shfl_xor_sync(0xFFFFFFFFu, ratio, lanes));
    if (threadIdx.x % 32 == 0) atomicMax(check.worst, bits_of(ratio));
}
#else
// Of THREADS rows: whether some projection differs.
__device__ __forceinline__ void compare(const Check& check, Index unit) {
    const Index at = unit * THREADS + threadIdx.x;
    if (at >= check.batch * check.m) return;
    bool wrong = false;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const Word difference = __ldcg(check.s + at * VECTORS + v) - __ldcg(check.p + at * VECTORS + v);
        wrong = wrong || (check.wraps ? static_cast<unsigned int>(difference) : difference) != 0;
    }
    if (!wrong) return;
    check.bad_rows[at] = 1;
    *check.worst = INFINITE_BITS;
}
#endif
