// As hopper_schedule.cuh, of a symmetric C: which of the tiles on and below its diagonal a resident block computes in
// which wave. The others are mirrored afterwards (worker/cuda/src/mirror.cu).
#pragma once

#include "hopper_schedule.cuh"
#include "triangle.cuh"

template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int GROUP>
struct TriangleSchedule {
    Triangle<TILE_ROWS * CLUSTER_BLOCKS, TILE_COLUMNS, GROUP> tiles;
    int n, rank, id, clusters, whole;  // whole: tiles, of which none is thin

    // C is n × n, and one.
    __device__ __forceinline__ TriangleSchedule(int, int n, int, int rank)
        : tiles(n),
          n(n),
          rank(rank),
          id(static_cast<int>(blockIdx.x) / CLUSTER_BLOCKS),
          clusters(static_cast<int>(gridDim.x) / CLUSTER_BLOCKS),
          whole(tiles.count) {}

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, Work& work) const {
        const int index = id + wave * clusters;
        if (index >= tiles.count) return false;
        const TriangleTile tile = tiles.at(index);
        const int first = tile.column * TILE_COLUMNS;
        work = {(tile.row * CLUSTER_BLOCKS + rank) * TILE_ROWS, first, 0, min(TILE_COLUMNS, n - first)};
        return true;
    }
};
