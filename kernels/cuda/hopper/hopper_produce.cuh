// Which tiles a block computes, and its producer: one thread, which asks for boxes of both operands, stage by stage.
#pragma once

#include "dependent_launch.cuh"
#include "hopper_across.cuh"
#include "hopper_cut.cuh"
#include "hopper_pace.cuh"
#include "hopper_schedule.cuh"
#include "hopper_stages.cuh"

constexpr int GROUP_M = 8;  // rows of clusters whose tiles are computed at about the same time

#ifdef TRIANGLE
#include "hopper_triangle.cuh"
typedef TriangleSchedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> TileSchedule;
#elif defined(GROUPED)
#include "hopper_grouped.cuh"
typedef GroupedSchedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> TileSchedule;
#elif defined(CUT)
typedef CutSchedule<BLOCK_M, BLOCK_N, CLUSTER> TileSchedule;
#else
typedef Schedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M, LESS> TileSchedule;
#endif

// `steps_of`: stages of a tile that a block multiplies.
#ifdef CUT
typedef CutWork TileWork;
__device__ __forceinline__ int steps_of(const TileWork& work, const Sizes&) { return work.end - work.first; }
#else
typedef Work TileWork;
__device__ __forceinline__ int steps_of(const TileWork&, const Sizes& sizes) { return sizes.steps(); }
#endif

#ifdef GROUPED
__device__ __forceinline__ int end_of_rows(const Work& work, const Sizes&) { return work.end; }
__device__ __forceinline__ int item_of_b(const Work& work, const Sizes&) { return work.group; }
#else
__device__ __forceinline__ int end_of_rows(const Work&, const Sizes& sizes) { return sizes.m; }
__device__ __forceinline__ int item_of_b(const Work& work, const Sizes& sizes) {
    return sizes.items_b > 1 ? work.item : 0;
}
#endif

__device__ __forceinline__ void load_b(const Shared& at, const TensorMap& map, const Work& work, int item, int depth,
                                       int stage, int boxes, int rank) {
#ifdef GROUPED
    const bool shared = CLUSTER > 1 && !work.apart;
#else
    constexpr bool shared = CLUSTER > 1;
#endif
    for (int box = shared ? rank : 0; box < boxes; box += shared ? CLUSTER : 1) {
        const int column = work.column + box * BOX, x = B_ALONG_K ? depth : column, y = B_ALONG_K ? column : depth;
        if (shared)
            load_box_for((1 << CLUSTER) - 1, at.b(stage, box), map, at.full(stage), x, y, item);
        else
            load_box(at.b(stage, box), map, at.full(stage), x, y, item);
    }
}

__device__ __forceinline__ void produce(const Shared& at, const TileSchedule& schedule, const TensorMap& map_a,
                                        const TensorMap& map_b, const Sizes& sizes) {
    StageState place;
    TileWork work;
    wait_on_dependency();
#ifdef PACED
    Pace pace(sizes.counted, schedule.clusters, schedule.whole, schedule.rank);
#endif
    for (int wave = 0; schedule.find(wave, work); ++wave) {
        const int boxes_a = min(A_BOXES, max(0, (end_of_rows(work, sizes) - work.row + A_BOX - 1) / A_BOX));
        const int boxes_b = (work.columns + BOX - 1) / BOX;
        const int item_a = sizes.items_a > 1 ? work.item : 0, item_b = item_of_b(work, sizes);
#ifdef CUT
        const int end = min(work.end * STEP, sizes.k);
        for (int depth = work.first * STEP; depth < end; depth += STEP, place.advance()) {
#else
        for (int depth = 0; depth < sizes.k; depth += STEP, place.advance()) {
#endif
#ifdef PACED
            pace.keep(wave, depth / STEP);
#endif
            wait_barrier(at.empty(place.stage), place.parity ^ 1);
            arrive_expecting(at.full(place.stage), boxes_a * A_BOX_BYTES + boxes_b * BOX_BYTES + SCALES_BYTES);
#ifdef SCALE_COLUMNS
            load_scales(at, sizes.scales, work.item, work.row, work.column, depth / STEP, place.stage);
#endif
            for (int box = 0; box < boxes_a; ++box) {
                const int row = work.row + box * A_BOX, x = A_ALONG_K ? depth : row, y = A_ALONG_K ? row : depth;
                const unsigned int to = at.a(place.stage, 0) + box * A_BOX_BYTES;
                load_box(to, map_a, at.full(place.stage), x, y, item_a);
            }
            load_b(at, map_b, work, item_b, depth, place.stage, boxes_b, schedule.rank);
        }
    }
}
