// A product on Hopper's tensor cores. Of a block's three warpgroups one brings boxes of both operands into a ring of
// stages, by bulk tensor copies; two multiply 64 rows of the block's tile each, straight out of shared memory. Blocks
// stay resident and go from tile to tile, so the ring never runs dry between two.
//
// The blocks of a cluster need the same columns of B: each copies a part of them, for all.
//
// Operands of 16 bits may lie along or across k; others are brought along k before, or one comes from registers
// (hopper_across.cuh). The file that includes this says how a warp's sums are written into a box of C: `write_box`.
//
// Parameters: BLOCK_M, BLOCK_N, STAGES, CLUSTER, and those of hopper_stages.cuh and hopper_hints.cuh; LATE, where sums
// have half the bits in C: 1, hopper_late.cuh stores them. Techniques: CUTLASS's warp-specialised
// persistent kernels for sm_90, and P. Shah's "Outperforming cuBLAS on H100" (2024).
#pragma once

#include "hopper_across.cuh"
#include "hopper_hints.cuh"
#include "hopper_schedule.cuh"
#include "hopper_stages.cuh"

constexpr int GROUP_M = 8;  // rows of clusters whose tiles are computed at about the same time

typedef Schedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> TileSchedule;

constexpr bool LOOKS_AHEAD = !FROM_REGISTERS && !PROMOTED;  // where there are registers for a second tile's corner

// A block's tiles, one after the other. The next one is found while this one is multiplied, if at all possible.
struct Turns {
    const TileSchedule& schedule;
    Work work, next;
    bool has_next = false;
    int turn = 0;

    __device__ __forceinline__ explicit Turns(const TileSchedule& schedule) : schedule(schedule) { look_ahead(); }
    __device__ __forceinline__ void look_ahead() {
        if (LOOKS_AHEAD) has_next = schedule.find(turn++, next);
    }
    __device__ __forceinline__ bool advance() {
        if (!LOOKS_AHEAD) return schedule.find(turn++, work);
        work = next;
        return has_next;
    }
    __device__ __forceinline__ bool is_last() const { return LOOKS_AHEAD && !has_next; }  // as far as is known
};

// ---- the producer: one thread ----
__device__ __forceinline__ void load_b(const Shared& at, const TensorMap& map, const Work& work, int item, int depth,
                                       int stage, int boxes, int rank) {
    for (int box = rank; box < boxes; box += CLUSTER) {
        const int column = work.column + box * BOX, x = B_ALONG_K ? depth : column, y = B_ALONG_K ? column : depth;
        if (CLUSTER > 1)
            load_b_box_for((1 << CLUSTER) - 1, at.b(stage, box), map, at.full(stage), x, y, item);
        else
            load_b_box(at.b(stage, box), map, at.full(stage), x, y, item);
    }
}

__device__ __forceinline__ void produce(const Shared& at, const TensorMap& map_a, const TensorMap& map_b,
                                        const Sizes& sizes, Turns& turns) {
    Place place;
    while (turns.advance()) {
        const Work& work = turns.work;
        const int boxes_a = min(A_BOXES, max(0, (sizes.m - work.row + A_BOX - 1) / A_BOX));
        const int boxes_b = min(BOXES, (sizes.n - work.column + BOX - 1) / BOX);
        const int item_a = sizes.items_a > 1 ? work.item : 0, item_b = sizes.items_b > 1 ? work.item : 0;
        for (int depth = 0; depth < sizes.k; depth += STEP, place.advance()) {
            wait_barrier(at.empty(place.stage), place.parity ^ 1);
            arrive_expecting(at.full(place.stage), boxes_a * A_BOX_BYTES + boxes_b * BOX_BYTES);
            for (int box = 0; box < boxes_a; ++box) {
                const int row = work.row + box * A_BOX, x = A_ALONG_K ? depth : row, y = A_ALONG_K ? row : depth;
                const unsigned int to = at.a(place.stage, 0) + box * A_BOX_BYTES;
                load_box(to, map_a, at.full(place.stage), x, y, item_a);
            }
            load_b(at, map_b, work, item_b, depth, place.stage, boxes_b, turns.schedule.rank);
        }
        turns.look_ahead();
    }
}

// ---- a consumer: a warpgroup ----
#include "hopper_store.cuh"

// `meanwhile`: of multiply_stages.
template <int N, typename Meanwhile>
__device__ __forceinline__ void consume_tile(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                             const Turns& turns, int consumer, Place& place, int& boxes_stored,
                                             Meanwhile meanwhile) {
    HOPPER_SUM sums[N / 2];
    if constexpr (!LOOKS_AHEAD) clear(sums);
    if constexpr (FROM_REGISTERS)
        multiply_across<N>(at, consumer, sizes.steps(), place, sums);
    else if constexpr (PROMOTED)
        multiply_and_promote<N>(at, consumer, sizes.steps(), place, sums);
    else
        multiply_stages<N>(at, consumer, sizes.steps(), place, sums, meanwhile);
    if constexpr (FROM_REGISTERS)
        store_turned<N>(at, map, sizes, turns.work, consumer, boxes_stored, sums);
    else
        store_sums<N>(at, map, sizes, turns.work, consumer, turns.is_last(), boxes_stored, sums);
}

// Rows that lie below C are not multiplied, but their stages are released as they come.
__device__ __forceinline__ void pass_tile(const Shared& at, int steps, Place& place) {
    for (int step = 0; step < steps; ++step, place.advance()) {
        wait_barrier(at.full(place.stage), place.parity);
        release(at, place.stage);
    }
}

// A tile that is cut short where little of it lies inside C.
__device__ __forceinline__ void consume_part(const Shared& at, const TensorMap& map, const Sizes& sizes, Turns& turns,
                                             int consumer, Place& place, int& boxes_stored) {
    const int columns = sizes.n - turns.work.column;
    const auto nothing = [](int) {};
    turns.look_ahead();
    if (turns.work.row + consumer * BOX >= sizes.m)
        pass_tile(at, sizes.steps(), place);
    else if (BLOCK_N > 64 && columns <= 64)
        consume_tile<64>(at, map, sizes, turns, consumer, place, boxes_stored, nothing);
    else if (BLOCK_N > 128)
        consume_tile<128>(at, map, sizes, turns, consumer, place, boxes_stored, nothing);
}

#if defined(LATE) && LATE
#include "hopper_late.cuh"
#else
__device__ __forceinline__ void consume(const Shared& at, const TensorMap& map, const Sizes& sizes, Turns& turns,
                                        int consumer) {
    Place place;
    int boxes_stored = 0;
    while (turns.advance()) {
        if (is_whole(sizes, turns.work, consumer))
            consume_tile<BLOCK_N>(at, map, sizes, turns, consumer, place, boxes_stored, [&](int step) {
                if (step == 0) turns.look_ahead();
            });
        else
            consume_part(at, map, sizes, turns, consumer, place, boxes_stored);
    }
}
#endif

__device__ __forceinline__ void multiply_tiles(unsigned char* shared, const TensorMap& a, const TensorMap& b,
                                               const TensorMap& c, const Sizes& sizes) {
    const Shared at = {shared_address(shared)};
    const int warpgroup = threadIdx.x / WARPGROUP;
    const bool feeds = threadIdx.x == CONSUMERS * WARPGROUP;
    if (feeds) {
        prefetch_map(a);
        prefetch_map(b);
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), CONSUMERS * RELEASES * CLUSTER);
        }
        publish_barriers();
        prefetch_map(c);
    }
    cluster_arrive();
    const TileSchedule schedule(sizes.m, sizes.n, sizes.batch, cluster_rank());
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        Turns turns(schedule);
        cluster_wait();
        if (feeds) produce(at, a, b, sizes, turns);
    } else {
        take_registers<CONSUMER_REGISTERS>();
        Turns turns(schedule);
        cluster_wait();
        consume(at, c, sizes, turns, warpgroup);
        wait_stores_read<0>();
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
