// Where C has few tiles and k is deep, each tile is cut along k into parts of equal length, one for each cluster of the
// grid ("split-K"). A warp's elements of C are the same in every part of a tile. It writes its sums to the workspace,
// which the L2 keeps, and counts itself; the one that comes last adds those of all parts to its own and stores C. No
// warp waits for another. Sums are integers, so C has the same bits whoever comes last; with six products also however
// a tile is cut, as only the lowest sum of more is rounded, once in each part, far below what digits leave out.
//
// The launch decides about it (kernels/entries/fp32_emulated.py): then there are at least twice as many clusters as
// tiles, each has one part at most, and k is not so deep that a tile would be several chunks.
#pragma once

#ifdef CUT

#include "emulated_ring.cuh"
#include "emulated_schedule.cuh"
#include "stream_k_sums.cuh"

constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / 32;
constexpr int CUT_BARRIER = 1;  // of all consumers

// What a warp's sums of its elements of C take: PAIRS times 16 bytes of each lane.
constexpr int WARP_PAIRS = PAIRS * 32, APART = WARP_PAIRS * CONSUMER_WARPS * CLUSTER;  // from part to part

static_assert(APART * sizeof(longlong2) == CLUSTER * LINES * LINES * 8, "the catalogue's entry has room for a part");
static_assert(WARP_PAIRS * CONSUMER_WARPS * sizeof(longlong2) <= PLACES * PLACE_BYTES, "sums fit where digits lay");

// Where a thread's sums are, in the place of digits: loops over them need no registers and little code, which is cold.
__device__ __forceinline__ longlong2* own_sums(unsigned char* ring) {
    return reinterpret_cast<longlong2*>(ring) + threadIdx.x / 32 * WARP_PAIRS + threadIdx.x % 32;
}

// Once all consumers have multiplied, as it writes over digits.
__device__ __forceinline__ void keep_sums(const int (&sets)[SETS][SUMS], longlong2* sums) {
    asm volatile("bar.sync %0, %1;" ::"n"(CUT_BARRIER), "n"(CONSUMERS * WARPGROUP) : "memory");
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair)
        sums[pair * 32] = sums_of(sets, pair);
}

// Whether this warp is the last one with its elements of C; then `sums` become those of all of k.
__device__ __forceinline__ bool add_parts(const Findings& findings, const TileSchedule& tiles, longlong2* sums) {
    const int warp = tiles.rank * CONSUMER_WARPS + threadIdx.x / 32, parts = tiles.parts;
    const Index first = static_cast<Index>(tiles.id) * parts * APART + warp * WARP_PAIRS + threadIdx.x % 32;
    longlong2* const handed = reinterpret_cast<longlong2*>(findings.handed_over) + first;
    unsigned int* const counter = findings.counters + tiles.id * (CONSUMER_WARPS * CLUSTER) + warp;
    if (arrived(counter, 0) < parts - 1) {
#pragma unroll 8
        for (int pair = 0; pair < PAIRS; ++pair)
            __stcg(handed + tiles.part * APART + pair * 32, sums[pair * 32]);
        __threadfence();
        __syncwarp();
        if (arrived(counter, 1) < parts - 1) return false;
    }
    for (int part = 0; part < parts; ++part) {
        if (part == tiles.part) continue;
#pragma unroll
        for (int pair = 0; pair < PAIRS; ++pair) {
            const longlong2 more = __ldcg(handed + part * APART + pair * 32);
            sums[pair * 32].x += more.x;
            sums[pair * 32].y += more.y;
        }
    }
    return true;
}

#endif
