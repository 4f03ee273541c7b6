// A product on Hopper's tensor cores, warp-specialised and persistent. Of a block's three warpgroups one is the
// producer: one of its threads copies boxes of both operands into a ring of stages (TMA). The other two are consumers:
// each multiplies 64 rows of the block's tile, straight out of shared memory. Blocks stay resident and go from tile to
// tile, so the ring never runs dry between two tiles. The blocks of a cluster need the same columns of B: each copies a
// part of them for all (multicast).
//
// 16-bit operands may be K-major or MN-major. Others are transposed to K-major before, or one of them comes from
// registers (hopper_across.cuh). The file that includes this one defines `write_box`, which writes a warp's sums into a
// box of C. hopper_epilogue.cuh has the epilogue.
//
// Parameters: BLOCK_M, BLOCK_N, STAGES, CLUSTER, and those of hopper_stages.cuh. Techniques: CUTLASS's warp-specialised
// persistent kernels for sm_90, and P. Shah's "Outperforming cuBLAS on H100" (2024).
#pragma once

#include "dependent_launch.cuh"
#include "hopper_across.cuh"
#include "hopper_hand_over.cuh"
#include "hopper_produce.cuh"
#include "hopper_warp_epilogue.cuh"

// ---- a consumer: a warpgroup ----
// Stores a warp's 16 rows, box by box; no other warp takes part. `warp_epilogue`: none, or a WarpEpilogue.
template <int N, typename... WarpEpilogues>
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes, const Work& work,
                                           int consumer, int& boxes_stored, const HOPPER_SUM (&sums)[N / 2],
                                           const WarpEpilogues&... warp_epilogue) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = work.row + consumer * BOX + warp * 16, end = end_of_rows(work, sizes);
    if (row >= end) return;
    const unsigned int out = at.base + OUT_OFFSET + (consumer * 4 + warp) * OUT_BOXES * OUT_BYTES;
#pragma unroll
    for (int box = 0; box < (N + OUT_COLUMNS - 1) / OUT_COLUMNS; ++box) {
        if (box * OUT_COLUMNS >= work.columns) break;
        const int first = min(box * OUT_COLUMNS, N - OUT_COLUMNS);  // the last may lie on the one before
        const int column = work.column + first;
        unsigned int shared = out + boxes_stored++ % OUT_BOXES * OUT_BYTES;
        wait_stores_read<OUT_BOXES - 1>();
        __syncwarp();
        if constexpr (sizeof...(warp_epilogue) > 0) {
            HOPPER_SUM after[OUT_COLUMNS / 2];
            (warp_epilogue.apply(after, &sums[first / 2], box, shared), ...);
            write_box(shared, after, lane);
#ifdef HAS_ACTIVATION
            ((shared = warp_epilogue.activate(box, shared, boxes_stored)), ...);
#endif
        } else {
            write_box(shared, &sums[first / 2], lane);
        }
        fence_for_copies();
        __syncwarp();
#ifdef GROUPED
        if (row + 16 > end) {  // the rows below are another group's
            if (row + lane < end) store_box(shared + lane * SWIZZLE_BYTES, sizes.c_row, column, row + lane, 0);
        } else
#endif
            if (lane == 0)
            store_box(shared, map, column, row, work.item);
        commit_stores();
        (warp_epilogue.load_next(box, shared), ...);
    }
}

template <int N, typename... WarpEpilogues>
__device__ __forceinline__ void multiply(const Shared& at, const Sizes& sizes, const TileWork& work, int consumer,
                                         StageState& place, HOPPER_SUM (&sums)[N / 2],
                                         WarpEpilogues&... warp_epilogue) {
    if constexpr (FROM_REGISTERS) {
        multiply_across<N>(at, consumer, steps_of(work, sizes), place, sums);
    } else if constexpr (PROMOTED) {
        (warp_epilogue.begin(), ...);
#ifdef SCALE_COLUMNS
        TileScales scales(at, place, consumer);
        multiply_and_promote<N>(at, consumer, steps_of(work, sizes), place, sums, scales);
#else
        multiply_and_promote<N>(at, consumer, steps_of(work, sizes), place, sums);
#endif
    } else {
        multiply_stages<N>(at, consumer, steps_of(work, sizes), place, sums, warp_epilogue...);
    }
}

#ifdef CUT
// Whether this warp stores the tile: it has the sums of all of k, either because the tile is not cut or because it is
// the last warp to finish its part, and has added up the others.
template <int N>
__device__ __forceinline__ bool has_whole_sums(const Shared& at, const TileSchedule& schedule, const Sizes& sizes,
                                               const TileWork& work, int consumer, HOPPER_SUM (&sums)[N / 2]) {
    if (schedule.parts == 1) return true;
    return work.row + consumer * BOX + threadIdx.x / 32 % 4 * 16 < sizes.m &&
           reduce_parts<N>(at, sizes.handed_over, schedule.rank, schedule.parts, work.tile, work.part, sums);
}
#endif

template <int N>
__device__ __forceinline__ void consume_tile(const Shared& at, const TileSchedule& schedule, const TensorMap& map,
                                             const Sizes& sizes, const TileWork& work, int consumer, StageState& place,
                                             int& boxes_stored, const Epilogue& epilogue) {
    HOPPER_SUM sums[N / 2] = {};
    if constexpr (FROM_REGISTERS) {
        multiply<N>(at, sizes, work, consumer, place, sums);
        store_transposed<N>(at, map, sizes, work, consumer, boxes_stored, sums, epilogue);
    } else {
#if defined(EPILOGUE) && defined(CUT)
        multiply<N>(at, sizes, work, consumer, place, sums);
        if (!has_whole_sums<N>(at, schedule, sizes, work, consumer, sums)) return;
        WarpEpilogue<N> warp_epilogue(epilogue, at, work, consumer, boxes_stored);
        warp_epilogue.begin_in_one_warp();
        store_sums<N>(at, map, sizes, work, consumer, boxes_stored, sums, warp_epilogue);
        warp_epilogue.end();
#elif defined(EPILOGUE)
        WarpEpilogue<N> warp_epilogue(epilogue, at, work, consumer, boxes_stored);
        if (steps_of(work, sizes) == 0) warp_epilogue.begin();
        multiply<N>(at, sizes, work, consumer, place, sums, warp_epilogue);
        warp_epilogue.share_bias();
        store_sums<N>(at, map, sizes, work, consumer, boxes_stored, sums, warp_epilogue);
        warp_epilogue.end();
#else
        multiply<N>(at, sizes, work, consumer, place, sums);
#ifdef CUT
        if (!has_whole_sums<N>(at, schedule, sizes, work, consumer, sums)) return;
#endif
        store_sums<N>(at, map, sizes, work, consumer, boxes_stored, sums);
#endif
    }
}

// For a consumer whose rows lie below C: it multiplies nothing, but releases the tile's stages as they arrive. No
// instruction of the tensor cores keeps its threads together, and one that came a whole ring late would take the phase
// after for the one before.
__device__ __forceinline__ void skip_tile(const Shared& at, int consumer, int steps, StageState& place) {
    for (int step = 0; step < steps; ++step, place.advance()) {
        wait_barrier(at.full(place.stage), place.parity);
        if constexpr (RELEASES == 1)
            sync_warpgroup(1 + consumer);
        else
            __syncwarp();
        release(at, place.stage);
    }
}

__device__ __forceinline__ void consume(const Shared& at, const TileSchedule& schedule, const TensorMap& map,
                                        const Sizes& sizes, int consumer, const Epilogue& epilogue) {
    StageState place;
    TileWork work;
    int boxes_stored = 0;
    for (int wave = 0; schedule.find(wave, work); ++wave) {
        const int columns = work.columns;
        if (work.row + consumer * BOX >= end_of_rows(work, sizes))
            skip_tile(at, consumer, steps_of(work, sizes), place);
        else if (BLOCK_N > 64 && columns <= 64)
            consume_tile<64>(at, schedule, map, sizes, work, consumer, place, boxes_stored, epilogue);
        else if (BLOCK_N > 128 && columns <= 128)
            consume_tile<128>(at, schedule, map, sizes, work, consumer, place, boxes_stored, epilogue);
        else if (LESS > 0 && columns <= BLOCK_N - LESS)
            consume_tile<BLOCK_N - LESS>(at, schedule, map, sizes, work, consumer, place, boxes_stored, epilogue);
        else
            consume_tile<BLOCK_N>(at, schedule, map, sizes, work, consumer, place, boxes_stored, epilogue);
    }
    wait_stores_read<0>();
}

__device__ __forceinline__ void multiply_tiles(unsigned char* shared, const TensorMap& a, const TensorMap& b,
                                               const TensorMap& c, const Sizes& sizes, const Epilogue& epilogue) {
    const Shared at = {shared_address(shared)};
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), CONSUMERS * RELEASES * CLUSTER);
        }
        publish_barriers();
    }
    cluster_barrier();
#ifdef GROUPED
    const TileSchedule schedule(sizes.groups, sizes.n, sizes.batch, cluster_rank());
#elif defined(CUT)
    const TileSchedule schedule(sizes.m, sizes.n, sizes.batch, sizes.steps(), cluster_rank());
#else
    const TileSchedule schedule(sizes.m, sizes.n, sizes.batch, cluster_rank());
#endif
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * WARPGROUP) produce(at, schedule, a, b, sizes);
    } else {
        take_registers<CONSUMER_REGISTERS>();
        consume(at, schedule, c, sizes, warpgroup, epilogue);
        launch_dependents();  // not earlier: a kernel for the edge would slow the last wave by more than it gains
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
