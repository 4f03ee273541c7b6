// What becomes of sums: remainders, which wait in global memory until those of all moduli are there, and C's elements
// out of these. A thread reads what it wrote itself, so nobody waits for another.
#pragma once

#include "residue_ring.cuh"

constexpr int WORDS = SUMS / 4;                          // of a thread's remainders of one modulus
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;  // neighbours' words are neighbours in memory
constexpr int MODULUS_WORDS = WORDS * CONSUMER_THREADS;
static_assert(MOST * MODULUS_WORDS * 4 == BLOCK_SUM_BYTES, "remainders of a tile");

// 0 to m, of a sum whose magnitude is below 2^30. The inverse is too large by less than one: the quotient is never too
// large, as that adds less than a 256th, and too small by one at most, where it is a whole number below 0.
__device__ __forceinline__ int remainder_of(int sum, const Modulus& modulus) {
    return sum - (__mulhi(sum, modulus.fine_inverse) >> 6) * modulus.value;
}

// `words`: the first of a thread's. `more`: they have remainders of sums of k before.
__device__ __forceinline__ void keep(unsigned int* words, const int (&sums)[SUMS], const Modulus& modulus, bool more) {
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
        const unsigned int before = more ? words[word * CONSUMER_THREADS] : 0;
        unsigned int bytes[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int sum = sums[word * 4 + i] + static_cast<int>(before >> 8 * i & 0xFF);
            bytes[i] = static_cast<unsigned int>(remainder_of(sum, modulus));
        }
        words[word * CONSUMER_THREADS] =
            __byte_perm(__byte_perm(bytes[0], bytes[1], 0x0040), __byte_perm(bytes[2], bytes[3], 0x0040), 0x5410);
    }
}

// A number and what it leaves out of the integer Σa'b', in units of 2^UNIT_BITS.
struct Exact {
    double most, rest;
};

template <int COUNT>
struct InUnits {
    static constexpr int BITS = bits_of(COUNT), PIECES = pieces_of(COUNT), UNIT_BITS = BITS * (PIECES - 2);
};

// Out of a byte of each modulus' word. Sums of pieces are exact, and the multiple of M that is taken off is the nearest
// by far: lines leave a 512th of room.
template <int COUNT>
__device__ __forceinline__ Exact whole_of(const unsigned int (&words)[COUNT], int byte) {
    constexpr int BITS = bits_of(COUNT), PIECES = pieces_of(COUNT);
    constexpr double MAGIC = 6755399441055744.0;  // 1.5·2^52, whose last place is 1
    constexpr double BASE = static_cast<double>(1ull << BITS);
    const Weights<COUNT>& of = weights<COUNT>();
    double sums[PIECES];
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        sums[piece] = of.from[piece];
#pragma unroll
    for (int modulus = 0; modulus < COUNT; ++modulus) {
        const unsigned int word = words[modulus];
        const unsigned int moved = byte == 0 ? word << 12 : byte == 1 ? word << 4 : byte == 2 ? word >> 4 : word >> 12;
        const double value = __hiloint2double(static_cast<int>((moved & 0xFF000u) | 0x3FF00000u), 0);  // 1 + byte/256
#pragma unroll
        for (int piece = 0; piece < PIECES; ++piece)
            sums[piece] = fma(value, of.of[modulus][piece], sums[piece]);
    }
    const double times = __dadd_rn(fma(sums[PIECES - 1], of.per_all, MAGIC), -MAGIC);
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
        sums[piece] = fma(-times, of.all[piece], sums[piece]);
    double rest = sums[0];
#pragma unroll
    for (int piece = 1; piece < PIECES - 2; ++piece)
        rest = fma(rest, 1.0 / BASE, sums[piece]);
    const double upper = __dmul_rn(sums[PIECES - 1], BASE), lower = sums[PIECES - 2];
    const double most = __dadd_rn(upper, lower), of_lower = __dadd_rn(most, -upper);
    const double left = __dadd_rn(__dadd_rn(upper, -__dadd_rn(most, -of_lower)), __dadd_rn(lower, -of_lower));
    return {most, fma(rest, 1.0 / BASE, left)};
}

// 16 / (quarters · quarters'), as a number and what it leaves out.
struct alignas(16) Unit {
    double most, rest;
};

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

// Where a thread's elements of C lie: two rows, and of each 8 columns two.
struct Target {
    double* corner;  // C's element at the first of the thread's rows and the tile's first column
    Index pitch;
    int rows, columns;  // that lie in C, from there on
    const int *row_scales, *column_scales;
    bool aligned;  // pairs of neighbours can be written at once
};

__device__ __forceinline__ void write_pair(const Target& to, int row, int column, double low, double high) {
    if (row >= to.rows || column >= to.columns) return;
    double* const at = to.corner + row * to.pitch + column;
    if (to.aligned && column + 1 < to.columns) {
        *reinterpret_cast<double2*>(at) = {low, high};
    } else {
        at[0] = low;
        if (column + 1 < to.columns) at[1] = high;
    }
}

template <int COUNT>
__device__ __forceinline__ void read_words(unsigned int (&words)[COUNT], const unsigned int* from) {
#pragma unroll
    for (int modulus = 0; modulus < COUNT; ++modulus)
        words[modulus] = from[modulus * MODULUS_WORDS];
}

// All of a thread's elements. The next word's remainders are on their way while one's are put together.
template <int COUNT>
__device__ __forceinline__ void write_elements(const Target& to, const unsigned int* kept, const Unit* units) {
    const int lane = threadIdx.x % 32;
    const int scale_0 = to.rows > 0 ? to.row_scales[0] : 0, scale_8 = to.rows > 8 ? to.row_scales[8] : 0;
    unsigned int words[COUNT], next[COUNT];
    read_words(next, kept);
#pragma unroll 1
    for (int word = 0; word < WORDS; ++word) {
        const int column = word * 8 + lane % 4 * 2;
#pragma unroll
        for (int modulus = 0; modulus < COUNT; ++modulus)
            words[modulus] = next[modulus];
        if (word + 1 < WORDS) read_words(next, kept + (word + 1) * CONSUMER_THREADS);
        const int scale_low = column < to.columns ? to.column_scales[column] : 0;
        const int scale_high = column + 1 < to.columns ? to.column_scales[column + 1] : 0;
        double values[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int of_row = i < 2 ? scale_0 : scale_8, of_column = i % 2 ? scale_high : scale_low;
            values[i] = scaled_back(whole_of(words, i), units[quarter_index(of_row) * 4 + quarter_index(of_column)],
                                    InUnits<COUNT>::UNIT_BITS - power_of(of_row) - power_of(of_column));
        }
        write_pair(to, 0, column, values[0], values[1]);
        write_pair(to, 8, column, values[2], values[3]);
    }
}
