// What runs before an emulated product on the tensor cores, with the same arguments: peaks of lines, digits, and the
// tiles that CUDA cores multiply.
#pragma once

#include "emulated_digits.cuh"
#include "emulated_plain.cuh"
#include "emulated_way.cuh"

#define SIGNATURE                                                                                               \
    const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, Index m, Index n, Index k, \
        Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,           \
        unsigned char *workspace
#define OPERANDS                                                  \
    const Operand of_a = {a,                                      \
                          static_cast<int>(m),                    \
                          static_cast<int>(k),                    \
                          stride_a ? static_cast<int>(batch) : 1, \
                          row_step_a(lda),                        \
                          column_step_a(lda),                     \
                          stride_a,                               \
                          !TRANSPOSE_A};                          \
    const Operand of_b = {b,                                      \
                          static_cast<int>(n),                    \
                          static_cast<int>(k),                    \
                          stride_b ? static_cast<int>(batch) : 1, \
                          column_step_b(ldb),                     \
                          row_step_b(ldb),                        \
                          stride_b,                               \
                          TRANSPOSE_B};                           \
    const Findings findings(workspace, of_a, of_b, static_cast<int>(batch))

// One block for each MEASURED_ROWS × MEASURED_COLUMNS of A, and then of B.
extern "C" __global__ void __launch_bounds__(PASS_THREADS) emulated_measure(SIGNATURE) {
    __shared__ unsigned int of_columns[MEASURED_COLUMNS];
    OPERANDS;
    const int number = blockIdx.x, blocks_a = measured_blocks(of_a);
    const bool is_b = number >= blocks_a;
    const Index skipped_lines = is_b ? static_cast<Index>(of_a.items) * of_a.blocks() * LINES : 0;
    const Index skipped_steps = is_b ? static_cast<Index>(of_a.items) * findings.steps * DEPTH : 0;
    measure_operand(chosen(is_b, of_a, of_b), is_b ? number - blocks_a : number, findings.peaks + skipped_lines,
                    findings.depth_peaks + skipped_steps, findings.steps, of_columns);
}

// One block for each tile of A, and then of B; in the order in which they lie in memory, and the last first: what was
// measured last the L2 may still have.
extern "C" __global__ void __launch_bounds__(PASS_THREADS, 4) emulated_split(SIGNATURE) {
    OPERANDS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int blocks_a = of_a.items * of_a.blocks(), number = gridDim.x - 1 - blockIdx.x;
    const bool is_b = number >= blocks_a * findings.steps;
    const Operand operand = chosen(is_b, of_a, of_b);
    const int blocks = operand.blocks(), of_item = blocks * findings.steps;
    const int within = is_b ? number - blocks_a * findings.steps : number, item = within / of_item;
    const int place = within % of_item;
    const int block_of_item = operand.along_depth ? place / findings.steps : place % blocks;
    const int step = operand.along_depth ? place % findings.steps : place / blocks;
    const int block = (is_b ? blocks_a : 0) + item * blocks + block_of_item;
    const Index first = static_cast<Index>(block) * LINES;
    const int line = block_of_item * LINES, depth = step * DEPTH;
    const bool aligned = operand.is_aligned();
    const Part part = {operand.first + item * operand.stride,
                       line,
                       depth,
                       aligned && line + LINES <= operand.lines && depth + DEPTH <= operand.depth,
                       aligned,
                       findings.tile(block, step),
                       findings.squares + first};
    const unsigned int scales = scales_of(findings.peaks[first + warp * WARP_LINES + lane % WARP_LINES]);
    if (operand.along_depth)
        split_part<true>(part, operand, scales);
    else
        split_part<false>(part, operand, scales);
    if (!is_b && block_of_item == 0) compare_step(findings, of_a, of_b, batch, item, step);
    __threadfence();  // squares are there before the arrival is counted
    __syncwarp();
    unsigned int arrived = 0;
    if (lane == 0) arrived = atomicAdd(findings.arrivals + block, 1u);
    if (__shfl_sync(0xFFFFFFFF, arrived, 0) != WARPS * findings.steps - 1) return;
    __threadfence();
    spread_of_warps(findings, block, k);
}

// Tiles that are not made of digits. A few blocks share all of them, and each of a block's threads looks at one.
extern "C" __global__ void __launch_bounds__(PLAIN_THREADS, 2) emulated_plain(SIGNATURE) {
    __shared__ __align__(16) float shared[2 * PLAIN_DEPTH * PLAIN_ROW];
    __shared__ unsigned int found[PLAIN_THREADS / 32];
    OPERANDS;
    const Index of_item = static_cast<Index>(of_a.blocks()) * of_b.blocks(), tiles = of_item * batch;
    const auto work_of = [&](Index tile) {
        const int within = static_cast<int>(tile % of_item);
        return Work{within / of_b.blocks() * LINES, within % of_b.blocks() * LINES, static_cast<int>(tile / of_item)};
    };
    for (Index first = blockIdx.x; first < tiles; first += static_cast<Index>(PLAIN_THREADS) * gridDim.x) {
        const Index own = first + static_cast<Index>(threadIdx.x) * gridDim.x;
        const bool is_plain = own < tiles && Task(findings, of_a, of_b, work_of(own)).way == PLAIN;
        const unsigned int of_warp = __ballot_sync(0xFFFFFFFF, is_plain);
        if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = of_warp;
        if (!__syncthreads_or(is_plain)) continue;
        for (int thread = 0; thread < PLAIN_THREADS; ++thread) {
            if (!(found[thread / 32] >> thread % 32 & 1)) continue;
            const Work work = work_of(first + static_cast<Index>(thread) * gridDim.x);
            plain_tile(shared, of_a, of_b, c + work.item * stride_c, ldc, work.row, work.column, work.item);
        }
        __syncthreads();  // everybody has read what was found
    }
}
