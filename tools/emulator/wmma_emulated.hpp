// Tensor-core fragments in plain C++, for kernels that include wmma.cuh. Each thread of a warp computes eight of a
// fragment's sums by itself: a row's left or right half. So it keeps of A that row, and of B those columns.
#pragma once
#include "emulated.hpp"

constexpr int LANE_COLUMNS = 8;

inline int lane_row() { return emulated::lane() / 2; }
inline int lane_column() { return emulated::lane() % 2 * LANE_COLUMNS; }

inline float value_of(unsigned short bits) {
#if defined(DTYPE_FLOAT16)
    return float_of_half(bits);
#else
    return __uint_as_float(static_cast<unsigned int>(bits) << 16);
#endif
}

// What the instructions ask: that all threads of the warp come to them, an aligned address, and aligned rows.
template <typename Value>
void check_place(const Value* tile, int ld, emulated::Place place) {
    emulated::come_together(place);
    emulated::require_multiple("A fragment's address", reinterpret_cast<unsigned long long>(tile), 32);
    emulated::require_multiple("The bytes from row to row of a fragment", ld * sizeof(Value), 16);
}

struct FragmentA {
    float row[16];

    void load(const unsigned short* tile, int ld, emulated::Place place = emulated::Place::here()) {
        check_place(tile, ld, place);
        for (int step = 0; step < 16; ++step)
            row[step] = value_of(TRANSPOSE_A ? tile[step * ld + lane_row()] : tile[lane_row() * ld + step]);
    }
};

struct FragmentB {
    float column[LANE_COLUMNS][16];

    void load(const unsigned short* tile, int ld, emulated::Place place = emulated::Place::here()) {
        check_place(tile, ld, place);
        for (int i = 0; i < LANE_COLUMNS; ++i)
            for (int step = 0; step < 16; ++step)
                column[i][step] =
                    value_of(TRANSPOSE_B ? tile[(lane_column() + i) * ld + step] : tile[step * ld + lane_column() + i]);
    }
};

struct FragmentSums {
    float at[LANE_COLUMNS] = {};

    void add_product(const FragmentA& a, const FragmentB& b, emulated::Place place = emulated::Place::here()) {
        emulated::come_together(place);
        for (int i = 0; i < LANE_COLUMNS; ++i)
            for (int step = 0; step < 16; ++step)
                at[i] = fma(a.row[step], b.column[i][step], at[i]);
    }

    void store(float* tile, int ld, emulated::Place place = emulated::Place::here()) const {
        check_place(tile, ld, place);
        for (int i = 0; i < LANE_COLUMNS; ++i)
            tile[lane_row() * ld + lane_column() + i] = at[i];
    }
};
