// C = A·B of float64 on tensor cores that multiply bytes: fp64-accurate emulation by residue numbers.
// residue_layout.cuh says which integers lines become, residue_moduli.cuh how remainders determine their product,
// residue_judge.cuh why that is as exact as a product in float64.
//
// A line is a row of A or a column of B. `measure` finds out how large the elements of each line are. `judge` derives
// the lines' scales and the number of moduli, and `split` writes remainders. Then blocks multiply tiles, each modulo
// one modulus, and `join` computes C from all remainders. So there are fourteen times as many pieces of work as tiles,
// and even few tiles keep a device busy. If no number of moduli is enough, nothing is done after `judge`: the host has
// launched the float64 kernel behind all this, and that kernel reads the verdict.
//
// Parameters: BLOCK_N, CLUSTER. COMPLEX: of complex128 (residue_layout.cuh), with CONJUGATE_A and CONJUGATE_B as 0 or
// 1.
#include "hidden.cuh"
#include "hopper_schedule.cuh"
#include "residue_passes.cuh"
#include "residue_sums.cuh"

constexpr int GROUP_M = 12 / CLUSTER;  // rows of tiles, in clusters, that are computed together
typedef Schedule<LINES, BLOCK_N, CLUSTER, GROUP_M, 0> TileSchedule;

// A tile of C and a modulus. One modulus comes after the other: so the L2 keeps remainders of one.
struct Task {
    int modulus, item, row, column;
    bool found;

    __device__ __forceinline__ Task(const Findings& findings, const Operand& a, const Operand& b, int batch, int wave) {
        // Tiles of which little lies inside C take as long as others, and no part of them is told apart.
        const int tall = blocks_of(findings.tall, CLUSTER) * CLUSTER;
        Work work;
        found = TileSchedule(tall * LINES, findings.across * BLOCK_N, batch * findings.moduli(), cluster_rank())
                    .find(wave, work);
        if (!found) return;
        modulus = work.item / batch;
        item = work.item - modulus * batch;
        row = work.row;
        column = work.column;
    }
};

__device__ __forceinline__ void produce(const Ring& ring, StageState& place, const Findings& findings, const Operand& a,
                                        const Operand& b, const Task& task, const unsigned char* workspace,
                                        Note& note) {
    const int rank = cluster_rank();
    // Below C there is nothing, but a cluster waits for as many bytes in every block.
    const int skipped = task.row < a.lines ? 0 : rank;
    const TileOfC tile(findings, a, b, task.item, task.row, task.column);
    const int count = min(B_TILES, b.blocks() - task.column / LINES);
    note = {task.row < a.lines ? findings.result(task.modulus, tile.number) - workspace : Note::NOWHERE, task.modulus};
    for (int plane = 0; plane < PLANES; ++plane)
        bring(ring, place, findings.tile(task.modulus, plane, tile.block_a - skipped, 0),
              findings.tile(task.modulus, plane, tile.block_b, 0), static_cast<Index>(findings.steps) * TILE_BYTES,
              count, findings.steps, rank);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) fp64_emulated(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    if (reinterpret_cast<const Verdict*>(workspace)->in_float64) return;
    DYNAMIC_TILES(shared);
    const Ring ring = {shared_address(shared)};
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(ring.full(stage), 1);
            init_barrier(ring.empty(stage), CONSUMERS * 4 * CLUSTER);
        }
        publish_barriers();
    }
    cluster_barrier();
    Note* const notes = reinterpret_cast<Note*>(shared + NOTES_OFFSET);
    StageState place;
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * WARPGROUP) {
            int wave = 0;
            for (;; ++wave) {
                OPERANDS_OF(hidden);
                FINDINGS;
                const Task task(findings, of_a, of_b, static_cast<int>(batch), wave);
                if (!task.found) break;
                produce(ring, place, findings, of_a, of_b, task, workspace, notes[wave % NOTES]);
            }
            end(ring, place, notes[wave % NOTES]);
        }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        unsigned int* const own = reinterpret_cast<unsigned int*>(shared + KEPT_OFFSET) + threadIdx.x;
        const int depth = static_cast<int>(k), rest = blocks_of(depth % DEPTH, INSTRUCTION_DEPTH) % PARTS;
        const int steps = blocks_of(depth, DEPTH) - (rest > 0);
        for (int wave = 0;; ++wave) {
            wait_barrier(ring.full(place.stage), place.parity);  // the note was written before
            const Note note = notes[wave % NOTES];
            if (note.modulus == Note::NONE) break;
            unsigned int* const words = reinterpret_cast<unsigned int*>(workspace + note.results) + threadIdx.x;
            int sums[SUMS];
#pragma unroll 1
            for (int plane = 0; plane < PLANES; ++plane)
                for (int first = 0; first < steps || first == 0; first += CHUNK) {
                    if (first > 0 || !goes_on(plane, steps)) clear(sums);
                    const bool is_last = first + CHUNK >= steps;
                    multiply(ring, place, warpgroup, min(CHUNK, steps - first), is_last ? rest : 0, sums);
                    if (note.results != Note::NOWHERE)
                        keep_of_plane(words, own, sums, MODULI.of[note.modulus], plane, first == 0, steps);
                }
        }
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
