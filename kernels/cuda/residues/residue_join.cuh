// Computes C's elements from their remainders. A thread has the same elements of a tile as the thread that had their
// sums.
#pragma once

#include "residue_layout.cuh"

constexpr int JOINED_WORDS = 8;  // of each thread, by a block: as many columns times eight
constexpr int JOINS = WORDS / JOINED_WORDS;
static_assert(PASS_THREADS == HOLDERS && WORDS % JOINED_WORDS == 0, "as results lie");

// Σa'b', in units of BASE: a number, and what it leaves out, which is half of its last place at most.
struct Exact {
    double most, rest;
};

// Their sum, exactly, whichever is the larger.
__device__ __forceinline__ Exact added(double one, double other) {
    const double most = __dadd_rn(one, other), of_other = __dadd_rn(most, -one);
    return {most, __dadd_rn(__dadd_rn(one, -__dadd_rn(most, -of_other)), __dadd_rn(other, -of_other))};
}

// Out of a byte of each modulus' word. Sums of pieces are exact, and the multiple of M that is taken off is the nearest
// by far: lines leave a 512th of room.
//
// The three pieces are one number then, and the higher two together are less than 2^12 off it. Where they are below
// 2^53, `left` is 0 and nothing is rounded; else the lowest piece and `left` lose less than 2^-95 of the whole. Pieces
// may cancel, so what is left of them is added up before it is scaled: whole numbers come out as they are.
template <int COUNT>
__device__ __forceinline__ Exact whole_of(const unsigned int (&words)[COUNT], int byte) {
    constexpr double MAGIC = 6755399441055744.0;  // 1.5·2^52, whose last place is 1
    const Weights<COUNT>& of = weights<COUNT>();
    double sums[PIECES];
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        sums[piece] = of.from[piece];
#pragma unroll
    for (int modulus = 0; modulus < COUNT; ++modulus) {
        const unsigned int word = words[modulus];
        const unsigned int moved = byte == 0 ? word << 12 : byte == 1 ? word << 4 : byte == 2 ? word >> 4 : word >> 12;
        const double value = __hiloint2double(static_cast<int>((moved & 0xFF000u) ^ 0x3FF80000u), 0);  // 1 + byte/256
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
            sums[piece] = fma(value, of.of[modulus][piece], sums[piece]);
    }
    const double times = __dadd_rn(fma(sums[PIECES - 1], of.per_all, MAGIC), -MAGIC);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        sums[piece] = fma(-times, of.all[piece], sums[piece]);
    const Exact higher = added(__dmul_rn(sums[2], BASE), sums[1]);
    return added(higher.most, fma(sums[0], 1.0 / BASE, higher.rest));
}

// 16 / (quarters · quarters'), as a number and what it leaves out.
struct alignas(16) Unit {
    double most, rest;
};

constexpr int UNITS = 16;

__device__ __forceinline__ void write_unit(Unit* units, int index) {
    const double quarters = (index / 4 + 4) * (index % 4 + 4), most = 16.0 / quarters;
    units[index] = {most, fma(-most, quarters, 16.0) / quarters};
}

__device__ __forceinline__ int quarter_index(int scale) { return quarters_of(scale) & 3; }

__device__ __forceinline__ double power_of_two(int exponent) { return __hiloint2double((1023 + exponent) << 20, 0); }

// Rounded once where the result is a normal number, to the nearest: of two that are equally near, either.
__device__ __forceinline__ double scaled_back(const Exact& exact, const Unit& unit, int exponent) {
    const double value = fma(exact.most, unit.most, fma(exact.most, unit.rest, __dmul_rn(exact.rest, unit.most)));
    const int all = min(max(exponent, -1900), 1900), half = all >> 1;
    return __dmul_rn(__dmul_rn(value, power_of_two(half)), power_of_two(all - half));
}

// Where a thread's elements of a tile of C lie: two rows, and of each 8 columns two. So the instructions left them.
struct Target {
    double* corner;  // C's element at the first of the thread's rows and the tile's first column
    Index pitch;
    int rows, columns;  // that lie in C, from there on
    const int *row_scales, *column_scales;
    bool aligned;  // pairs of neighbours can be written at once
};

__device__ __forceinline__ Target target_of(const Findings& findings, const TileOfC& tile, double* c, Index ldc,
                                            int rows, int columns) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    double* const corner = c + (tile.row + row) * ldc + static_cast<Index>(tile.column) * NUMBERS;
    const int* const scales = findings.scales_in_use();
    return {corner,
            ldc,
            rows - tile.row - row,
            columns - tile.column,
            scales + static_cast<Index>(tile.block_a) * LINES + row,
            scales + static_cast<Index>(tile.block_b) * LINES,
            reinterpret_cast<unsigned long long>(corner) % 16 == 0 && ldc % 2 == 0};
}

// `number`: which of a row's it is.
__device__ __forceinline__ void write_pair(const Target& to, int row, int number, double low, double high) {
    const int numbers = to.columns * NUMBERS;
    if (row >= to.rows || number >= numbers) return;
    double* const at = to.corner + row * to.pitch + number;
    if (to.aligned && number + 1 < numbers) {
        *reinterpret_cast<double2*>(at) = {low, high};
    } else {
        at[0] = low;
        if (number + 1 < numbers) at[1] = high;
    }
}

template <int COUNT>
__device__ __forceinline__ void read_words(unsigned int (&words)[COUNT], const Findings& findings, int tile, int part,
                                           int word) {
    const unsigned char* const from =
        findings.result(0, tile) + part * RESULT_BYTES + (word * HOLDERS + threadIdx.x) * 4;
    const Index apart = static_cast<Index>(findings.tiles) * (NUMBERS * RESULT_BYTES);
#pragma unroll
    for (int modulus = 0; modulus < COUNT; ++modulus)
        words[modulus] = *reinterpret_cast<const unsigned int*>(from + modulus * apart);
}

// A thread's elements of JOINED_WORDS words from `first` on. The next word's remainders, or the other part's, are on
// their way while one's are put together.
template <int COUNT>
__device__ __forceinline__ void write_elements(const Target& to, const Findings& findings, int tile, int first,
                                               const Unit* units) {
    const int lane = threadIdx.x % 32;
    const int scale_0 = to.rows > 0 ? to.row_scales[0] : 0, scale_8 = to.rows > 8 ? to.row_scales[8] : 0;
    unsigned int words[COUNT], next[COUNT];
    read_words(next, findings, tile, 0, first);
#pragma unroll 1
    for (int word = first; word < first + JOINED_WORDS; ++word) {
        const int column = word * 8 + lane % 4 * 2;
        const int scale_low = column < to.columns ? to.column_scales[column] : 0;
        const int scale_high = column + 1 < to.columns ? to.column_scales[column + 1] : 0;
        double values[NUMBERS][4];
#pragma unroll
        for (int part = 0; part < NUMBERS; ++part) {
#pragma unroll
            for (int modulus = 0; modulus < COUNT; ++modulus)
                words[modulus] = next[modulus];
            if (part + 1 < NUMBERS)
                read_words(next, findings, tile, part + 1, word);
            else if (word + 1 < first + JOINED_WORDS)
                read_words(next, findings, tile, 0, word + 1);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int of_row = i < 2 ? scale_0 : scale_8, of_column = i % 2 ? scale_high : scale_low;
                values[part][i] =
                    scaled_back(whole_of(words, i), units[quarter_index(of_row) * 4 + quarter_index(of_column)],
                                BITS - power_of(of_row) - power_of(of_column));
            }
        }
        constexpr int OTHER = IS_COMPLEX ? 1 : 0;
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            if (IS_COMPLEX) {
                write_pair(to, i * 4, 2 * column, values[0][i], values[OTHER][i]);
                write_pair(to, i * 4, 2 * column + 2, values[0][i + 1], values[OTHER][i + 1]);
            } else {
                write_pair(to, i * 4, column, values[0][i], values[0][i + 1]);
            }
        }
    }
}
