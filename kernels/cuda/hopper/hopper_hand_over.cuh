// How sums of a tile that is cut along k (hopper_cut.cuh) come together. A consumer's warp that has a part of its steps
// hands its sums over, to where the L2 keeps them, and goes on; the one that comes last adds up those of all parts in the
// order of k. No warp waits for another, so nothing depends on clusters being resident together.
//
// Compiled in with CUT alone. The counters are the stream's, zero before each launch and after.
#pragma once

#ifdef CUT

#include "hopper_cut.cuh"
#include "hopper_follow.cuh"
#include "hopper_stages.cuh"
#include "stream_k_sums.cuh"

// A warp's sums of a part of a tile. Those of others come by way of where its boxes of C leave from, since no registers
// are left for many of them to be on their way.
template <int N>
struct CutSums {
    static constexpr int APART = BLOCK_M * BLOCK_N / 4 * CLUSTER, LANES_BYTES = 32 * 16;
    static constexpr int ROOMS = OUT_BOXES * OUT_BYTES / LANES_BYTES, FOURS = N / 8;
    static constexpr int AHEAD = ROOMS < FOURS ? ROOMS : FOURS;

    HOPPER_SUM (&sums)[N / 2];
    float4* const handed;     // where those of this block, warp and lane are of sharer 0
    const unsigned int room;  // in shared memory, of this lane

    __device__ __forceinline__ void write(int sharer) const {
        float4* const to = handed + static_cast<long long>(sharer) * APART;
#pragma unroll
        for (int i = 0; i < FOURS; ++i)
            __stcg(to + i * 32, float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    }

    __device__ __forceinline__ void add(int sharer) const {
        const float4* const from = handed + static_cast<long long>(sharer) * APART;
#ifdef CUT_DIRECT
#pragma unroll
        for (int i = 0; i < FOURS; ++i) {
            const float4 more = __ldcg(from + i * 32);
            sums[4 * i] += more.x, sums[4 * i + 1] += more.y, sums[4 * i + 2] += more.z, sums[4 * i + 3] += more.w;
        }
        return;
#endif
        wait_stores_read<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            bring(from, i);
#pragma unroll
        for (int i = 0; i < FOURS; ++i) {
            float more[4];
            wait_copies<AHEAD - 1>();
            read_four(more, room + i % AHEAD * LANES_BYTES);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sums[4 * i + j] += more[j];
            bring(from, i + AHEAD);
        }
    }

    __device__ __forceinline__ void clear() const {
#pragma unroll
        for (HOPPER_SUM& sum : sums)
            sum = 0;
    }

private:
    __device__ __forceinline__ void bring(const float4* from, int i) const {
        if (i < FOURS) copy_chunk(room + i % AHEAD * LANES_BYTES, from + i * 32, 16);
        commit_copies();
    }
};

// Whether this warp comes last of its tile's; then `sums` are those of all parts.
template <int N, typename TileSchedule>
__device__ __forceinline__ bool adds_up(const Shared& at, const HandedOver& handed_over, const TileSchedule& schedule,
                                        int tile, HOPPER_SUM (&sums)[N / 2]) {
    const int own = threadIdx.x / 32, warp = schedule.rank * CONSUMERS * 4 + own, lane = threadIdx.x % 32;
    const long long first = static_cast<long long>(tile) * CutSums<N>::APART + warp * (16 * BLOCK_N / 4) + lane;
    const unsigned int room = at.base + OUT_OFFSET + own * OUT_BOXES * OUT_BYTES + lane * 16;
    unsigned int* const counter = handed_over.counters + tile * (CLUSTER * CONSUMERS * 4) + warp;
    const CutSums<N> all = {sums, handed_over.parts + first, room};
    return add_up(all, schedule.sharers_of(tile), counter, schedule.block);
}

#endif
