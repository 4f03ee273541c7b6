// Where C has few tiles and k is deep, each tile is cut along k into as many parts of equal length as there are
// clusters for it ("split-K"): one cluster has one part, and the sums come together as hopper_hand_over.cuh says.
//
// Compiled in with CUT alone, for operands of 16 bits (kernels/entries/hopper/cut.py).
#pragma once

#ifdef CUT

#include "hopper_schedule.cuh"

constexpr int SHORTEST_CUT = 4;  // stages of a part: fewer cost more than they save

struct CutWork : Work {
    int tile, part, first, end;  // its stages: the first, and the one after the last
};

template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS>
struct CutSchedule {
    int n, stages, rank, id, clusters, down, across, tiles, parts;

    // The launch sees to it that there are few tiles, and fewer than 2^20 stages. Where there are more tiles than
    // clusters, none is cut.
    __device__ __forceinline__ CutSchedule(int m, int n, int batch, int stages, int rank)
        : n(n), stages(stages), rank(rank) {
        id = static_cast<int>(blockIdx.x) / CLUSTER_BLOCKS;
        clusters = static_cast<int>(gridDim.x) / CLUSTER_BLOCKS;
        down = (m - 1) / (TILE_ROWS * CLUSTER_BLOCKS) + 1;
        across = (n - 1) / TILE_COLUMNS + 1;
        tiles = batch * down * across;
        const int root = static_cast<int>(sqrtf(static_cast<float>(stages)));  // each part costs an addition
        parts = max(min(clusters / tiles, min(stages / SHORTEST_CUT, root)), 1);
    }

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, CutWork& work) const {
        const int index = id + wave * clusters;
        if (index >= tiles * parts) return false;
        work.tile = index / parts;
        work.part = index - work.tile * parts;
        work.first = work.part * stages / parts;
        work.end = (work.part + 1) * stages / parts;
        const int line = work.tile / down, item = line / across, first = (line - item * across) * TILE_COLUMNS;
        const int row = (work.tile - line * down) * CLUSTER_BLOCKS + rank;
        static_cast<Work&>(work) = {row * TILE_ROWS, first, item, min(TILE_COLUMNS, n - first)};
        return true;
    }
};

#define CUT_PARAMETERS , float4 *handed_parts, unsigned int *handed_counters
#define CUT_WORDS \
    , { handed_parts, handed_counters }

#else

#define CUT_PARAMETERS
#define CUT_WORDS

#endif
