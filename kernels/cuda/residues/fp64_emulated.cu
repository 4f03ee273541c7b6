// C = A·B of float64 on tensor cores that multiply bytes: fp64-accurate emulation. residue_layout.cuh says what lines
// are turned into, residue_judge.cuh why the product is as exact as one in float64, residue_moduli.cuh how it is told
// by remainders.
//
// `measure` finds out how large the elements of each line are, `judge` what follows from it, `split` writes remainders.
// Here a block multiplies a tile modulo one modulus after the other. Where no number of moduli is enough, nothing is
// done after `judge`: the host launches the float64 kernel behind all this, which looks at the verdict.
//
// Parameters: BLOCK_N, CLUSTER.
#include "hidden.cuh"
#include "hopper_schedule.cuh"
#include "residue_passes.cuh"
#include "residue_sums.cuh"

constexpr int GROUP_M = 12 / CLUSTER;  // rows of tiles, in clusters, that are computed together
typedef Schedule<LINES, BLOCK_N, CLUSTER, GROUP_M, 0> TileSchedule;

// A tile of C: of which blocks of lines.
struct Task {
    int block_a, block_b, count_b;  // of B's blocks, how many there are

    __device__ __forceinline__ Task(const Operand& a, const Operand& b, const Work& work) {
        const int column = work.column / LINES;
        block_a = (a.items > 1 ? work.item : 0) * a.blocks() + work.row / LINES;
        block_b = a.items * a.blocks() + (b.items > 1 ? work.item : 0) * b.blocks() + column;
        count_b = min(B_TILES, b.blocks() - column);
    }
};

__device__ __forceinline__ void produce(const Ring& ring, StageState& place, const Findings& findings, const Task& task,
                                        int skipped, int rank) {
    const Index apart = static_cast<Index>(findings.steps) * TILE_BYTES;
    const int moduli = findings.moduli();
    for (int modulus = 0; modulus < moduli; ++modulus)
        bring(ring, place, findings.tile(modulus, task.block_a - skipped, 0), findings.tile(modulus, task.block_b, 0),
              apart, task.count_b, findings.steps, rank);
}

// Where this thread keeps remainders.
__device__ __forceinline__ unsigned int* kept_by(const Findings& findings) {
    return reinterpret_cast<unsigned int*>(findings.sums + static_cast<Index>(blockIdx.x) * BLOCK_SUM_BYTES) +
           threadIdx.x;
}

// Remainders of a tile of C, of all moduli, into the thread's words.
__device__ __forceinline__ void consume(const Ring& ring, StageState& place, int steps, int moduli, int consumer,
                                        unsigned int* kept) {
    for (int modulus = 0; modulus < moduli; ++modulus)
        for (int first = 0; first < steps; first += CHUNK) {
            int sums[SUMS] = {};
            multiply(ring, place, consumer, min(CHUNK, steps - first), sums);
            keep(kept + modulus * MODULUS_WORDS, sums, MODULI.of[modulus], first > 0);
        }
}

__device__ __forceinline__ void write_tile(const Target& to, const unsigned int* kept, const Unit* units, int moduli) {
    if (moduli == 14)
        write_elements<14>(to, kept, units);
    else if (moduli == 15)
        write_elements<15>(to, kept, units);
    else
        write_elements<16>(to, kept, units);
}

__device__ __forceinline__ Target target_of(const Findings& findings, const Task& task, double* c, Index ldc, int rows,
                                            int columns) {
    const int row = threadIdx.x / WARPGROUP * (LINES / CONSUMERS) + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    const int* const scales = findings.scales_in_use();
    return {c + row * ldc,
            ldc,
            rows - row,
            columns,
            scales + static_cast<Index>(task.block_a) * LINES + row,
            scales + static_cast<Index>(task.block_b) * LINES,
            reinterpret_cast<unsigned long long>(c) % 16 == 0 && ldc % 2 == 0};
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) fp64_emulated(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    if (reinterpret_cast<const Verdict*>(workspace)->in_float64) return;
    DYNAMIC_TILES(shared);
    const Ring ring = {shared_address(shared)};
    Unit* const units = reinterpret_cast<Unit*>(shared + UNITS_OFFSET);
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(ring.full(stage), 1);
            init_barrier(ring.empty(stage), CONSUMERS * 4 * CLUSTER);
        }
        publish_barriers();
    }
    if (threadIdx.x < 16) write_unit(units, threadIdx.x);
    cluster_barrier();
    StageState place;
    Work work;
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * WARPGROUP)
            for (int wave = 0;; ++wave) {
                OPERANDS_OF(hidden);
                if (!TileSchedule(of_a.lines, of_b.lines, static_cast<int>(batch), cluster_rank()).find(wave, work))
                    break;
                // Below C there is nothing, but a cluster waits for as many bytes in every block.
                const int skipped = work.row < of_a.lines ? 0 : cluster_rank();
                produce(ring, place, findings, Task(of_a, of_b, work), skipped, cluster_rank());
            }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        for (int wave = 0;; ++wave) {
            {
                OPERANDS_OF(hidden);
                if (!TileSchedule(of_a.lines, of_b.lines, static_cast<int>(batch), cluster_rank()).find(wave, work))
                    break;
                consume(ring, place, findings.steps, findings.moduli(), warpgroup, kept_by(findings));
            }
            OPERANDS_OF(hidden);
            double* const corner = c + work.item * stride_c + work.row * ldc + work.column;
            write_tile(target_of(findings, Task(of_a, of_b, work), corner, ldc, of_a.lines - work.row,
                                 of_b.lines - work.column),
                       kept_by(findings), units, findings.moduli());
        }
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
