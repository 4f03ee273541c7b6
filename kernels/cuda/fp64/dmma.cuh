// Matrix products of float64 by whole warps: the instructions behind PTX's mma.sync for .f64.
//
// Which lane holds what is told here, so fragments are read from shared memory by plain loads. With g = lane / 4 and
// t = lane % 4, a lane holds of A rows g and g + 8, of B column g, both at steps t + 4·slot; of the product rows g and
// g + 8, columns 2t and 2t + 1 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). A sum over k
// may be taken in any order, and rows and columns may stand for any others: so steps, rows and columns are dealt out to
// lanes here such that what a lane reads, and what it writes, lies together in memory.
#pragma once
#include "common.cuh"

#if !defined(DTYPE_FLOAT64)
#error "these tensor cores are given float64: define DTYPE_FLOAT64"
#endif

constexpr int SQUARE = 16;  // rows and columns of what one slab of each operand comes to
constexpr int SLOTS = STEP / 4;
static_assert(STEP == 8 || STEP == 16, "an instruction takes 8 or 16 steps of k");

// Whether a lane has two neighbouring steps, which it reads at once. Where both operands lie along k it may not: the
// first of an instruction wants two rows' elements of one step in registers next to each other.
constexpr bool STEPS_IN_PAIRS = TRANSPOSE_A || !TRANSPOSE_B;

// 16 rows of A, or columns of B, and STEP steps of k. The warp's lanes have of it rows 2g and 2g + 1.
struct Slab {
    double at[2][SLOTS];  // row, slot of k
};

// Which of the slab's steps the lane has in a slot, or there and in the next.
__device__ __forceinline__ int step_of(int slot) {
    const int t = threadIdx.x % 4;
    return STEPS_IN_PAIRS ? slot / 2 * 8 + t * 2 + slot % 2 : t + slot * 4;
}

// Whether instructions are given B for their first operand, and so make C transposed: where A lies along k and B across
// it, each then lies as its place in the instruction wants it.
constexpr bool TRANSPOSED = !TRANSPOSE_A && !TRANSPOSE_B;

// Products of a slab with another. A lane has rows 2g and 2g + 1 of the first, and 4t to 4t + 3 of the second.
struct SquareSums {
    double at[2][4] = {};  // by the row of the second, even or odd, that made the instruction's columns; in its order

    // Of the lane's rows and columns of C.
    __device__ __forceinline__ double of(int row, int column) const {
        const int first = TRANSPOSED ? column : row, second = TRANSPOSED ? row : column;
        return at[second % 2][first * 2 + second / 2];
    }
};

// sums += a b, rounded step by step like fma. `sums` are of rows 2g and 2g + 1 (of instructions' g and g + 8), `b` is
// one of a slab's rows.
__device__ __forceinline__ void multiply_on_tensor_core(double (&sums)[4], const Slab& a, const double (&b)[SLOTS]);

#ifndef EMULATED  // an emulation on the CPU brings its own instruction
#if __CUDA_ARCH__ < 800
#error "tensor cores take float64 from compute capability 8.0 on"
#endif

// Devices before 9.0 know m8n8k4 alone, whose registers are parts of the larger instruction's; for those after, the
// compiler makes the larger one of such.
__device__ __forceinline__ void multiply_on_tensor_core(double (&sums)[4], const Slab& a, const double (&b)[SLOTS]) {
#if __CUDA_ARCH__ >= 900 && STEP == 16
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
        : "d"(a.at[0][0]), "d"(a.at[1][0]), "d"(a.at[0][1]), "d"(a.at[1][1]), "d"(a.at[0][2]), "d"(a.at[1][2]),
          "d"(a.at[0][3]), "d"(a.at[1][3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
        : "d"(a.at[0][0]), "d"(a.at[1][0]), "d"(a.at[0][1]), "d"(a.at[1][1]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot)
#pragma unroll
        for (int row = 0; row < 2; ++row)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(sums[row * 2]), "+d"(sums[row * 2 + 1])
                         : "d"(a.at[row][slot]), "d"(b[slot]));
#endif
}
#endif

__device__ __forceinline__ void add_product(SquareSums& sums, const Slab& a, const Slab& b) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
        multiply_on_tensor_core(sums.at[half], a, b.at[half]);
}
