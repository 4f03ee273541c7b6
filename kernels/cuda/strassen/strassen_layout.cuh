// A product in halves: how A, B and C are cut into quarters, and where sums of quarters and their products lie.
//
// With A = [A11 A12; A21 A22] and so on, seven products of halves make C (V. Strassen, "Gaussian elimination is not
// optimal", 1969):
//
//   M1 = (A11 + A22)(B11 + B22)    M2 = (A21 + A22) B11    M3 = A11 (B12 - B22)    M4 = A22 (B21 - B11)
//   M5 = (A11 + A12) B22           M6 = (A21 - A11)(B11 + B12)                     M7 = (A12 - A22)(B21 + B22)
//   C11 = M1 + M4 - M5 + M7        C12 = M3 + M5        C21 = M2 + M4        C22 = M1 - M2 + M3 + M6
//
// Five sums of A's quarters and five of B's are written down first; A11, A22, B11 and B22 are read where they are.
#pragma once
#include "tiles.cuh"

#if !defined(DTYPE_FLOAT32)
#error "sums of quarters are rounded as float32, and their bound is float32's"
#endif

constexpr int FACTORS = 7, QUARTER_SUMS = 5;
constexpr unsigned int INFINITE = 0x7F800000;  // bits of infinity; those of NaN are larger
constexpr int LINE_BYTES = 128;

// The first half, a whole number of runs, so that quarters begin aligned where matrices do. The second is no larger.
__device__ __forceinline__ Index half_of(Index extent) { return (extent + 2 * GROUP - 1) / (2 * GROUP) * GROUP; }
__device__ __forceinline__ Index blocks_of(Index extent, int block) { return (extent + block - 1) / block; }

// The workspace. Quarters are stored as their operand is, transposed or not, without gaps between rows.
struct Halves {
    Index m, n, k;          // of the first halves
    unsigned int* peaks_a;  // of each matrix: bits of its largest magnitude
    unsigned int* peaks_b;
    unsigned int* arrivals;  // of each tile of a quarter of each product of the batch: of its seven, those made
    Accumulator* sums_a;     // five of each matrix
    Accumulator* sums_b;
    Accumulator* products;  // seven of each product of the batch
    Index tiles;            // of a quarter

    __device__ __forceinline__ Halves(unsigned char* workspace, Index m, Index n, Index k, Index stride_a,
                                      Index stride_b, Index batch)
        : m(half_of(m)), n(half_of(n)), k(half_of(k)) {
        const Index items_a = stride_a ? batch : 1, items_b = stride_b ? batch : 1;
        tiles = blocks_of(this->m, BLOCK_M) * blocks_of(this->n, BLOCK_N);
        peaks_a = reinterpret_cast<unsigned int*>(workspace);
        peaks_b = peaks_a + items_a;
        arrivals = peaks_b + items_b;
        const Index counted = (items_a + items_b + tiles * batch) * 4;
        sums_a = reinterpret_cast<Accumulator*>(workspace + (counted + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
        sums_b = sums_a + items_a * QUARTER_SUMS * this->m * this->k;
        products = sums_b + items_b * QUARTER_SUMS * this->k * this->n;
    }

    // Whether a product keeps to the ordinary way: an element is no number, or what is made of sums of two elements
    // might leave the range where the ordinary product does not. No partial sum of C has more than 12 times half of k
    // products of the largest elements, and each sum of two elements is below twice the largest.
    __device__ __forceinline__ bool is_ordinary(unsigned int peak_a, unsigned int peak_b) const {
        if (peak_a >= INFINITE || peak_b >= INFINITE) return true;
        const double largest_a = __uint_as_float(peak_a), largest_b = __uint_as_float(peak_b);
        return largest_a > 1e38 || largest_b > 1e38 || largest_a * largest_b * 16.0 * static_cast<double>(k) > 3e38;
    }
};
