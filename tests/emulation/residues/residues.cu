// `fp64_emulated` with its passes, as one function that is told which of them to be, so that a library has all; and the
// words of CUDA that no other emulated kernel has.
inline float log2f(float value) { return __builtin_log2f(value); }
inline float ceilf(float value) { return __builtin_ceilf(value); }
inline float fmaxf(float one, float other) { return __builtin_fmaxf(one, other); }
inline float fminf(float one, float other) { return __builtin_fminf(one, other); }

// Byte i of the result is the byte that nibble i of `chosen` counts, through `low` and then `high`.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int chosen) {
    const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
    unsigned int found = 0;
    for (int i = 0; i < 4; ++i)
        found |= static_cast<unsigned int>(bytes >> 8 * (chosen >> 4 * i & 7) & 0xFF) << 8 * i;
    return found;
}

#include "fp64_emulated.cu"

extern "C" __global__ void residues(SIGNATURE, int which) {
    (which == 0   ? residue_measure
     : which == 1 ? residue_judge
     : which == 2 ? residue_split
     : which == 3 ? fp64_emulated
                  : residue_join)(a, b, c, m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch, workspace);
}
