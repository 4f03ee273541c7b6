// A float64 product as int8 products: what an integer of a line is, and where passes leave what the next one needs.
//
// A line is a row of A or a column of B. Its elements are scaled by a number of its own, a power of two times 1, 1.25,
// 1.5 or 1.75, and rounded to integers, halves to even, so that the Euclidean norm of these is at most R
// (residue_moduli.cuh). Products of two such lines are then below half the product of all moduli, and their remainders
// tell them. residue_judge.cuh says what rounding costs, and how many moduli a product takes.
//
// Remainders lie as the tensor cores read them: plane by plane (one for each modulus), in tiles of LINES × DEPTH bytes
// whose 16-byte chunks are permuted within 128 bytes (the 128-byte swizzle of a bulk tensor copy).
//
// COMPLEX: elements are pairs of numbers, Re and Im, and pitches and strides count numbers. A line is scaled as the 2k
// numbers that it is. With x and y for what an element's numbers became, y of A negated, the parts of C are
//
//   Re = Σ x·x' + y·y' = Σ (x - y)·x' + Σ y·(y' + x'),    Im = Σ x·y' - y·x' = Σ (x - y)·x' + Σ x·(y' - x')
//
// so three products of planes in place of four; and since remainders are exact, with the bits of four.
#pragma once

#include "lines.cuh"
#include "residue_moduli.cuh"

static_assert(BLOCK_N == 128 || BLOCK_N == 256, "columns of a tile of C");

#ifdef COMPLEX
constexpr bool IS_COMPLEX = true;
#else
constexpr bool IS_COMPLEX = false;
#endif
constexpr int NUMBERS = IS_COMPLEX ? 2 : 1;  // of an element
constexpr int PLANES = IS_COMPLEX ? 3 : 1;   // of each operand, by modulus: each is multiplied by one of the other's

constexpr int DEPTH = 128;
constexpr int TILE_BYTES = LINES * DEPTH;
constexpr int CHUNKS = DEPTH / 16;                    // of a line in a tile
constexpr int SEGMENT = 512;                          // numbers of a line that are measured together
constexpr int EMPTY = -4096;                          // the exponent of what has no elements but zeros
constexpr unsigned int INFINITE = 0x7FF00000;         // the upper half of infinity's bits; a NaN's is no smaller
constexpr unsigned int SMALLEST_NORMAL = 0x00100000;  // that of 2^-1022

constexpr int RESULT_BYTES = LINES * BLOCK_N;  // remainders of a tile of C, of one modulus
constexpr int HOLDERS = 256;                   // threads that have its elements; their words are neighbours in memory
constexpr int WORDS = RESULT_BYTES / HOLDERS / 4;  // of each

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

// What is found about SEGMENT numbers of a line. Nothing of it depends on the order of threads.
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

// The workspace. Blocks of lines are numbered through A's items and then B's, tiles of C through the batch.
struct Findings {
    Verdict* verdict;
    Segment* segments;       // of each line
    int* scales;             // by way, of each line
    unsigned char* results;  // by modulus, of each tile of C, its parts one after the other
    unsigned char* planes;   // by modulus
    Index lines;
    int of_line, steps, blocks;  // segments of a line, tiles of one along k, blocks of lines
    int tall, across, tiles;     // of C, in one product and in all

    __device__ __forceinline__ Findings(unsigned char* workspace, const Operand& a, const Operand& b, Index batch) {
        blocks = a.items * a.blocks() + b.items * b.blocks();
        lines = static_cast<Index>(blocks) * LINES;
        of_line = blocks_of(a.depth * NUMBERS, SEGMENT);
        steps = blocks_of(a.depth, DEPTH);
        tall = a.blocks();
        across = blocks_of(b.lines, BLOCK_N);
        tiles = static_cast<int>(batch) * tall * across;
        verdict = reinterpret_cast<Verdict*>(workspace);
        segments = reinterpret_cast<Segment*>(verdict + 1);
        scales = reinterpret_cast<int*>(segments + lines * of_line);
        results = reinterpret_cast<unsigned char*>(scales + lines * WAYS);
        planes = results + static_cast<Index>(tiles) * (MOST * NUMBERS * RESULT_BYTES);
    }

    __device__ __forceinline__ int moduli() const { return static_cast<int>(verdict->moduli); }
    __device__ __forceinline__ const int* scales_in_use() const { return scales + (moduli() - FEWEST) * lines; }

    __device__ __forceinline__ unsigned char* tile(int modulus, int plane, int block, int step) const {
        const Index number = static_cast<Index>(modulus) * PLANES + plane;
        return planes + ((number * blocks + block) * steps + step) * TILE_BYTES;
    }

    __device__ __forceinline__ unsigned char* result(int modulus, int tile) const {
        return results + (static_cast<Index>(modulus) * tiles + tile) * (NUMBERS * RESULT_BYTES);
    }
};

// A tile of C: of which product, which blocks of lines it is of, and its first element.
struct TileOfC {
    int item, number, row, column;
    int block_a, block_b;

    __device__ __forceinline__ TileOfC(const Findings& findings, const Operand& a, const Operand& b, int item, int row,
                                       int column)
        : item(item), row(row), column(column) {
        number = (item * findings.tall + row / LINES) * findings.across + column / BLOCK_N;
        block_a = (a.items > 1 ? item : 0) * a.blocks() + row / LINES;
        block_b = a.items * a.blocks() + (b.items > 1 ? item : 0) * b.blocks() + column / LINES;
    }
};

// Where in its tile the chunk of 16 steps of k of a line lies.
__device__ __forceinline__ int chunk_offset(int line, int chunk) { return line * DEPTH + (chunk ^ (line & 7)) * 16; }
