// The pass before `strassen`: sums of quarters of both operands, and each matrix's largest magnitude.
#pragma once
#include "strassen_layout.cuh"

constexpr int PASS_THREADS = 256, PASS_ROWS = 4, PASS_COLUMNS = PASS_THREADS * GROUP;
typedef Run<Element, GROUP> Four;

// One matrix as it is stored, and the first halves of its rows and columns.
struct Quartered {
    const Element* first;
    Index ld, rows, columns, half_rows, half_columns;
    bool aligned;

    // Four elements of a row; what lies outside the matrix is zero.
    __device__ __forceinline__ Four elements(Index row, Index column) const {
        const Element* const from = first + row * ld + column;
        const Index left = row < rows ? columns - column : 0;
        if (aligned && left >= GROUP) return *reinterpret_cast<const Four*>(from);
        Four found;
#pragma unroll
        for (int i = 0; i < GROUP; ++i)
            found.at[i] = i < left ? from[i] : Element(0);
        return found;
    }
};

// Writes sums of four places of all quarters, those of the next sum `step` apart, in the order in which products take
// them. Gives the bits of the largest magnitude met.
template <bool IS_B>
__device__ __forceinline__ unsigned int add_quarters(const Quartered& of, Index row, Index column, Accumulator* to,
                                                     Index step) {
    constexpr bool TRANSPOSED = IS_B ? TRANSPOSE_B : TRANSPOSE_A;
    const Four first = of.elements(row, column), last = of.elements(row + of.half_rows, column + of.half_columns);
    const Four right = of.elements(row, column + of.half_columns), below = of.elements(row + of.half_rows, column);
    const Four &upper = TRANSPOSED ? below : right, &lower = TRANSPOSED ? right : below;  // quarters 12 and 21
    Four sums[QUARTER_SUMS];
    unsigned int peak = 0;
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        sums[0].at[i] = first.at[i] + last.at[i];
        sums[1].at[i] = IS_B ? upper.at[i] - last.at[i] : lower.at[i] + last.at[i];
        sums[2].at[i] = IS_B ? lower.at[i] - first.at[i] : first.at[i] + upper.at[i];
        sums[3].at[i] = IS_B ? first.at[i] + upper.at[i] : lower.at[i] - first.at[i];
        sums[4].at[i] = IS_B ? lower.at[i] + last.at[i] : upper.at[i] - last.at[i];
        const Element each[] = {first.at[i], last.at[i], right.at[i], below.at[i]};
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter)
            peak = max(peak, __float_as_uint(each[quarter]) & 0x7FFFFFFFu);
    }
#pragma unroll
    for (int sum = 0; sum < QUARTER_SUMS; ++sum)
        *reinterpret_cast<Four*>(to + sum * step + row * of.half_columns + column) = sums[sum];
    return peak;
}

// A block's share of one operand: PASS_ROWS × PASS_COLUMNS of the quarters of one matrix. `of.first` is the first
// matrix of the batch, `block` counts through all of them.
template <bool IS_B>
__device__ __forceinline__ void add_share(Quartered of, Index stride, unsigned int block, Accumulator* sums,
                                          unsigned int* peaks) {
    const unsigned int across = blocks_of(of.half_columns, PASS_COLUMNS);
    const unsigned int each = blocks_of(of.half_rows, PASS_ROWS) * across;  // both no more than a grid has blocks
    const unsigned int item = block / each, within = block % each;
    const Index first_row = static_cast<Index>(within / across) * PASS_ROWS, step = of.half_rows * of.half_columns;
    const Index column = static_cast<Index>(within % across) * PASS_COLUMNS + threadIdx.x * GROUP;
    of.first += item * stride;
    unsigned int peak = 0;
#pragma unroll 1
    for (int i = 0; i < PASS_ROWS; ++i)
        if (first_row + i < of.half_rows && column < of.half_columns)
            peak = max(peak, add_quarters<IS_B>(of, first_row + i, column, sums + item * QUARTER_SUMS * step, step));
#pragma unroll
    for (int lanes = warpSize / 2; lanes > 0; lanes /= 2)
        peak = max(peak, __shfl_xor_sync(0xFFFFFFFF, peak, lanes));
    // Most find a larger one there, and need not wait in line.
    if (threadIdx.x % warpSize == 0 && peak > peaks[item]) atomicMax(peaks + item, peak);
}

extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    strassen_sums(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__, Index m, Index n,
                  Index k, Index lda, Index ldb, Index, Index stride_a, Index stride_b, Index stride_c, Index batch,
                  unsigned char* workspace) {
    const Halves half(workspace, m, n, k, stride_a, stride_b, batch);
    const bool aligned_a = is_aligned<GROUP>(a, lda, stride_a), aligned_b = is_aligned<GROUP>(b, ldb, stride_b);
    const Quartered of_a = TRANSPOSE_A ? Quartered{a, lda, k, m, half.k, half.m, aligned_a}
                                       : Quartered{a, lda, m, k, half.m, half.k, aligned_a};
    const Quartered of_b = TRANSPOSE_B ? Quartered{b, ldb, n, k, half.n, half.k, aligned_b}
                                       : Quartered{b, ldb, k, n, half.k, half.n, aligned_b};
    const unsigned int blocks_of_a =
        (stride_a ? batch : 1) * blocks_of(of_a.half_rows, PASS_ROWS) * blocks_of(of_a.half_columns, PASS_COLUMNS);
    if (blockIdx.x < blocks_of_a)
        add_share<false>(of_a, stride_a, blockIdx.x, half.sums_a, half.peaks_a);
    else
        add_share<true>(of_b, stride_b, blockIdx.x - blocks_of_a, half.sums_b, half.peaks_b);
}
