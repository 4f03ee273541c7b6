// What every kernel shares: element types, indices, tiles, and how an operand's element is found.
//
// The compiler is given one of DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64, DTYPE_INT8, DTYPE_INT32,
// DTYPE_FLOAT8_E4M3; TRANSPOSE_A and TRANSPOSE_B as 0 or 1; and the kernel's tile parameters.
//
// Operands are row-major with rows `lda` (`ldb`, `ldc`) elements apart, and the matrices of a batch `stride_a` (…)
// elements apart, 0 where one matrix serves the whole batch. All of them are 64-bit: m·k may pass 2^31.
#pragma once

typedef long long Index;

// ---- element types: Element is stored, Accumulator is computed with, Product is what C holds ----
#if defined(DTYPE_FLOAT16)

typedef unsigned short Element;  // its bits
typedef float Accumulator;
typedef unsigned short Product;

#include "half.cuh"

__device__ __forceinline__ Accumulator widen(Element bits) { return float_of_half(bits); }
__device__ __forceinline__ Product narrow(Accumulator value) { return half_of_float(value); }

#elif defined(DTYPE_BFLOAT16)

typedef unsigned short Element;
typedef float Accumulator;
typedef unsigned short Product;

__device__ __forceinline__ Accumulator widen(Element bits) {
    return __uint_as_float(static_cast<unsigned int>(bits) << 16);
}

// Adds just under half of the last kept place, or just half where that place is odd, and cuts: to nearest, ties to
// even. By hand because devices before 8.0 have no instruction for it.
__device__ __forceinline__ Product narrow(Accumulator value) {
    const unsigned int bits = __float_as_uint(value);
    const unsigned int upper = bits >> 16;
    if (value != value) return static_cast<Product>(upper | 0x40);  // rounding could carry a NaN over into infinity
    return static_cast<Product>((bits + 0x7FFF + (upper & 1)) >> 16);
}

#elif defined(DTYPE_FLOAT32)

typedef float Element;
typedef float Accumulator;
typedef float Product;

#elif defined(DTYPE_FLOAT64)

typedef double Element;
typedef double Accumulator;
typedef double Product;

#elif defined(DTYPE_INT8)

typedef signed char Element;
typedef unsigned int Accumulator;  // unsigned: sums wrap modulo 2^32, which signed ones may not
typedef int Product;

__device__ __forceinline__ Accumulator widen(Element value) {
    return static_cast<Accumulator>(static_cast<int>(value));
}

#elif defined(DTYPE_INT32)

typedef int Element;
typedef unsigned int Accumulator;
typedef int Product;

#elif defined(DTYPE_FLOAT8_E4M3)

typedef unsigned char Element;  // bits: sign, 4 of exponent, 3 of fraction; all ones but for the sign is NaN
typedef float Accumulator;
typedef float Product;

// Exponent and fraction at their places in a float32, whose exponent counts from another zero: the factor makes up for
// it, for subnormal numbers too.
__device__ __forceinline__ Accumulator widen(Element bits) {
    const unsigned int magnitude = bits & 0x7Fu, sign = (bits & 0x80u) << 24;
    const unsigned int value = __float_as_uint(__uint_as_float(magnitude << 20) * 0x1p120f);
    return __uint_as_float((magnitude == 0x7Fu ? 0x7FC00000u : value) | sign);
}

#else
#error "define one of DTYPE_FLOAT16 and its like, as listed above"
#endif

#if defined(DTYPE_FLOAT32) || defined(DTYPE_FLOAT64) || defined(DTYPE_INT32)
__device__ __forceinline__ Accumulator widen(Element value) { return static_cast<Accumulator>(value); }
#endif
#if !defined(DTYPE_FLOAT16) && !defined(DTYPE_BFLOAT16)
__device__ __forceinline__ Product narrow(Accumulator value) { return static_cast<Product>(value); }
#endif

__device__ __forceinline__ float multiply_add(float a, float b, float sum) { return fmaf(a, b, sum); }
__device__ __forceinline__ double multiply_add(double a, double b, double sum) { return fma(a, b, sum); }
__device__ __forceinline__ unsigned int multiply_add(unsigned int a, unsigned int b, unsigned int sum) {
    return a * b + sum;
}

// sums += a bᵀ. Neighbouring multiply-adds share an operand, which so is read from the register file once for both:
// along a row and back along the next.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void add_outer_product(Accumulator (&sums)[ROWS][COLUMNS], const Accumulator (&a)[ROWS],
                                                  const Accumulator (&b)[COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int order = 0; order < COLUMNS; ++order) {
            const int j = i % 2 ? COLUMNS - 1 - order : order;
            sums[i][j] = multiply_add(a[i], b[j], sums[i][j]);
        }
}

// ---- where an element lies: steps of an operand, after transposition, from one row or column to the next ----
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B)
#error "define TRANSPOSE_A and TRANSPOSE_B as 0 or 1"
#endif

__device__ __forceinline__ Index row_step_a(Index lda) { return TRANSPOSE_A ? 1 : lda; }
__device__ __forceinline__ Index column_step_a(Index lda) { return TRANSPOSE_A ? lda : 1; }
__device__ __forceinline__ Index row_step_b(Index ldb) { return TRANSPOSE_B ? 1 : ldb; }
__device__ __forceinline__ Index column_step_b(Index ldb) { return TRANSPOSE_B ? ldb : 1; }

// ---- tiles: the grid counts them along x alone, columns of tiles fastest, because y and z end at 65,535 ----
struct Tile {
    Index row, column;  // of its first element in C
};

__device__ __forceinline__ Tile tile_of_block(Index n, int tile_rows, int tile_columns) {
    const Index across = (n + tile_columns - 1) / tile_columns;
    const Index block = blockIdx.x;
    return {block / across * tile_rows, block % across * tile_columns};
}

// ---- registers: how many blocks of `threads` fit on a multiprocessor (65,536 registers, at least 1,024 threads) if a
// thread keeps this many accumulators and operands. The compiler needs this number: otherwise it uses all 255 registers
// of a thread for early loads, and only one block fits. ----
__device__ constexpr int blocks_per_multiprocessor(int threads, int accumulators, int operands) {
    const int others = 48;  // addresses, counters, elements on their way
    const int registers = (accumulators + operands) * (sizeof(Accumulator) / 4) + others;
    const int by_registers = 65536 / ((registers + 7) / 8 * 8 * threads), by_threads = 1024 / threads;
    const int blocks = by_registers < by_threads ? by_registers : by_threads;
    return blocks > 1 ? blocks : 1;
}

// ---- shared memory sized at launch: past 48 KiB a block must ask for it there ----
#ifndef EMULATED  // an emulation on the CPU brings its own
#define DYNAMIC_SHARED(name) extern __shared__ __align__(32) unsigned char name[]
#endif
