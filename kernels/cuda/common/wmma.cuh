// Matrix products by whole warps: the PTX instructions behind nvcuda::wmma, so that a kernel needs none of CUDA's
// headers.
//
// A fragment is a 16×16 matrix that the 32 threads of a warp hold together, each some elements in its registers; which
// ones, the hardware keeps to itself. So all threads of a warp must come to these functions together, with the same
// arguments. In shared memory a fragment's rows (or columns, where it is stored by columns) are `ld` elements apart; it
// begins at a multiple of 32 bytes, and `ld` is a multiple of 16 bytes. Operands are float16 or bfloat16, sums float32.
#pragma once
#include "common.cuh"

#if !defined(DTYPE_FLOAT16) && !defined(DTYPE_BFLOAT16)
#error "tensor cores are given 16-bit floats here: define DTYPE_FLOAT16 or DTYPE_BFLOAT16"
#endif

constexpr int FRAGMENT = 16;  // rows, columns, and steps of k

#ifndef EMULATED  // an emulation on the CPU brings its own fragments
#if defined(DTYPE_BFLOAT16) && __CUDA_ARCH__ < 800
#error "tensor cores take bfloat16 from compute capability 8.0 on"
#endif

#if TRANSPOSE_A
#define WMMA_ORDER_A "col"
#else
#define WMMA_ORDER_A "row"
#endif
#if TRANSPOSE_B
#define WMMA_ORDER_B "col"
#else
#define WMMA_ORDER_B "row"
#endif

// Operands lie in registers in pairs; of float16 each element is in two threads, as the first tensor cores had it.
#if defined(DTYPE_FLOAT16)
#define WMMA_LOAD(operand, order) \
    "wmma.load." operand ".sync.aligned." order ".m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
#define WMMA_LOADED(pairs)                                                                                          \
    "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3]), "=r"(pairs[4]), "=r"(pairs[5]), "=r"(pairs[6]), \
        "=r"(pairs[7])
#define WMMA_MULTIPLY                                                                    \
    "wmma.mma.sync.aligned." WMMA_ORDER_A "." WMMA_ORDER_B                               \
    ".m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "                              \
    "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, " \
    "{%0, %1, %2, %3, %4, %5, %6, %7};"
#define WMMA_OPERAND(pairs)                                                                                  \
    "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3]), "r"(pairs[4]), "r"(pairs[5]), "r"(pairs[6]), \
        "r"(pairs[7])
constexpr int PAIRS = 8;
#else
#define WMMA_LOAD(operand, order) \
    "wmma.load." operand ".sync.aligned." order ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
#define WMMA_LOADED(pairs) "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
#define WMMA_MULTIPLY                                                 \
    "wmma.mma.sync.aligned." WMMA_ORDER_A "." WMMA_ORDER_B            \
    ".m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, " \
    "{%8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"
#define WMMA_OPERAND(pairs) "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
constexpr int PAIRS = 4;
#endif

__device__ __forceinline__ unsigned int shared_address(const void* shared) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(shared));
}

// Rows of the product by steps of k, out of a tile of A in the order in which A is stored.
struct FragmentA {
    unsigned int pairs[PAIRS];

    __device__ __forceinline__ void load(const Element* tile, int ld) {
        asm volatile(WMMA_LOAD("a", WMMA_ORDER_A) : WMMA_LOADED(pairs) : "r"(shared_address(tile)), "r"(ld) : "memory");
    }
};

// Steps of k by columns of the product, out of a tile of B in the order in which B is stored.
struct FragmentB {
    unsigned int pairs[PAIRS];

    __device__ __forceinline__ void load(const Element* tile, int ld) {
        asm volatile(WMMA_LOAD("b", WMMA_ORDER_B) : WMMA_LOADED(pairs) : "r"(shared_address(tile)), "r"(ld) : "memory");
    }
};

// Rows by columns of the product.
struct FragmentSums {
    float at[8] = {};

    __device__ __forceinline__ void add_product(const FragmentA& a, const FragmentB& b) {
        asm volatile(WMMA_MULTIPLY
                     : "+f"(at[0]), "+f"(at[1]), "+f"(at[2]), "+f"(at[3]), "+f"(at[4]), "+f"(at[5]), "+f"(at[6]),
                       "+f"(at[7])
                     : WMMA_OPERAND(a.pairs), WMMA_OPERAND(b.pairs));
    }

    // Row by row.
    __device__ __forceinline__ void store(float* tile, int ld) const {
        asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
                     :
                     : "r"(shared_address(tile)), "f"(at[0]), "f"(at[1]), "f"(at[2]), "f"(at[3]), "f"(at[4]),
                       "f"(at[5]), "f"(at[6]), "f"(at[7]), "r"(ld)
                     : "memory");
    }
};
#endif
