// A float64 product as int8 products: what an integer of a line is, and where passes leave what the next one needs.
//
// A line is a row of A or a column of B. Its elements are scaled by a number of its own, a power of two times 1, 1.25,
// 1.5 or 1.75, and rounded to integers, halves to even, so that the Euclidean norm of these is at most R
// (residue_moduli.cuh). Products of two such lines are then below half the product of all moduli, and their remainders
// tell them. residue_judge.cuh says what rounding costs, and how many moduli a product takes.
//
// Remainders lie as the tensor cores read them: plane by plane (one for each modulus), in tiles of LINES × DEPTH bytes
// whose 16-byte chunks are permuted within 128 bytes (the 128-byte swizzle of a bulk tensor copy).
#pragma once

#include "common.cuh"
#include "residue_moduli.cuh"

static_assert(BLOCK_N == 128 || BLOCK_N == 256, "columns of a tile of C");

constexpr int LINES = 128;
constexpr int DEPTH = 128;
constexpr int TILE_BYTES = LINES * DEPTH;
constexpr int CHUNKS = DEPTH / 16;                    // of a line in a tile
constexpr int SEGMENT = 512;                          // steps of k that are measured together
constexpr int MOST_BLOCKS = 192;                      // resident ones: no device has more multiprocessors
constexpr int EMPTY = -4096;                          // the exponent of what has no elements but zeros
constexpr unsigned int INFINITE = 0x7FF00000;         // the upper half of infinity's bits; a NaN's is no smaller
constexpr unsigned int SMALLEST_NORMAL = 0x00100000;  // that of 2^-1022

constexpr int BLOCK_SUM_BYTES = MOST * LINES * BLOCK_N;  // remainders of a tile of C, of all moduli

__device__ __forceinline__ int blocks_of(int extent, int block) { return (extent + block - 1) / block; }

// An operand: `items` matrices of `lines` lines, `depth` elements each.
struct Operand {
    const double* first;
    int lines, depth, items;
    Index line_step, depth_step, stride;
    bool along_depth;  // whether a line's elements lie next to each other, or one step's of neighbouring lines

    __device__ __forceinline__ int blocks() const { return blocks_of(lines, LINES); }

    // Whether two neighbours of a line can be read at once, from a place that is a multiple of two.
    __device__ __forceinline__ bool is_aligned() const {
        return along_depth && reinterpret_cast<unsigned long long>(first) % 16 == 0 && line_step % 2 == 0 &&
               stride % 2 == 0;
    }
};

// B or A, member by member: a choice between references would put both into memory.
__device__ __forceinline__ Operand chosen(bool is_b, const Operand& a, const Operand& b) {
    return {is_b ? b.first : a.first,
            is_b ? b.lines : a.lines,
            a.depth,
            is_b ? b.items : a.items,
            is_b ? b.line_step : a.line_step,
            is_b ? b.depth_step : a.depth_step,
            is_b ? b.stride : a.stride,
            is_b ? b.along_depth : a.along_depth};
}

// What holds for the product as a whole. The host launches the float64 kernel behind the product, with the address of
// the first word.
struct Verdict {
    unsigned int in_float64;  // not 0: no remainders are made, and the float64 kernel multiplies
    unsigned int moduli;      // how many are in use
    unsigned int arrived;     // blocks of `judge` that have ended
    unsigned int padding;
    unsigned int heaviest[2][WAYS];  // of lines of A and of B, by moduli
    unsigned int rest[22];           // what follows begins at a multiple of 128 bytes
};
static_assert(sizeof(Verdict) == 128, "as the catalogue's entry has it");

// What is found about SEGMENT steps of a line. Nothing of it depends on the order of threads.
struct alignas(16) Segment {
    float squares;       // Σ(element / 2^exponent)², rounded up
    int exponent;        // no element reaches 2^exponent; EMPTY where all are zero
    unsigned int log;    // 16 · Σ(1023 + log2), of the normal numbers, rounded down
    unsigned int count;  // of these; NOT_FINITE or more where there is an infinity or a NaN
};
constexpr unsigned int NOT_FINITE = 1u << 20;

// A line's scale, for so many moduli as the way says: a power of two and quarters, 4 to 7, in one word. 0 for a line of
// zeros.
__device__ __forceinline__ int packed_scale(int power, int quarters) { return power * 8 + quarters; }
__device__ __forceinline__ int power_of(int scale) { return scale >> 3; }
__device__ __forceinline__ int quarters_of(int scale) { return scale & 7; }

// The workspace. Blocks of lines are numbered through A's items and then B's.
struct Findings {
    Verdict* verdict;
    Segment* segments;    // of each line
    int* scales;          // by way, of each line
    unsigned char* sums;  // of each resident block: remainders of the tile that it computes
    unsigned char* planes;
    Index lines;
    int of_line, steps, blocks;  // segments of a line, tiles of one along k, blocks of lines

    __device__ __forceinline__ Findings(unsigned char* workspace, const Operand& a, const Operand& b, Index batch) {
        blocks = a.items * a.blocks() + b.items * b.blocks();
        lines = static_cast<Index>(blocks) * LINES;
        of_line = blocks_of(a.depth, SEGMENT);
        steps = blocks_of(a.depth, DEPTH);
        verdict = reinterpret_cast<Verdict*>(workspace);
        segments = reinterpret_cast<Segment*>(verdict + 1);
        scales = reinterpret_cast<int*>(segments + lines * of_line);
        sums = reinterpret_cast<unsigned char*>(scales + lines * WAYS);
        const Index tiles = batch * (blocks_of(a.lines, LINES * CLUSTER) * CLUSTER) * blocks_of(b.lines, BLOCK_N);
        planes = sums + min(tiles, static_cast<Index>(MOST_BLOCKS)) * BLOCK_SUM_BYTES;
    }

    __device__ __forceinline__ int moduli() const { return static_cast<int>(verdict->moduli); }
    __device__ __forceinline__ const int* scales_in_use() const { return scales + (moduli() - FEWEST) * lines; }

    __device__ __forceinline__ unsigned char* tile(int modulus, int block, int step) const {
        return planes + ((static_cast<Index>(modulus) * blocks + block) * steps + step) * TILE_BYTES;
    }
};

// Where in its tile the chunk of 16 steps of k of a line lies.
__device__ __forceinline__ int chunk_offset(int line, int chunk) { return line * DEPTH + (chunk ^ (line & 7)) * 16; }
