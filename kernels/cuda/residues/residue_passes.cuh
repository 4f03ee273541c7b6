// What runs before a product on the tensor cores, with the same arguments: what lines are like, what follows from it,
// and remainders. Each may begin while the one before it ends, and waits before it reads or writes anything: so each
// has all that was written before it, not by the last launch alone.
#pragma once

#include "dependent_launch.cuh"
#include "residue_judge.cuh"
#include "residue_split.cuh"

#define SIGNATURE                                                                                                  \
    const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c, Index m, Index n, Index k, \
        Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,              \
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
                          TRANSPOSE_B};                           \
    const Findings findings(workspace, of_a, of_b, batch)
#define OPERANDS OPERANDS_OF()

// Blocks of A, and then of B.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) residue_measure(SIGNATURE) {
    launch_dependents();
    OPERANDS;
    const int number = blockIdx.x, blocks_a = measured_blocks<!TRANSPOSE_A>(of_a, findings.of_line);
    if (number < blocks_a)
        measure_operand<!TRANSPOSE_A>(of_a, number, findings, 0);
    else
        measure_operand<TRANSPOSE_B>(of_b, number - blocks_a, findings,
                                     static_cast<Index>(of_a.items) * of_a.blocks() * LINES);
}

// Two blocks of lines for each block of threads, a line for each thread.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) residue_judge(SIGNATURE) {
    __shared__ unsigned int heaviest[2][WAYS];
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    const int blocks_a = of_a.items * of_a.blocks();
    const int block = blockIdx.x * (PASS_THREADS / LINES) + threadIdx.x / LINES, is_b = block >= blocks_a;
    if (threadIdx.x < WAYS) heaviest[0][threadIdx.x] = heaviest[1][threadIdx.x] = 0;
    __syncthreads();
    if (block < findings.blocks) {
        const int of_item = is_b ? of_b.blocks() : of_a.blocks(), within = is_b ? block - blocks_a : block;
        const int line = within % of_item * LINES + threadIdx.x % LINES;
        if (line < (is_b ? of_b.lines : of_a.lines))
            judge_line(findings, static_cast<Index>(block) * LINES + threadIdx.x % LINES, of_a.depth, heaviest[is_b]);
    }
    __syncthreads();
    Verdict& verdict = *findings.verdict;
    if (threadIdx.x < 2 * WAYS) {
        const int of = threadIdx.x / WAYS, way = threadIdx.x % WAYS;
        atomicMax(&verdict.heaviest[of][way], heaviest[of][way]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&verdict.arrived, 1u) == gridDim.x - 1) {
        __threadfence();
        decide(verdict);
    }
}

// One block for each tile of A, and then of B; the last first: what was measured last the L2 may still have.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 3) residue_split(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    if (findings.verdict->in_float64) return;
    const int blocks_a = of_a.items * of_a.blocks(), number = gridDim.x - 1 - blockIdx.x;
    const bool is_b = number >= blocks_a * findings.steps;
    const Operand operand = chosen(is_b, of_a, of_b);
    const int blocks = operand.blocks(), of_item = blocks * findings.steps;
    const int within = is_b ? number - blocks_a * findings.steps : number, item = within / of_item;
    const int place = within % of_item;
    const int block_of_item = operand.along_depth ? place / findings.steps : place % blocks;
    const int step = operand.along_depth ? place % findings.steps : place / blocks;
    const int block = (is_b ? blocks_a : 0) + item * blocks + block_of_item;
    const int line = block_of_item * LINES, depth = step * DEPTH;
    const Part part = {operand.first + item * operand.stride,
                       line,
                       depth,
                       block,
                       step,
                       line + LINES <= operand.lines && depth + DEPTH <= operand.depth};
    const int* const scales = findings.scales_in_use() + static_cast<Index>(block) * LINES;
    if (operand.along_depth)
        split_part<true>(part, operand, findings, scales);
    else
        split_part<false>(part, operand, findings, scales);
}
