// The passes of `fp32_emulated` that need no Hopper, with the words of CUDA that no other emulated kernel has; and a
// pass that tells how each tile would be made.
inline int __clz(unsigned int bits) { return bits ? __builtin_clz(bits) : 32; }
inline float exp2f(float value) { return __builtin_exp2f(value); }
inline float log2f(float value) { return __builtin_log2f(value); }
inline float ceilf(float value) { return __builtin_ceilf(value); }
inline float fabsf(float value) { return __builtin_fabsf(value); }
inline float fmaxf(float one, float other) { return __builtin_fmaxf(one, other); }

// A sum towards zero: exact in float64 but where the smaller number cannot reach the result's places.
inline float __fadd_rz(float one, float other) {
    const double exact = static_cast<double>(one) + other;
    const float nearest = static_cast<float>(exact);
    const bool is_beyond = exact < 0 ? nearest < exact : nearest > exact;
    return is_beyond ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;
}

inline int __float2int_rz(float value) { return value == value ? static_cast<int>(value) : 0; }

// Byte i of the result is the byte that nibble i of `chosen` counts, through `low` and then `high`.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int chosen) {
    const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
    unsigned int found = 0;
    for (int i = 0; i < 4; ++i)
        found |= static_cast<unsigned int>(bytes >> 8 * (chosen >> 4 * i & 7) & 0xFF) << 8 * i;
    return found;
}

inline unsigned int __reduce_max_sync(unsigned int mask, unsigned int value,
                                      emulated::Place at = emulated::Place::here()) {
    for (int lanes = 1; lanes < warpSize; lanes *= 2) {
        const unsigned int other = __shfl_xor_sync(mask, value, lanes, at);
        value = value > other ? value : other;
    }
    return value;
}

inline unsigned int __reduce_add_sync(unsigned int mask, unsigned int value,
                                      emulated::Place at = emulated::Place::here()) {
    for (int lanes = 1; lanes < warpSize; lanes *= 2)
        value += __shfl_xor_sync(mask, value, lanes, at);
    return value;
}

inline unsigned int atomicMin(unsigned int* place, unsigned int value) {
    const unsigned int before = *place;
    *place = value < before ? value : before;
    return before;
}

#include "emulated_passes.cuh"

// Into C's first element of each tile.
extern "C" __global__ void ways(SIGNATURE) {
    OPERANDS;
    for (int item = 0; item < batch; ++item)
        for (int row = 0; row < m; row += LINES)
            for (int column = 0; column < n; column += LINES)
                c[item * stride_c + row * ldc + column] =
                    static_cast<float>(Task(findings, of_a, of_b, Work{row, column, item}).way);
}
