// Digits of a tile, put in the order of the workspace inside registers. A warp takes 16 lines of the tile and all of
// its steps, a lane 16 steps of a line at a time: a chunk of each plane, which it writes at once. Nothing goes through
// shared memory, and no warp waits for another.
#pragma once

#include "emulated_measure.cuh"

constexpr unsigned int SECOND = INFINITE | 3u << 21;  // bits that a second scale may have
constexpr int WARP_LINES = LINES / WARPS;
constexpr int PASSES = WARP_LINES * DEPTH / RUN / 32;  // runs that a lane takes
static_assert(WARP_LINES == 16 && DEPTH == 64 && PASSES == 2, "runs are laid out for these");

// A line's scale as a power of two and what is left of it, since one number may be out of range: bits of the first, and
// those of the second, whose mantissa has the line's quarters, 8 places below. Both are zero for a line that has no
// digits.
__device__ __forceinline__ unsigned int scales_of(unsigned int peak) {
    if (peak >= INFINITE) return 0;
    const int power = 31 - line_exponent(peak), first = power >> 1;
    return static_cast<unsigned int>(127 + first) << 23 | static_cast<unsigned int>(127 + power - first) << 15 |
           static_cast<unsigned int>(line_quarters(peak)) << 13;
}

// An element as q, halves rounded away from zero. A float32 has 24 bits, so a large element's q often lies half-way
// between two numbers of three digits, and balanced digits would round each of these up: with elements of one sign in
// the other line, such errors add up. Where the third digit is even q is made one less, and so rounded down.
// Scaling loses bits only of what is nothing as an integer. Sums
// towards zero never reach a whole number that the exact one does not, and a NaN is converted to zero.
__device__ __forceinline__ int scaled_integer(float value, unsigned int scales) {
    const float scaled = value * __uint_as_float(scales & INFINITE) * __uint_as_float(scales << 8 & SECOND);
    const float half = __uint_as_float((__float_as_uint(scaled) & 0x80000000u) | 0x3F000000u);
    const int q = __float2int_rz(__fadd_rz(scaled, half));
    return q - ((q & 0x1FF) == 0x80);
}

// Which of the warp's lines, and which chunk of its steps, a lane takes. Where lines lie along memory, four lanes have
// all chunks of one; where they lie across, neighbouring lanes have neighbouring lines.
struct Run {
    int line, chunk;
};

template <bool ALONG>
__device__ __forceinline__ Run run_of(int pass) {
    const int lane = threadIdx.x % 32;
    return ALONG ? Run{pass * (WARP_LINES / PASSES) + lane / 4, lane % 4}
                 : Run{lane % WARP_LINES, pass * 2 + lane / WARP_LINES};
}

// RUN steps of a line from `depth` on; zeros past the last of either. `whole`: no bounds are met, and four neighbours
// can be read at once; `aligned`: they can where no bounds are met.
template <bool ALONG>
__device__ __forceinline__ void read_run(float (&values)[RUN], const float* matrix, const Operand& operand, int line,
                                         int depth, bool whole, bool aligned) {
    const float* const first = matrix + line * operand.line_step + depth * operand.depth_step;
    if (ALONG) {
#pragma unroll
        for (int i = 0; i < RUN; i += 4) {
            float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
            if (whole)
                four = *reinterpret_cast<const float4*>(first + i);
            else if (line < operand.lines)
                four = read_four(first, i, operand.depth - depth, aligned);
            values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            const bool inside = whole || (line < operand.lines && depth + i < operand.depth);
            values[i] = inside ? first[i * operand.depth_step] : 0.0f;
        }
    }
}

// A chunk of each plane.
__device__ __forceinline__ void put_run(unsigned char* tile, int offset, const float (&values)[RUN],
                                        unsigned int scales) {
    unsigned int planes[DIGITS][4];
#pragma unroll
    for (int four = 0; four < 4; ++four) {
        unsigned int digits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            digits[i] = digits_of(scaled_integer(values[four * 4 + i], scales));
        const unsigned int low_01 = __byte_perm(digits[0], digits[1], 0x5140),
                           high_01 = __byte_perm(digits[0], digits[1], 0x7362);
        const unsigned int low_23 = __byte_perm(digits[2], digits[3], 0x5140),
                           high_23 = __byte_perm(digits[2], digits[3], 0x7362);
        planes[0][four] = __byte_perm(high_01, high_23, 0x7632);
        planes[1][four] = __byte_perm(high_01, high_23, 0x5410);
        planes[2][four] = __byte_perm(low_01, low_23, 0x7632);
        planes[3][four] = __byte_perm(low_01, low_23, 0x5410);
    }
#pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit)
        *reinterpret_cast<uint4*>(tile + digit * PLANE + offset) = {planes[digit][0], planes[digit][1],
                                                                    planes[digit][2], planes[digit][3]};
}

// `scales`: in each lane, of the warp's line lane % WARP_LINES.
template <bool ALONG>
__device__ __forceinline__ void split_part(const Part& part, unsigned char* tile, unsigned int scales) {
    const int first = threadIdx.x / 32 * WARP_LINES;
    const bool aligned = part.operand.is_aligned(), whole = aligned && part.whole;
    float values[PASSES][RUN];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
        const Run run = run_of<ALONG>(pass);
        read_run<ALONG>(values[pass], part.matrix, part.operand, part.line + first + run.line,
                        part.depth + run.chunk * RUN, whole, aligned);
    }
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
        const Run run = run_of<ALONG>(pass);
        put_run(tile, chunk_offset(first + run.line, run.chunk), values[pass],
                __shfl_sync(0xFFFFFFFF, scales, run.line));
    }
}
