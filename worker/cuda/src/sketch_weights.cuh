// Random vectors and weights of a product's columns, in proportion to the norms of B's columns.
#pragma once
#include "sketch.cuh"

#if FLOATS
constexpr double NEGLIGIBLE = 0x1p-1000;
#if SCALED
constexpr int LEAST_EXPONENT = -1073;  // of any column but of zeros
#else
constexpr int LEAST_EXPONENT = -148;
// Smallest normal number of C's type. A column of B with a smaller norm would hide all others, and so would one whose
// elements are rounded as the floor is (`min_norm` in worker/check/sketch.py).
#if defined(OUTPUT_FLOAT16) || (defined(DTYPE_FLOAT16) && !defined(OUTPUT_FLOAT32) && !defined(OUTPUT_BFLOAT16))
constexpr double SMALLEST_NORMAL = 0x1p-14;
#else
constexpr double SMALLEST_NORMAL = 0x1p-126;
#endif

// Half of that of a sum of squares.
__device__ __forceinline__ int column_exponent(double squares) {
    return max(min((exponent_of(bits_of(squares)) + 1) >> 1, 500), -500);
}
#endif

// x and w of a column, and what it adds to its group's unit. Whatever C has in a column of zeros is wrong: its x is the
// largest, and nothing is granted for it.
__device__ __forceinline__ double weigh(const Check& check, Index of_b, Index item, Index column, double largest) {
    const Peak peak = __ldcg(check.peaks + of_b * check.n + column);
    const bool zero = peak == Peak{} && !check.common;
#if SCALED
    const bool bad = peak >= INFINITE_BITS;
    const int exponent = bad ? 0 : zero ? LEAST_EXPONENT : exponent_of(peak), within = 0;
    check.exponents[of_b * check.n + column] = exponent;
#else
    const double least = fmax(SMALLEST_NORMAL * SMALLEST_NORMAL, check.floor2 * static_cast<double>(check.k));
    const bool tiny = !zero && !check.common && peak < least, bad = tiny || !isfinite(peak);
    const double square = check.common ? largest : peak;
    const int exponent = bad ? 0 : zero ? LEAST_EXPONENT : column_exponent(square), within = exponent;
#endif
    if (bad) {
        check.bad_columns[of_b * check.n + column] = 1;
        *check.worst = INFINITE_BITS;
    }
    const Index at = item * check.n + column;
    const bool left_out = bad || (check.excluded != nullptr && check.excluded[at] != 0);
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        const Philox words = random_words(check, item, column, part, 2);
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // sign and 31 bits of fraction
            const Word sign = words.at[i] >> 31, fraction = words.at[i] & 0x7FFFFFFFu;
            const Word bits = sign << 63 | static_cast<Word>(1023 - within) << 52 | fraction << 21;
            check.x[at * VECTORS + part * 4 + i] = left_out ? 0.0 : of_bits(bits);
        }
    }
    check.w[at] = left_out ? 0.0 : zero ? NEGLIGIBLE : 7.0 / 3.0 * power_of_two(-2 * within);
    // Below the normal numbers nothing of a group's unit is left.
    const int lowest = max(exponent, -500);
    return left_out || zero || lowest > 511 ? 0.0 : 7.0 / 3.0 * power_of_two(-2 * lowest);
}

// Of `count` columns from `first` on, by all threads of the block. `largest` is the largest of all columns' peaks, for
// columns that are scaled alike.
__device__ __forceinline__ void weigh_columns(const Check& check, Index of_b, Index first, Index count,
                                              double largest) {
    for (Index item = of_b; item < check.items_x; item += check.items_b)
        for (Index begin = 0; begin < count; begin += THREADS) {
            const Index column = first + begin + threadIdx.x;
            const bool inside = begin + threadIdx.x < count && column < check.n;
            double unit = inside ? weigh(check, of_b, item, column, largest) : 0.0;
            const Index of_warp = (column - threadIdx.x % 32) / check.width;  // group of the warp's first column
            const bool alike = !inside || column / check.width == of_warp;
            if (unit != 0.0 && !alike) atomicAdd(check.unit + item * check.groups + column / check.width, unit);
            if (!alike) unit = 0.0;
            for (int lanes = 16; lanes > 0; lanes /= 2)
                unit += __shfl_xor_sync(0xFFFFFFFFu, unit, lanes);
            if (threadIdx.x % 32 == 0 && unit != 0.0) atomicAdd(check.unit + item * check.groups + of_warp, unit);
        }
}

// Of an item's columns, those that are not finite apart. Every thread gets it.
__device__ __forceinline__ double largest_peak(const Check& check, Index of_b, double (&of_warps)[WARPS]) {
    double peak = 0.0;
#if !SCALED
    for (Index column = threadIdx.x; column < check.n; column += THREADS) {
        const double own = __ldcg(check.peaks + of_b * check.n + column);
        peak = isfinite(own) ? fmax(peak, own) : peak;
    }
#endif
    for (int lanes = 16; lanes > 0; lanes /= 2)
        peak = fmax(peak, __shfl_xor_sync(0xFFFFFFFFu, peak, lanes));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = peak;
    __syncthreads();
    for (int warp = 0; warp < WARPS; ++warp)
        peak = fmax(peak, of_warps[warp]);
    __syncthreads();
    return peak;
}
#endif
