// Rows and columns of C whose lines digits cannot carry, in float32 straight from A and B. They are few, so memory
// bandwidth limits them: a block reads a strip of the other operand once for up to 32 of them.
//
// The warps of a block take an eighth of k each, and their sums are added in the order of k. How an element is summed
// depends on k alone, so an element that is in a listed row and in a listed column is the same from both.
#pragma once

#include "emulated_digits.cuh"

constexpr int TOGETHER = 32;  // listed lines that a block multiplies at a time
constexpr int FEW = 8;        // so many take fewer registers and reads
constexpr int STRIP = 32;     // lines of the other operand, one to a lane

struct alignas(16) LinesShared {
    float staged[WARPS][RUN][TOGETHER];  // steps of the listed lines, of each warp its own
    float sums[TOGETHER][STRIP + 1];
};

// The listed lines of an operand in a product of the batch, and the operand that they meet.
struct Listed {
    Operand of, other;
    const float *lines, *others;  // their matrices
    const unsigned int* list;
    int count;

    // Lists of A's items come before those of B's.
    __device__ __forceinline__ Listed(const Findings& findings, const Operand& of, const Operand& other, bool is_b,
                                      int product)
        : of(of), other(other) {
        const int item = of.items > 1 ? product : 0, other_item = other.items > 1 ? product : 0;
        const int before = is_b ? other.items : 0, blocks_before = is_b ? other.items * other.blocks() : 0;
        lines = of.first + item * of.stride;
        others = other.first + other_item * other.stride;
        list = findings.lists + static_cast<Index>(blocks_before + item * of.blocks()) * LINES;
        count = static_cast<int>(findings.listed[before + item]);
    }
};

// A warp's part of k, of COUNT listed lines with its lane's line of the strip.
template <bool ALONG, bool OTHER_ALONG, int COUNT>
__device__ __forceinline__ void multiply_part(float (&sums)[COUNT], float (&staged)[RUN][TOGETHER],
                                              const Listed& listed, int line, int other, int first, int last) {
    const int lane = threadIdx.x % 32;
    const bool aligned = listed.of.is_aligned(), other_aligned = listed.other.is_aligned();
    for (int depth = first; depth < last; depth += RUN) {
        const bool inside = depth + RUN <= listed.of.depth;
        float values[RUN], others[RUN];
        read_run<OTHER_ALONG>(others, listed.others, listed.other, other, depth,
                              inside && other_aligned && other < listed.other.lines, other_aligned);
        if (lane < COUNT)
            read_run<ALONG>(values, listed.lines, listed.of, line, depth, inside && aligned && line < listed.of.lines,
                            aligned);
        __syncwarp();  // everybody has read what was staged before
        if (lane < COUNT)
#pragma unroll
            for (int i = 0; i < RUN; ++i)
                staged[i][lane] = values[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < RUN; ++i)
#pragma unroll
            for (int j = 0; j < COUNT; j += 4) {
                const float4 four = *reinterpret_cast<const float4*>(&staged[i][j]);
                sums[j] = fmaf(four.x, others[i], sums[j]);
                sums[j + 1] = fmaf(four.y, others[i], sums[j + 1]);
                sums[j + 2] = fmaf(four.z, others[i], sums[j + 2]);
                sums[j + 3] = fmaf(four.w, others[i], sums[j + 3]);
            }
    }
}

// COUNT of the listed lines from `first` on, with the strip from line `strip` on. The element of C at a listed line and
// another lies `line_step` and `other_step` elements along from the first.
template <bool ALONG, bool OTHER_ALONG, int COUNT>
__device__ __forceinline__ void multiply_strip(LinesShared& shared, const Listed& listed, int first, int strip,
                                               float* c, Index line_step, Index other_step) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, count = min(COUNT, listed.count - first);
    const int line = lane < count ? static_cast<int>(listed.list[first + lane]) : listed.of.lines;
    const int part = blocks_of(blocks_of(listed.of.depth, RUN), WARPS) * RUN;
    float sums[COUNT] = {};
    multiply_part<ALONG, OTHER_ALONG, COUNT>(sums, shared.staged[warp], listed, line, strip + lane, warp * part,
                                             min((warp + 1) * part, listed.of.depth));
    for (int order = 0; order < WARPS; ++order) {
        if (order == warp)
#pragma unroll
            for (int j = 0; j < COUNT; ++j)
                shared.sums[j][lane] = order == 0 ? sums[j] : shared.sums[j][lane] + sums[j];
        __syncthreads();
    }
    for (int j = warp; j < count; j += WARPS)
        if (strip + lane < listed.other.lines)
            c[listed.list[first + j] * line_step + (strip + lane) * other_step] = shared.sums[j][lane];
    __syncthreads();  // everybody has read the sums
}

// All listed lines with all strips, shared among the blocks of the grid. `before`: how many pairs of these were shared
// before; returns how many are in the end, modulo the grid.
template <bool ALONG, bool OTHER_ALONG>
__device__ __forceinline__ int multiply_listed(LinesShared& shared, const Listed& listed, float* c, Index line_step,
                                               Index other_step, int before) {
    const int blocks = gridDim.x, strips = blocks_of(listed.other.lines, STRIP);
    const int all = blocks_of(listed.count, TOGETHER) * strips;
    for (int task = (static_cast<int>(blockIdx.x) - before + blocks) % blocks; task < all; task += blocks) {
        const int first = task / strips * TOGETHER, strip = task % strips * STRIP;
        if (listed.count - first <= FEW)
            multiply_strip<ALONG, OTHER_ALONG, FEW>(shared, listed, first, strip, c, line_step, other_step);
        else
            multiply_strip<ALONG, OTHER_ALONG, TOGETHER>(shared, listed, first, strip, c, line_step, other_step);
    }
    return (before + all) % blocks;
}
