// What the choice of a tile's products follows from: how far apart elements of a line lie, and those of A and B that
// meet.
#pragma once

#include "emulated_layout.cuh"

// (2^31 / root mean square of q)² of a line, infinity if it has no digits; `counted` is 0 for a line of zeros, which
// has none.
__device__ __forceinline__ float line_spread(const Findings& findings, Index line, int depth, float& counted) {
    const unsigned long long squares = __ldcg(findings.squares + line);
    const float scale = static_cast<float>(1 << (62 - 2 * SQUARE_SHIFT));
    counted = squares ? 1.0f : 0.0f;
    if (findings.peaks[line] >= INFINITE) return __uint_as_float(INFINITE);
    return squares ? static_cast<float>(depth) * scale / static_cast<float>(squares) : 0.0f;
}

// Of a product of the batch: the largest exponents of A, of B, and of elements that meet, over these DEPTH steps of k.
__device__ __forceinline__ void compare_exponents(const unsigned int* of_a, const unsigned int* of_b,
                                                  unsigned int* exponents) {
    const unsigned int a = of_a[threadIdx.x] >> 23, b = of_b[threadIdx.x] >> 23;
    const unsigned int found[3] = {a, b, of_a[threadIdx.x] && of_b[threadIdx.x] ? a + b : 0};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const unsigned int largest = __reduce_max_sync(0xFFFFFFFF, found[i]);
        if (threadIdx.x % 32 == 0) atomicMax(exponents + i, largest);
    }
}

// A step of an item of A, with those of B that it is multiplied with; by the block's first warps.
__device__ __forceinline__ void compare_step(const Findings& findings, const Operand& a, const Operand& b, Index batch,
                                             int item, int step) {
    if (threadIdx.x >= DEPTH) return;
    const unsigned int* const of_a = findings.depth_peaks + (static_cast<Index>(item) * findings.steps + step) * DEPTH;
    for (int product = a.items > 1 ? item : 0; product < (a.items > 1 ? item + 1 : batch); ++product) {
        const int item_b = b.items > 1 ? product : 0;
        const unsigned int* const of_b =
            findings.depth_peaks + (static_cast<Index>(a.items + item_b) * findings.steps + step) * DEPTH;
        compare_exponents(of_a, of_b, findings.exponents + 4ll * product);
    }
}
