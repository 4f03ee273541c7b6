// Operands as lines, rows of A and columns of B, for kernels that convert each line to bytes before they multiply:
// digits or remainders. The passes before such a product process lines in blocks of LINES, and their elements in tiles
// of as many steps as one instruction of the tensor cores takes.
#pragma once

#include "common.cuh"

constexpr int LINES = 128;
constexpr int PASS_THREADS = 256, WARPS = PASS_THREADS / 32;  // of a block of what runs before
constexpr int RUN = 16;                                       // steps that a thread takes at a time

__device__ __forceinline__ int blocks_of(int extent, int block) { return (extent + block - 1) / block; }

// An operand: `items` matrices of `lines` lines, `depth` elements each.
struct Operand {
    const Element* first;
    int lines, depth, items;
    Index line_step, depth_step, stride;
    bool along_depth;  // whether a line's elements lie next to each other, or one step's of neighbouring lines

    __device__ __forceinline__ int blocks() const { return blocks_of(lines, LINES); }

    // Whether neighbours in memory can be read 16 bytes at a time, from an index that is a multiple of their number.
    __device__ __forceinline__ bool is_aligned() const {
        constexpr int TOGETHER = 16 / sizeof(Element);
        const Index pitch = along_depth ? line_step : depth_step;
        return reinterpret_cast<unsigned long long>(first) % 16 == 0 && pitch % TOGETHER == 0 && stride % TOGETHER == 0;
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

// A tile of an operand that a block of threads converts: its matrix and its position.
struct Part {
    Operand operand;
    const Element* matrix;
    int line, depth;  // the tile's first
    int block, step;  // which tile it is, with blocks of lines numbered through A's items and then B's
    bool whole;       // whether it lies inside the operand entirely
};

// One for each tile of A, then of B, in the order of memory, but backwards: the L2 may still have what was measured
// last. `steps`: number of tiles in a line; `deep`: elements in a tile of a line.
__device__ __forceinline__ Part part_of_block(const Operand& a, const Operand& b, int steps, int deep) {
    const int blocks_a = a.items * a.blocks(), number = gridDim.x - 1 - blockIdx.x;
    const bool is_b = number >= blocks_a * steps;
    const Operand operand = chosen(is_b, a, b);
    const int blocks = operand.blocks(), of_item = blocks * steps;
    const int within = is_b ? number - blocks_a * steps : number, item = within / of_item, place = within % of_item;
    const int block = operand.along_depth ? place / steps : place % blocks;
    const int step = operand.along_depth ? place % steps : place / blocks;
    const int line = block * LINES, depth = step * deep;
    return {operand,
            operand.first + item * operand.stride,
            line,
            depth,
            (is_b ? blocks_a : 0) + item * blocks + block,
            step,
            line + LINES <= operand.lines && depth + deep <= operand.depth};
}

#define SIGNATURE                                                                                                     \
    const Element *__restrict__ a, const Element *__restrict__ b, Product *__restrict__ c, Index m, Index n, Index k, \
        Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,                 \
        unsigned char *workspace
// `known` gives a size: itself, or one that the compiler does not know to be the same as before.
#define OPERANDS_OF(known)                                        \
    const Operand of_a = {a,                                      \
                          known(static_cast<int>(m)),             \
                          known(static_cast<int>(k)),             \
                          stride_a ? static_cast<int>(batch) : 1, \
                          row_step_a(lda),                        \
                          column_step_a(lda),                     \
                          stride_a,                               \
                          !TRANSPOSE_A};                          \
    const Operand of_b = {b,                                      \
                          known(static_cast<int>(n)),             \
                          of_a.depth,                             \
                          stride_b ? static_cast<int>(batch) : 1, \
                          column_step_b(ldb),                     \
                          row_step_b(ldb),                        \
                          stride_b,                               \
                          TRANSPOSE_B}
