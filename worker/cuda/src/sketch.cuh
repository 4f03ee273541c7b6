// What the parts of a product's check share: its parameters, its random numbers, and arithmetic on exponents.
//
// The check compares C·x with A·(B·x) for VECTORS random vectors x (docs/decisions/0017). Everything that it takes is
// in one struct of 64-bit words, which the host fills (worker/cuda/check/sketch_plan.py).
#pragma once
#include "common.cuh"
#include "digest.cuh"
#include "output.cuh"

#if defined(DTYPE_INT8) || defined(DTYPE_INT32)
#define FLOATS 0
#else
#define FLOATS 1
#endif
#if defined(DTYPE_FLOAT64)
#define SCALED 1  // elements are scaled by powers of two, so that no square overflows or underflows
#else
#define SCALED 0
#endif

constexpr int VECTORS = 8;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

#if FLOATS
typedef double Number;
__device__ __forceinline__ Number number(Element element) { return static_cast<double>(widen(element)); }
#if defined(OUTPUT_FLOAT16) || defined(OUTPUT_BFLOAT16)
__device__ __forceinline__ Number number(Output element) { return value_of(element); }
#elif defined(DTYPE_FLOAT8_E4M3) || (defined(OUTPUT_FLOAT32) && !defined(DTYPE_FLOAT32))
__device__ __forceinline__ Number number(Output element) { return static_cast<double>(element); }
#endif
#else
typedef Word Number;  // wraps modulo 2^64
__device__ __forceinline__ Number number(Element element) { return static_cast<Word>(static_cast<Index>(element)); }
#if defined(DTYPE_INT8)
__device__ __forceinline__ Number number(Product element) { return static_cast<Word>(static_cast<Index>(element)); }
#endif
#endif

#if SCALED
typedef Word Peak;  // the bits of the largest magnitude, which order as magnitudes do
#else
typedef double Peak;  // the sum of squares, not finite where an element is not
#endif

// Every member has 64 bits. Arrays are in C order; `groups` is the number of groups of columns.
struct Check {
    const Element *a, *b;
    const Output* c;
    const unsigned char* excluded;  // (items_x, n) or null
    // Zero before the launch:
    Word* progress;                            // Progress: units taken, and units done
    unsigned int *strips_done, *strips_ready;  // (items_b, strips): units of a strip of columns; whether x is there
    Peak* peaks;                               // (items_b, n)
    Number* y;                                 // (items_x, k, groups, VECTORS)
    double* z;                                 // (items_x, k, groups)
    Number *p, *s;                             // (batch, m, groups, VECTORS)
    unsigned char* odd_rows;                   // (batch, m): of C, with elements that are not finite
    double *q, *r;                             // (batch, m, groups)
    double* unit;                              // (items_x, groups)
    Peak* row_peaks;                           // (items_a, m), float64 only
    unsigned char* bad_rows;                   // (batch, m): of A; of integers, the rows that are wrong
    unsigned char *bad_columns, *odd_columns;  // (items_b, n), (batch, n)
    Word* worst;  // the bits of the largest squared ratio to the tolerance; infinite if any flag is set
    // Written before they are read:
    double* difference;                 // (batch, m, groups)
    Number* x;                          // (items_x, n, VECTORS)
    double* w;                          // (items_x, n)
    Index* exponents;                   // (items_b, n), float64 only
    Word *sums_a, *sums_b, *sums_c;     // of each 1024 bytes of a matrix whose digests are taken
    Word *parts_a, *parts_b, *parts_c;  // digests

    Index m, n, k;
    Index lda, ldb, ldc, stride_a, stride_b, stride_c;
    Index items_a, items_b, items_x, batch;
    Index width, groups;                          // columns of a group, and their number
    Index strips, columns_each, rows_each;        // of `columns` and `rows`: stored rows (or elements) of a unit
    Index sets_each_b, sets_each_a, sets_each_c;  // of the projections: sets of rows of a unit
    Index units_of_rows, units_of_columns, units_b, units_c, units_a;
    Index digests_b, digests_c, units_of_verdict, digests_a;  // units too, in this order
    Index blocks_a, blocks_b, blocks_c;                       // of 1024 bytes of a matrix to be digested, else 0
    Index common;                                             // whether columns are scaled alike, by the largest
    Index wraps;                                              // integers: compare modulo 2^32
    Word seed[2];
    double floor2;
    double of_terms, of_sums, underflow;  // of the tolerance: T² = of_terms·Q + of_sums·R + underflow²·unit
};

enum Progress { TAKEN, ROWS_DONE, B_DONE, C_DONE, A_DONE };

// ---- numbers by their bits ----
__device__ __forceinline__ Word bits_of(double value) { return static_cast<Word>(__double_as_longlong(value)); }
__device__ __forceinline__ double of_bits(Word bits) { return __longlong_as_double(static_cast<long long>(bits)); }
constexpr Word INFINITE_BITS = 0x7FF0000000000000ull;

__device__ __forceinline__ double power_of_two(int exponent) {  // -1022 to 1023
    return of_bits(static_cast<Word>(1023 + exponent) << 52);
}

// value · 2^-exponent. Two factors reach twice as far as one; beyond that every finite value is out of range anyway.
__device__ __forceinline__ double scaled_down(double value, int exponent) {
    exponent = max(min(exponent, 2044), -2044);
    const int half = exponent >> 1;
    return value * power_of_two(-half) * power_of_two(half - exponent);
}

// As frexp gives it, for the bits of a magnitude: 0 for zero.
__device__ __forceinline__ int exponent_of(Word bits) {
    if (bits == 0) return 0;
    if (bits >> 52 != 0) return static_cast<int>(bits >> 52) - 1022;
    return static_cast<int>(bits_of(of_bits(bits) * 0x1p54) >> 52) - 1022 - 54;
}

// ---- random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC11, 2011) ----
struct Philox {
    unsigned int at[4];
};

__device__ __forceinline__ Philox philox(Philox counter, unsigned int key_0, unsigned int key_1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const Word first = static_cast<Word>(counter.at[0]) * 0xD2511F53u;
        const Word second = static_cast<Word>(counter.at[2]) * 0xCD9E8D57u;
        counter = {{static_cast<unsigned int>(second >> 32) ^ counter.at[1] ^ key_0, static_cast<unsigned int>(second),
                    static_cast<unsigned int>(first >> 32) ^ counter.at[3] ^ key_1, static_cast<unsigned int>(first)}};
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    return counter;
}

// Four random words for a column. The first half of the seed is the key; the second is part of the counter.
__device__ __forceinline__ Philox random_words(const Check& check, Index item, Index column, int part, int parts) {
    const unsigned int second = static_cast<unsigned int>(item * parts + part);
    const Philox counter = {{static_cast<unsigned int>(column), second, static_cast<unsigned int>(check.seed[1]),
                             static_cast<unsigned int>(check.seed[1] >> 32)}};
    return philox(counter, static_cast<unsigned int>(check.seed[0]), static_cast<unsigned int>(check.seed[0] >> 32));
}

// ---- blocks and warps ----
// What this block has written is there for all who see `counter` raised. To be called by all threads.
__device__ __forceinline__ void raise(Word* counter) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(counter, Word{1});
}

__device__ __forceinline__ void pause() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    __nanosleep(32);
#endif
}

// Waits until the counter has come so far. What others have written before is read past the first cache (__ldcg).
template <typename Counter>
__device__ __forceinline__ void wait_for(const Counter* counter, Counter count) {
    while (*const_cast<const volatile Counter*>(counter) < count)
        pause();
    __threadfence();
}

// Whether this block is the last of `total` that come here with the counter.
__device__ __forceinline__ bool comes_last(unsigned int* counter, Index total, int& shared) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        shared = atomicAdd(counter, 1u) == static_cast<unsigned int>(total - 1);
        __threadfence();
    }
    __syncthreads();
    return shared != 0;
}

__device__ __forceinline__ bool holds_for_any(bool holds) {
    int any = holds;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        any |= __shfl_xor_sync(0xFFFFFFFFu, any, lanes);
    return any != 0;
}
