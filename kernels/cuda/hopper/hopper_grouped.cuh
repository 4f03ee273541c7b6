// As hopper_schedule.cuh, of a grouped product: which tile of which group a resident block computes in which wave.
// A box of A may reach beyond its group, into rows that are multiplied and not stored; of a box of C across the end of
// its group, rows are stored one by one.
#pragma once

#include "grouped.cuh"
#include "hopper_schedule.cuh"

// Of a group, tiles go down a few rows and then across, so that a tile of its B is read once from memory.
template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int DOWN>
struct GroupedSchedule {
    const GroupStart* groups;
    int n, count, rank, id, clusters, across, tiles;

    // The launch sees to it that there are fewer than 2^31 tiles.
    __device__ __forceinline__ GroupedSchedule(const GroupStart* groups, int n, int count, int rank)
        : groups(groups),
          n(n),
          count(count),
          rank(rank),
          id(static_cast<int>(blockIdx.x) / CLUSTER_BLOCKS),
          clusters(static_cast<int>(gridDim.x) / CLUSTER_BLOCKS),
          across((n - 1) / TILE_COLUMNS + 1),
          tiles(groups[count].tile_row * across) {}

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, Work& work) const {
        const int index = id + wave * clusters;
        if (index >= tiles) return false;
        const int group = group_of_tile(groups, count, index / across);
        const GroupStart start = groups[group], next = groups[group + 1];
        const int within = index - start.tile_row * across, before = within / (DOWN * across) * DOWN;
        const int height = min(DOWN, next.tile_row - start.tile_row - before), place = within - before * across;
        const int column = place / height, row = before + place - column * height, first = column * TILE_COLUMNS;
        work.row = start.row + (row * CLUSTER_BLOCKS + rank) * TILE_ROWS;
        work.column = first;
        work.item = 0;
        work.columns = min(TILE_COLUMNS, n - first);
        work.group = group;
        work.end = next.row;
        return true;
    }
};
