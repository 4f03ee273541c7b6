// How the segments of a tile that is cut (stream_k.cuh) are added: each warp hands over its sums, and the last one adds
// the sums of all segments in the order of k. No warp waits for another. The warps of a tile do this independently,
// because a warp's part of C is the same in every block.
#pragma once

#include "stream_k.cuh"

constexpr int MAX_SHARING_WARPS = MAX_SHARING_THREADS / 32;

// For each warp of a tile that is cut, how many of its segments have been handed over. The warp that adds them resets
// the count to zero, so successive launches on a stream need not clear it.
__device__ unsigned int handed_over[MAX_SHARING_WARPS];

// Adds to the counter and returns its previous value. What others wrote before they added may then be read.
__device__ __forceinline__ int arrived(unsigned int* counter, unsigned int more) {
    unsigned int before = 0;
    if (threadIdx.x % 32 == 0) before = atomicAdd(counter, more);
    before = __shfl_sync(0xffffffffu, before, 0);
    __threadfence();
    return static_cast<int>(before);
}

// True in the warp that comes last, with all sums. `Sums` are a warp's: write(sharer) hands them over, add(sharer) adds
// what a sharer handed over, clear() makes them zero. `mine` is this sharer. Since a + b is b + a, whoever has the
// first segment or the second may add the other to its own, and so need not hand over its own if it comes last.
template <class Sums>
__device__ __forceinline__ bool add_up(Sums sums, const Sharers& sharers, int tile, int mine) {
    unsigned int* const counter = handed_over + tile * static_cast<int>(blockDim.x / 32) + threadIdx.x / 32;
    const int others = sharers.last - sharers.first;
    const bool keeps = mine - sharers.first < 2;
    if (!keeps || arrived(counter, 0) < others) {
        sums.write(mine);
        __threadfence();
        __syncwarp();
        if (arrived(counter, 1) < others) return false;
    }
    if (!keeps) sums.clear();
    for (int sharer = sharers.first; sharer <= sharers.last; ++sharer)
        if (!keeps || sharer != mine) sums.add(sharer);
    if (threadIdx.x % 32 == 0) *counter = 0;
    return true;
}
