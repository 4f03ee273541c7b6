// As hopper_schedule.cuh, of a grouped product: which tile of which group a resident block computes in which wave.
// A box of A may reach beyond its group, into rows that are multiplied and not stored; of a box of C across the end of
// its group, rows are stored one by one.
//
// Blocks of a cluster take tiles below each other, as elsewhere. Where the last rows of a group are too few for all of
// them, they go apart instead: next to each other, each with columns of its own. So a group is padded to rows of a
// tile, not of a cluster.
#pragma once

#include "hopper_schedule.cuh"
#include "tile_groups.cuh"

// Of a group, tiles go down a few rows and then across, so that a tile of its B is read once from memory. A tile of the
// table is what a cluster computes.
template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int DOWN>
struct GroupedSchedule {
    static constexpr int ROWS = TILE_ROWS * CLUSTER_BLOCKS;  // of a cluster

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
          tiles(groups[count].tile) {}

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, Work& work) const {
        const int index = id + wave * clusters;
        if (index >= tiles) return false;
        const int group = group_of_tile(groups, count, index);
        const int first = groups[group].row, end = groups[group + 1].row, within = index - groups[group].tile;
        const int tall = (end - first) / ROWS + ((end - first) % ROWS > ROWS - TILE_ROWS);
        work.item = 0;
        work.group = group;
        work.end = end;
        work.apart = within >= tall * across;
        if (work.apart)
            set(first + tall * ROWS, (within - tall * across) * CLUSTER_BLOCKS + rank, work);
        else
            below_each_other(within, first, tall, work);
        return true;
    }

private:
    __device__ __forceinline__ void below_each_other(int within, int first, int tall, Work& work) const {
        const int before = within / (DOWN * across) * DOWN, height = min(DOWN, tall - before);
        const int place = within - before * across, column = place / height, row = before + place - column * height;
        set(first + row * ROWS + rank * TILE_ROWS, column, work);
    }

    // Of blocks that go apart the last may be left without columns, and then has no rows either.
    __device__ __forceinline__ void set(int row, int column, Work& work) const {
        work.row = column < across ? row : work.end;
        work.column = column * TILE_COLUMNS;
        work.columns = column < across ? min(TILE_COLUMNS, n - work.column) : 0;
    }
};
