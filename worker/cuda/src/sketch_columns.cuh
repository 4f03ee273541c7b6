// What comes before the projections: the exponents of B's columns and, for float64, of A's rows; random vectors in
// proportion to them.
#pragma once
#include "sketch_patch.cuh"
#include "sketch_weights.cuh"

// ---- sums of squares, or largest magnitudes, of lines of a stored matrix ----
#if FLOATS
template <bool FINITE>  // whether to pass over what is not finite
__device__ __forceinline__ void include(Peak& peak, Element element) {
#if SCALED
    const Word magnitude = bits_of(element) & ~(1ull << 63);
    if (!FINITE || magnitude < INFINITE_BITS) peak = max(peak, magnitude);
#else
    const double value = number(element);
    peak = fma(value, value, peak);
#endif
}

__device__ __forceinline__ void merge(Peak& peak, Peak other) { peak = SCALED ? max(peak, other) : peak + other; }

__device__ __forceinline__ void merge_into(Peak* place, Peak peak) {
#if SCALED
    atomicMax(place, peak);
#else
    atomicAdd(place, peak);
#endif
}

// As the matrix is stored.
struct Lines {
    const Element* elements;
    Index rows, columns, pitch;
};

constexpr int RUN = 16 / sizeof(Element);
typedef Run<Element, RUN> Elements;
constexpr int ACROSS = 32 * RUN;                     // columns of a block of `across`
constexpr int OF_WARP = 4, ALONG = OF_WARP * WARPS;  // rows of a warp, and of a block, of `along`
constexpr int AHEAD = 4;                             // runs that a lane has on their way
typedef Peak PeaksOfWarps[WARPS][ACROSS];

__device__ __forceinline__ bool is_aligned(const Lines& matrix) {
    return (reinterpret_cast<Word>(matrix.elements) | static_cast<Word>(matrix.pitch) * sizeof(Element)) % 16 == 0;
}

// Of columns from `first_column` on, over rows [row, last): a lane has RUN of them.
template <bool FINITE>
__device__ __forceinline__ void across(const Lines& matrix, Index first_column, Index row, Index last, Peak* peaks,
                                       PeaksOfWarps& of_warps) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Index column = first_column + lane * RUN, left = matrix.columns - column;
    const bool whole = is_aligned(matrix) && left >= RUN;
    Peak found[RUN] = {};
#pragma unroll 1
    for (row += warp; row < last; row += AHEAD * WARPS) {
        Elements runs[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const Element* const from = matrix.elements + (row + i * WARPS) * matrix.pitch + column;
            const bool inside = row + i * WARPS < last;
            if (whole && inside)
                runs[i].read(from);
            else
                runs[i].read_some(from, inside ? left : 0);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int j = 0; j < RUN; ++j)
                include<FINITE>(found[j], runs[i].elements[j]);
    }
#pragma unroll
    for (int j = 0; j < RUN; ++j)
        of_warps[warp][lane * RUN + j] = found[j];
    __syncthreads();
    for (int j = threadIdx.x; j < ACROSS && first_column + j < matrix.columns; j += THREADS) {
        Peak all = of_warps[0][j];
#pragma unroll
        for (int i = 1; i < WARPS; ++i)
            merge(all, of_warps[i][j]);
        merge_into(peaks + first_column + j, all);
    }
}

// Of rows from `first_row` on, over columns [column, last), where `column` is a multiple of RUN.
template <bool FINITE>
__device__ __forceinline__ void along(const Lines& matrix, Index first_row, Index column, Index last, Peak* peaks) {
    const Index row = first_row + threadIdx.x / 32 * OF_WARP;
    const bool aligned = is_aligned(matrix);
    Peak found[OF_WARP] = {};
#pragma unroll 2
    for (column += threadIdx.x % 32 * RUN; column < last; column += 32 * RUN) {
        Elements runs[OF_WARP];
#pragma unroll
        for (int i = 0; i < OF_WARP; ++i) {
            const Element* const from = matrix.elements + min(row + i, matrix.rows - 1) * matrix.pitch + column;
            if (aligned && column + RUN <= last)
                runs[i].read(from);
            else
                runs[i].read_some(from, last - column);
        }
#pragma unroll
        for (int i = 0; i < OF_WARP; ++i)
#pragma unroll
            for (int j = 0; j < RUN; ++j)
                include<FINITE>(found[i], runs[i].elements[j]);
    }
#pragma unroll
    for (int i = 0; i < OF_WARP; ++i) {
        for (int lanes = 16; lanes > 0; lanes /= 2)
            merge(found[i], __shfl_xor_sync(0xFFFFFFFFu, found[i], lanes));
        if (threadIdx.x % 32 == 0 && row + i < matrix.rows) merge_into(peaks + row + i, found[i]);
    }
}

// Of a unit's strip of lines; neighbouring units have neighbouring strips.
template <bool IN_ROWS, bool FINITE>  // whether lines are rows of the stored matrix
__device__ __forceinline__ void find_peaks(const Lines& matrix, Index strip, Index range, Index each, Peak* peaks,
                                           PeaksOfWarps& of_warps) {
    const Index length = IN_ROWS ? matrix.columns : matrix.rows, first = range * each, last = min(first + each, length);
    if constexpr (IN_ROWS)
        along<FINITE>(matrix, strip * ALONG, first, last, peaks);
    else
        across<FINITE>(matrix, strip * ACROSS, first, last, peaks, of_warps);
}

constexpr int STRIP = TRANSPOSE_B ? ALONG : ACROSS;  // columns
struct ColumnsShared {
    PeaksOfWarps of_warps;
    double largest[WARPS];
    int last;
};

// The last unit of a strip, when all its columns' peaks are known, makes their weights. Where columns are scaled alike,
// all are one strip.
__device__ __forceinline__ void columns(const Check& check, Index unit, ColumnsShared& shared) {
    const Index of_item = check.units_of_columns / check.items_b, item = unit / of_item, at = unit % of_item;
    const Index strip = at % check.strips, ranges = of_item / check.strips;
    const Index rows = TRANSPOSE_B ? check.n : check.k, columns = TRANSPOSE_B ? check.k : check.n;
    const Lines matrix = {check.b + item * check.stride_b, rows, columns, check.ldb};
    find_peaks<TRANSPOSE_B, false>(matrix, strip, at / check.strips, check.columns_each, check.peaks + item * check.n,
                                   shared.of_warps);
    const Index counted = check.common ? 0 : strip, total = check.common ? of_item : ranges;
    if (!comes_last(check.strips_done + item * check.strips + counted, total, shared.last)) return;
    const double largest = check.common ? largest_peak(check, item, shared.largest) : 0.0;
    weigh_columns(check, item, counted * STRIP, check.common ? check.n : STRIP, largest);
    __threadfence();
    __syncthreads();
    for (Index i = threadIdx.x; i < (check.common ? check.strips : 1); i += THREADS)
        atomicAdd(check.strips_ready + item * check.strips + counted + i, 1u);
}

#if SCALED
__device__ __forceinline__ void rows(const Check& check, Index unit, ColumnsShared& shared) {
    constexpr int OF_STRIP = TRANSPOSE_A ? ACROSS : ALONG;
    const Index of_item = check.units_of_rows / check.items_a, item = unit / of_item, at = unit % of_item;
    const Index strips = (check.m + OF_STRIP - 1) / OF_STRIP;
    const Index rows = TRANSPOSE_A ? check.k : check.m, columns = TRANSPOSE_A ? check.m : check.k;
    const Lines matrix = {check.a + item * check.stride_a, rows, columns, check.lda};
    find_peaks<!TRANSPOSE_A, true>(matrix, at % strips, at / strips, check.rows_each, check.row_peaks + item * check.m,
                                   shared.of_warps);
    raise(check.progress + ROWS_DONE);
}
#endif

#else  // integers: x alone, of whole random words
constexpr int STRIP = THREADS;
struct ColumnsShared {};

__device__ __forceinline__ void columns(const Check& check, Index unit, ColumnsShared&) {
    const Index item = unit / check.strips, strip = unit % check.strips, column = strip * STRIP + threadIdx.x;
    if (column < check.n) {
        Number* const x = check.x + (item * check.n + column) * VECTORS;
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            const Philox words = random_words(check, item, column, part, 4);
#pragma unroll
            for (int i = 0; i < 2; ++i)
                x[part * 2 + i] = static_cast<Word>(words.at[i * 2 + 1]) << 32 | words.at[i * 2];
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(check.strips_ready + unit, 1u);
}
#endif
