// Tensor-core fragments for traces of kernels that include wmma.cuh: which lane touches what, and no arithmetic.
//
// The hardware keeps to itself which lane holds what of a fragment. Here each of the 32 has half a row (or column,
// where it is stored by columns) of the 16×16 elements, which is as many bytes as it has there.
#pragma once
#include "emulated.hpp"
//
#include "common.cuh"

template <typename Value>
struct alignas(16) HalfRow {
    Value at[8];
};

struct Fragment {
    HalfRow<Element> elements;

    void load(const Element* tile, int ld) {
        elements =
            *reinterpret_cast<const HalfRow<Element>*>(tile + emulated::lane() / 2 * ld + emulated::lane() % 2 * 8);
    }
};
using FragmentA = Fragment;
using FragmentB = Fragment;

struct FragmentSums {
    float at[8] = {};

    void add_product(const FragmentA&, const FragmentB&) {}
    void store(float* tile, int ld) const {
        for (int i = 0; i < 8; ++i)
            tile[emulated::lane() / 2 * ld + emulated::lane() % 2 * 8 + i] = at[i];
    }
};
