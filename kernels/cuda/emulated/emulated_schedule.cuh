// Which tile of C a block multiplies in which wave; with CUT, which part of one (emulated_cut.cuh).
#pragma once

#include "hopper_schedule.cuh"

constexpr int GROUP_M = 12;  // rows of tiles, in clusters, that are computed together
typedef Schedule<LINES, LINES, CLUSTER, GROUP_M, 0> Tiles;

// A tile's steps of k: the first, and the one after the last.
struct TileWork : Work {
    int first, end;
};

#ifdef CUT

struct TileSchedule : Tiles {
    int parts, part;

    __device__ __forceinline__ TileSchedule(int m, int n, int batch, int rank) : Tiles(m, n, batch, rank) {
        parts = max(clusters / (whole + thin), 1);
        part = id % parts;
        if (parts == 1) return;  // a device with fewer multiprocessors than the launch was planned for
        id /= parts;
        clusters = whole + thin;
    }

    // False where this block has no such wave, and no later one; of clusters that are left over, in any.
    __device__ __forceinline__ bool find(int wave, int steps, TileWork& work) const {
        if ((parts > 1 && id >= clusters) || !Tiles::find(wave, work)) return false;
        work.first = part * steps / parts;
        work.end = (part + 1) * steps / parts;
        return true;
    }
};

#else

struct TileSchedule : Tiles {
    using Tiles::Tiles;

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, int steps, TileWork& work) const {
        work.first = 0;
        work.end = steps;
        return Tiles::find(wave, work);
    }
};

#endif
