// An fp32 product as int8 products: what a digit is, and where passes leave what the next one needs.
//
// A line is a row of A or a column of B. With 2^e a power of two that no element of the line reaches, and as many
// quarters as leave room below it, an element is scaled by 2^(31 - e)·(4 + quarters)/4 and rounded to q, an integer of
// 32 bits, and q written in balanced digits to base 256: four bytes of -128 to 127, the highest first,
// `q = Σ digit_d · 256^(3 - d)`. A product of lines is the sum of products of digits i and j over 256^(i + j), each
// exact in int32. After K. Ozaki et al., "Error-free transformations of matrix multiplication" (2012), and H. Ootomo et
// al., "DGEMM on integer matrix multiplication unit" (2024).
//
// Digits lie as the tensor cores read them: tile by tile of LINES × DEPTH, the digits of a tile one after another, each
// a plane of bytes whose 16-byte chunks are permuted within 128 bytes (the 64-byte swizzle of a bulk tensor copy).
#pragma once

#include "lines.cuh"

constexpr int DEPTH = 64;
constexpr int DIGITS = 4;
constexpr int PLANE = LINES * DEPTH;                  // bytes of one digit of a tile
constexpr unsigned int INFINITE = 0x7F800000;         // bits of infinity; those of NaN are larger
constexpr unsigned int SMALLEST_NORMAL = 0x00800000;  // bits of 2^-126

constexpr int WEIGHTS = 256;   // that a line may have: see emulated_judge.cuh
constexpr int COUNTERS = 576;  // a word for each warp of tiles that are cut (emulated_cut.cuh)

// What holds for the product as a whole. The host launches the float32 kernel behind the last pass, with the address of
// the first word.
struct Verdict {
    unsigned int in_float32;           // not 0: no digits are made, and the float32 kernel multiplies
    unsigned int any_listed;           // not 0: some lines are listed, and are multiplied in float32
    unsigned int arrived;              // blocks of `judge` that have ended
    unsigned int heaviest[2];          // of lines of A and of B
    unsigned int padding[27];          // what follows begins at a multiple of 128 bytes
    unsigned int weights[2][WEIGHTS];  // how many lines of A and of B have each
};

// What a tile's choice follows from, of a block of lines. Lines of zeros and listed ones do not count.
struct alignas(16) Spread {
    float heaviest, mean_weight;  // in binades
    float widest, mean;           // (largest element / root mean square)^2, as told from means of four
};

// The workspace. Blocks of lines are numbered through A's items and then B's.
struct Findings {
    Verdict* verdict;
    unsigned long long* logs;          // of each line: how many elements are normal numbers, and the sum of their logs
    unsigned long long* logs_of_four;  // the same of sums of four magnitudes
    unsigned int* peaks;               // of each line: bits of its largest magnitude
    unsigned int* listed;              // of each item: how many of its lines are listed
    unsigned int* counters;            // of each warp of a tile that is cut: how many parts have been handed over
    Spread* spreads;                   // of each block of lines
    unsigned int* lists;               // of each item, from its first line's place on: the lines that are listed
    unsigned char* digits;
    unsigned char* handed_over;  // sums of parts of tiles, where there are any
    int steps;                   // of DEPTH

    __device__ __forceinline__ Findings(unsigned char* workspace, const Operand& a, const Operand& b) {
        const Index blocks = static_cast<Index>(a.items) * a.blocks() + static_cast<Index>(b.items) * b.blocks();
        const Index lines = blocks * LINES;
        steps = blocks_of(a.depth, DEPTH);
        verdict = reinterpret_cast<Verdict*>(workspace);
        logs = reinterpret_cast<unsigned long long*>(verdict + 1);
        logs_of_four = logs + lines;
        peaks = reinterpret_cast<unsigned int*>(logs_of_four + lines);
        listed = peaks + lines;
        counters = listed + (a.items + b.items + 3) / 4 * 4;
        spreads = reinterpret_cast<Spread*>(counters + COUNTERS);
        lists = reinterpret_cast<unsigned int*>(spreads + blocks);
        const Index before = reinterpret_cast<unsigned char*>(lists + lines) - workspace;
        digits = workspace + (before + 127) / 128 * 128;
        handed_over = digits + blocks * steps * (DIGITS * PLANE);
    }

    __device__ __forceinline__ unsigned char* tile(int block, int step) const {
        return digits + (static_cast<Index>(block) * steps + step) * (DIGITS * PLANE);
    }
};

// The e of a line whose largest magnitude has these bits. As q is at most 127·(256³ + 256² + 256 + 1), so that its
// digits have no fifth, elements within a 255th of 2^e take the next one.
__device__ __forceinline__ int line_exponent(unsigned int peak) {
    const int biased = peak >> 23;
    const unsigned int mantissa = (peak & 0x7FFFFF) | (biased ? 0x800000 : 0);
    if (mantissa == 0) return 0;
    const int length = 32 - __clz(mantissa);
    const bool at_top = mantissa << (31 - length) > 0x7F7F7F7Fu;
    return length + (biased ? biased : 1) - 150 + at_top;
}

// A line is scaled by (4 + quarters)/4 besides, so that its largest element comes near to the largest q: where that was
// little above a power of two, all digits of the line would be half as fine. A scaled element is rounded to float32 as
// it was one, which the bound keeps below the largest q.
__device__ __forceinline__ int line_quarters(unsigned int peak) {
    if (peak >= INFINITE) return 0;
    const int biased = peak >> 23;
    const unsigned int mantissa = (peak & 0x7FFFFF) | (biased ? 0x800000 : 0);
    if (mantissa == 0) return 0;
    const unsigned int top = mantissa << __clz(mantissa) >> 1, q = top > 0x7F7F7F7Fu ? top >> 1 : top;
    const unsigned int quarter = (q + 3) / 4;
    return (quarter * 5 <= 0x7F7F7F00u) + (quarter * 6 <= 0x7F7F7F00u) + (quarter * 7 <= 0x7F7F7F00u);
}

// q's digits, the highest in the highest byte: adding 128 to the three lower bytes carries, taking it off again does
// not.
__device__ __forceinline__ unsigned int digits_of(int q) {
    return (static_cast<unsigned int>(q) + 0x00808080u) ^ 0x00808080u;
}

// Where in its plane the chunk of 16 steps of k, 0 to 3, of a line lies.
__device__ __forceinline__ int chunk_offset(int line, int chunk) {
    return line * DEPTH + (chunk ^ (line >> 1 & 3)) * 16;
}
