// The tensor cores' instruction for float64 in plain C++, for kernels that include dmma.cuh, and the copy of
// dmma_tiles.cuh that may be left out. Each lane puts down what it holds of A and B, by the numbers of PTX's fragments;
// then each takes its sums' rows and columns out of all that.
#pragma once
#include "emulated.hpp"
//
#include "dmma.cuh"

namespace emulated {

constexpr int LARGEST_BLOCK = 32;  // warps
struct Held {
    double a[2 * SLOTS], b[SLOTS];
};
inline Held held[LARGEST_BLOCK][2][warpSize];  // of one product and of the next: some still read the one
inline int turns[LARGEST_BLOCK * warpSize];

// Elements of A (16 rows) and of B (8 columns) at a step of k, as "Matrix Fragments for mma.m16n8k16 with floating
// point type" of the PTX ISA has them for .f64: a_i is row lane / 4, or 8 more for odd i, at step lane % 4 + i / 2 * 4,
// and b_i column lane / 4 at step lane % 4 + i * 4. m16n8k8 has the first half of these registers.
inline double a_of(const Held (&warp)[warpSize], int row, int step) {
    return warp[row % 8 * 4 + step % 4].a[step / 4 * 2 + row / 8];
}
inline double b_of(const Held (&warp)[warpSize], int step, int column) {
    return warp[column * 4 + step % 4].b[step / 4];
}

}  // namespace emulated

// Sums c0 and c1 are of row lane / 4 and columns lane % 4 * 2 and the next, c2 and c3 of the row eight below.
inline void multiply_on_tensor_core(double (&sums)[4], const Slab& a, const double (&b)[SLOTS]) {
    using namespace emulated;
    const int lane = emulated::lane();
    Held(&warp)[warpSize] = held[threadIdx.x / warpSize][turns[threadIdx.x] ^= 1];
    for (int slot = 0; slot < SLOTS; ++slot) {
        warp[lane].a[slot * 2] = a.at[0][slot];
        warp[lane].a[slot * 2 + 1] = a.at[1][slot];
        warp[lane].b[slot] = b[slot];
    }
    wait_for_warp(0xFFFFFFFFu, Place::here());
    for (int i = 0; i < 2; ++i)
        for (int step = 0; step < STEP; ++step) {
            const double upper = a_of(warp, lane / 4, step), lower = a_of(warp, lane / 4 + 8, step);
            const double other = b_of(warp, step, lane % 4 * 2 + i);
            sums[i] = fma(upper, other, sums[i]);
            sums[2 + i] = fma(lower, other, sums[2 + i]);
        }
}

template <int BYTES>
void copy_async_if(bool asked, void* shared, const void* global) {
    if (asked) copy_part_async<BYTES>(shared, global, BYTES);
}
