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
constexpr int AHEAD = 4;

__device__ __forceinline__ bool is_aligned(const Lines& matrix) {
    return (reinterpret_cast<Word>(matrix.elements) | static_cast<Word>(matrix.pitch) * sizeof(Element)) % 16 == 0;
}

// Of columns from `first_column` on, over rows [row, last): a lane has RUN of them.
template <bool FINITE>
__device__ void across(const Lines& matrix, Index first_column, Index row, Index last, Peak* peaks) {
    __shared__ Peak of_warps[WARPS][ACROSS];
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
    __syncthreads();
}

// Of rows from `first_row` on, over columns [column, last), where `column` is a multiple of RUN.
template <bool FINITE>
__device__ void along(const Lines& matrix, Index first_row, Index column, Index last, Peak* peaks) {
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

// The block's strip of lines; neighbouring blocks have neighbouring strips. Returns its first line.
template <bool IN_ROWS, bool FINITE>  // whether lines are rows of the stored matrix
__device__ __forceinline__ Index find_peaks(const Lines& matrix, Index each, Peak* peaks) {
    const Index lines = IN_ROWS ? matrix.rows : matrix.columns, length = IN_ROWS ? matrix.columns : matrix.rows;
    const Index strips = (lines + (IN_ROWS ? ALONG : ACROSS) - 1) / (IN_ROWS ? ALONG : ACROSS);
    const Index line = blockIdx.x % strips * (IN_ROWS ? ALONG : ACROSS), first = blockIdx.x / strips * each;
    if constexpr (IN_ROWS)
        along<FINITE>(matrix, line, first, min(first + each, length), peaks);
    else
        across<FINITE>(matrix, line, first, min(first + each, length), peaks);
    return line;
}

// The last block of a strip, when all its columns' peaks are known, makes their weights.
extern "C" __global__ void __launch_bounds__(THREADS) columns(const Check check) {
    __shared__ int last;
    constexpr int STRIP = TRANSPOSE_B ? ALONG : ACROSS;
    const Index strips = (check.n + STRIP - 1) / STRIP;
    for (Index item = blockIdx.z; item < check.items_b; item += gridDim.z) {
        const Index rows = TRANSPOSE_B ? check.n : check.k, columns = TRANSPOSE_B ? check.k : check.n;
        const Lines matrix = {check.b + item * check.stride_b, rows, columns, check.ldb};
        const Index first = find_peaks<TRANSPOSE_B, false>(matrix, check.columns_each, check.peaks + item * check.n);
        if (comes_last(check.counters + item * strips + first / STRIP, gridDim.x / strips, last))
            weigh_columns(check, item, first, STRIP);
        __syncthreads();
    }
}

#if SCALED
extern "C" __global__ void __launch_bounds__(THREADS) rows(const Check check) {
    for (Index item = blockIdx.z; item < check.items_a; item += gridDim.z) {
        const Index rows = TRANSPOSE_A ? check.k : check.m, columns = TRANSPOSE_A ? check.m : check.k;
        const Lines matrix = {check.a + item * check.stride_a, rows, columns, check.lda};
        find_peaks<!TRANSPOSE_A, true>(matrix, check.rows_each, check.row_peaks + item * check.m);
    }
}
#endif

#else  // integers: x alone, of whole random words
extern "C" __global__ void __launch_bounds__(THREADS) draw(const Check check) {
    const Index at = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= check.items_x * check.n) return;
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        const Philox words = random_words(check, at / check.n, at % check.n, part, 4);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            check.x[at * VECTORS + part * 2 + i] = static_cast<Word>(words.at[i * 2 + 1]) << 32 | words.at[i * 2];
    }
}
#endif
