// C = A·B of float32 on tensor cores that multiply bytes: fp32-accurate emulation. emulated_layout.cuh says what the
// digits are, emulated_ring.cuh how they are multiplied.
//
// A line is a row of A or a column of B. `measure` finds out how large the elements of each line are. `judge` derives
// from that how many digits are needed, and `split` writes the digits. For each tile the product multiplies as many of
// them as the tile's error needs, in at least MIN_PRODUCTS products. A few lines for which no number of digits is
// enough are multiplied in float32 afterwards (`lines`). If there are many such lines, nothing is done here after
// `judge`: the host has launched the float32 kernel behind all this, and that kernel reads the verdict.
#include "emulated_cut.cuh"
#include "emulated_passes.cuh"
#include "emulated_ring.cuh"
#include "emulated_schedule.cuh"
#include "hidden.cuh"

constexpr int BARRIERS_OFFSET = PLACES * PLACE_BYTES;
constexpr int TARGETS_OFFSET = BARRIERS_OFFSET + 2 * PLACES * 8;

// All digits that a part of a tile takes; `a` and `b` are those of its lines.
__device__ __forceinline__ void produce(const Ring& ring, StageState& place, const unsigned char* a,
                                        const unsigned char* b, Way way, int all_steps) {
    const int rank = cluster_rank();
    for (int first = 0; first < all_steps; first += CHUNK) {
        const int steps = min(CHUNK, all_steps - first);
        if (FEWEST == TEN || way == TEN)
            bring<4>(ring, place, a, b, steps, rank);
        else
            bring<3>(ring, place, a, b, steps, rank);
        if (way != SIX) bring<2>(ring, place, a, b, steps, rank);
        a += static_cast<Index>(steps) * (DIGITS * PLANE);
        b += static_cast<Index>(steps) * (DIGITS * PLANE);
    }
}

// What `store` needs, once for a tile.
__device__ __forceinline__ void set_target(Target& to, const Findings& findings, const Task& task, float* c, Index ldc,
                                           int rows, int columns, int consumer) {
    const int thread = threadIdx.x % WARPGROUP, skipped = consumer * (LINES / CONSUMERS);
    const unsigned int* const row_peaks = findings.peaks + static_cast<Index>(task.block_a) * LINES + skipped;
    const unsigned int* const column_peaks = findings.peaks + static_cast<Index>(task.block_b) * LINES;
    consumer_barrier(consumer);  // nobody needs the last tile's any more
    if (thread == 0) {
        to.corner = c + skipped * ldc;
        to.pitch = ldc;
        to.rows = rows - skipped;
        to.columns = columns;
        to.aligned = reinterpret_cast<unsigned long long>(c) % 8 == 0 && ldc % 2 == 0;
    }
    if (thread < LINES / CONSUMERS && thread < rows - skipped) to.rows_of[thread] = unit_of(row_peaks[thread]);
    to.columns_of[thread] = unit_of(column_peaks[thread]);
    consumer_barrier(consumer);
}

// Multiplies steps of a part.
__device__ __forceinline__ void consume(const Ring& ring, StageState& place, Way way, int steps, int consumer,
                                        int (&sets)[SETS][SUMS]) {
    if (FEWEST == SIX && way == SIX) {
        multiply<3, 0, 2>(ring, place, consumer, steps, sets);
        return;
    }
    if (FEWEST == TEN || way == TEN)
        multiply<4, 2, 3>(ring, place, consumer, steps, sets);
    else if (FEWEST == SEVEN && way == SEVEN)
        multiply<3, 2, 3, false>(ring, place, consumer, steps, sets);
    else
        multiply<3, 2, 3>(ring, place, consumer, steps, sets);
    put_together(sets);
    multiply<2, 0, 1>(ring, place, consumer, steps, sets);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) fp32_emulated(SIGNATURE) {
    launch_dependents();
    wait_on_dependency();
    if (reinterpret_cast<const Verdict*>(workspace)->in_float32) return;
    DYNAMIC_TILES(shared);
    const unsigned int base = shared_address(shared);
    const Ring ring = {base, base + BARRIERS_OFFSET};
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int place = 0; place < PLACES; ++place) {
            init_barrier(ring.full(place), 1);
            init_barrier(ring.empty(place), CONSUMERS * 4 * CLUSTER);
        }
        publish_barriers();
    }
    cluster_barrier();
    // Sizes are hidden, so that what follows from them is not kept from tile to tile.
    StageState place;
    TileWork work;
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * WARPGROUP)
            for (int wave = 0;; ++wave) {
                const unsigned char *digits_a, *digits_b;
                Way way;
                {
                    OPERANDS_OF(hidden);
                    const Findings findings(workspace, of_a, of_b);
                    const TileSchedule tiles(of_a.lines, of_b.lines, batch, cluster_rank());
                    if (!tiles.find(wave, findings.steps, work)) break;
                    const Task task(findings, of_a, of_b, work);
                    // Below C there is nothing, but a cluster waits for as many bytes in every block.
                    const int skipped = work.row < of_a.lines ? 0 : cluster_rank();
                    way = task.way;
                    digits_a = findings.tile(task.block_a - skipped, work.first);
                    digits_b = findings.tile(task.block_b, work.first);
                }
                produce(ring, place, digits_a, digits_b, way, work.end - work.first);
            }
    } else {
        take_registers<CONSUMER_REGISTERS>();
        Target& target = reinterpret_cast<Target*>(shared + TARGETS_OFFSET)[warpgroup];
        for (int wave = 0;; ++wave) {
            Way way;
            {
                OPERANDS_OF(hidden);
                const Findings findings(workspace, of_a, of_b);
                const TileSchedule tiles(of_a.lines, of_b.lines, batch, cluster_rank());
                if (!tiles.find(wave, findings.steps, work)) break;
                const Task task(findings, of_a, of_b, work);
                way = task.way;
                set_target(target, findings, task, c + work.item * stride_c + work.row * ldc + work.column, ldc,
                           of_a.lines - work.row, of_b.lines - work.column, warpgroup);
            }
            const int steps = work.end - work.first;
            for (int first = 0; first < steps; first += CHUNK) {
                int sets[SETS][SUMS] = {};
                consume(ring, place, way, min(CHUNK, steps - first), warpgroup, sets);
#ifdef CUT
                if (steps < blocks_of(hidden(static_cast<int>(k)), DEPTH)) {
                    longlong2* const sums = own_sums(shared);
                    keep_sums(sets, sums);
                    OPERANDS_OF(hidden);
                    const TileSchedule tiles(of_a.lines, of_b.lines, batch, cluster_rank());
                    if (add_parts(Findings(workspace, of_a, of_b), tiles, sums))
                        store<1>(target, [&](int pair) { return sums[pair * 32]; }, false);
                    break;
                }
#endif
                store<LINES / 8>(target, [&](int pair) { return sums_of(sets, pair); }, first > 0);
            }
        }
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
