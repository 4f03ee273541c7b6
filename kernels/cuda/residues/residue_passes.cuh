// The passes before a product, `measure`, `judge` and `split`, and the one after it, `join`, all with the product's
// arguments. Each may begin while the one before it ends (dependent launch), and waits for that end before it reads or
// writes anything: so it sees what all launches before it wrote, not only the last one.
#pragma once

#include "dependent_launch.cuh"
#include "residue_join.cuh"
#include "residue_judge.cuh"
#include "residue_split.cuh"

#define FINDINGS const Findings findings(workspace, of_a, of_b, batch)
#define OPERANDS   \
    OPERANDS_OF(); \
    FINDINGS

// Of A, and then of B.
template <bool ALONG>
__device__ __forceinline__ void measure(const Operand& operand, int block, const Findings& findings, Index first_line,
                                        Segment (&parts)[WARPS][32]) {
    if (ALONG)
        measure_along(operand, static_cast<Index>(block) * WARPS + threadIdx.x / 32, findings, first_line);
    else
        measure_across(operand, block, findings, first_line, parts);
}

extern "C" __global__ void __launch_bounds__(PASS_THREADS) residue_measure(SIGNATURE) {
    __shared__ Segment parts[WARPS][32];
    launch_dependents();
    OPERANDS;
    const int number = blockIdx.x, blocks_a = measured_blocks(of_a, !TRANSPOSE_A, findings.of_line);
    if (number < blocks_a)
        measure<!TRANSPOSE_A>(of_a, number, findings, 0, parts);
    else
        measure<TRANSPOSE_B>(of_b, number - blocks_a, findings, static_cast<Index>(of_a.items) * of_a.blocks() * LINES,
                             parts);
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
        const Index place = static_cast<Index>(block) * LINES + threadIdx.x % LINES;
        if (line < (is_b ? of_b.lines : of_a.lines))
            judge_line(findings, place, of_a.depth * NUMBERS, heaviest[is_b]);
        else
            set_empty(findings, place);
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

// One block for each tile of A and of B.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, IS_COMPLEX ? 2 : 3) residue_split(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    if (findings.verdict->in_float64) return;
    const Part part = part_of_block(of_a, of_b, findings.steps, DEPTH);
    if (part.block >= of_a.items * of_a.blocks())
        split_part<TRANSPOSE_B, true>(part, findings);
    else
        split_part<!TRANSPOSE_A, false>(part, findings);
}

// Behind the product: a few columns of a tile of C for each block.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 2) residue_join(SIGNATURE) {
    __shared__ Unit units[UNITS];
    launch_dependents();
    wait_on_dependency();
    OPERANDS;
    if (findings.verdict->in_float64) return;
    if (threadIdx.x < UNITS) write_unit(units, threadIdx.x);
    __syncthreads();
    const int number = blockIdx.x / JOINS, first = blockIdx.x % JOINS * JOINED_WORDS;
    const int of_item = findings.tall * findings.across, item = number / of_item, place = number % of_item;
    const TileOfC tile(findings, of_a, of_b, item, place / findings.across * LINES, place % findings.across * BLOCK_N);
    if (tile.column + first * 8 >= of_b.lines) return;
    const Target to = target_of(findings, tile, c + item * stride_c, ldc, of_a.lines, of_b.lines);
    const int moduli = findings.moduli();
    if (moduli == 14)
        write_elements<14>(to, findings, number, first, units);
    else if (moduli == 15)
        write_elements<15>(to, findings, number, first, units);
    else
        write_elements<16>(to, findings, number, first, units);
}
