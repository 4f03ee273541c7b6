// The passes before an emulated product, `measure`, `judge` and `split`, and the one after it, `lines`, all with the
// product's arguments. Each may begin while the one before it ends (dependent launch), and waits for that end before it
// reads or writes anything: so it sees what all launches before it wrote, not only the last one.
#pragma once

#include "dependent_launch.cuh"
#include "emulated_digits.cuh"
#include "emulated_judge.cuh"
#include "emulated_lines.cuh"

#define OPERANDS   \
    OPERANDS_OF(); \
    const Findings findings(workspace, of_a, of_b)

// One block for each MEASURED_ROWS × MEASURED_COLUMNS of A, and then of B.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) emulated_measure(SIGNATURE) {
    __shared__ OfColumns of_columns;
    launch_dependents();
    OPERANDS;
    const int number = blockIdx.x, blocks_a = measured_blocks(of_a);
    const bool is_b = number >= blocks_a;
    measure_operand(chosen(is_b, of_a, of_b), is_b ? number - blocks_a : number, findings,
                    is_b ? static_cast<Index>(of_a.items) * of_a.blocks() * LINES : 0, of_columns);
}

// A warp for each block of lines.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) emulated_judge(SIGNATURE) {
    __shared__ Judging judging;
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    const int blocks_a = of_a.items * of_a.blocks(), blocks = blocks_a + of_b.items * of_b.blocks();
    const int block = blockIdx.x * (PASS_THREADS / 32) + threadIdx.x / 32, is_b = block >= blocks_a;
    for (int i = 0; i < 2; ++i)
        judging.weights[i][threadIdx.x] = 0;
    if (threadIdx.x < 2) judging.heaviest[threadIdx.x] = 0;
    __syncthreads();
    if (block < blocks)
        judge_lines(findings, block, of_a.depth, NO_DIGITS, [&](int, int weight) {
            atomicAdd(&judging.weights[is_b][weight], 1u);
            atomicMax(&judging.heaviest[is_b], static_cast<unsigned int>(weight));
        });
    __syncthreads();
    Verdict& verdict = *findings.verdict;
    for (int i = 0; i < 2; ++i)
        if (const unsigned int lines = judging.weights[i][threadIdx.x])
            atomicAdd(&verdict.weights[i][threadIdx.x], lines);
    if (threadIdx.x < 2) atomicMax(&verdict.heaviest[threadIdx.x], judging.heaviest[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) judging.is_last = atomicAdd(&verdict.arrived, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!judging.is_last) return;
    __threadfence();
    const unsigned int heaviest = __ldcg(&verdict.heaviest[0]) + __ldcg(&verdict.heaviest[1]);
    if (heaviest > static_cast<unsigned int>(largest_sum(of_a.depth))) list_lines(judging, findings, of_a, of_b);
}

// One block for each tile of A and of B.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 4) emulated_split(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    if (findings.verdict->in_float32) return;
    const Part part = part_of_block(of_a, of_b, findings.steps, DEPTH);
    const unsigned int* const peaks = findings.peaks + static_cast<Index>(part.block) * LINES;
    const unsigned int scales = scales_of(peaks[threadIdx.x / 32 * WARP_LINES + threadIdx.x % WARP_LINES]);
    unsigned char* const tile = findings.tile(part.block, part.step);
    if (part.operand.along_depth)
        split_part<true>(part, tile, scales);
    else
        split_part<false>(part, tile, scales);
}

// Behind the product: rows of C whose row of A is listed, and columns whose column of B is.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 2) emulated_lines(SIGNATURE) {
    __shared__ LinesShared shared;
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    if (findings.verdict->in_float32 || !findings.verdict->any_listed) return;
    int before = 0;
    for (int item = 0; item < static_cast<int>(batch); ++item) {
        float* const of_item = c + item * stride_c;
        const Listed rows(findings, of_a, of_b, false, item), columns(findings, of_b, of_a, true, item);
        before = multiply_listed<!TRANSPOSE_A, TRANSPOSE_B>(shared, rows, of_item, ldc, 1, before);
        before = multiply_listed<TRANSPOSE_B, !TRANSPOSE_A>(shared, columns, of_item, 1, ldc, before);
    }
}
