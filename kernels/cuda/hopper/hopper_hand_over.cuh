// How sums of a tile that is cut along k (hopper_cut.cuh) come together. A consumer's warp that has a part of its steps
// hands its sums over, to where the L2 keeps them, and goes on; the one that comes last adds up those of all parts in
// the order of k. No warp waits for another, so nothing depends on clusters being resident together. It is a block's
// last tile: while one warp adds, others of its warpgroup must not go on to the next (docs/decisions/0083).
//
// Compiled in with CUT alone. The counters are the stream's, zero before each launch and after.
#pragma once

#ifdef CUT

#include "hopper_cut.cuh"
#include "hopper_follow.cuh"
#include "hopper_stages.cuh"
#include "stream_k_sums.cuh"

// The most that `all` is a multiple of, up to `most`, or the most multiples of it that are.
__device__ constexpr int fitting(int all, int most) {
    if (most >= all) return most / all * all;
    while (all % most != 0)
        --most;
    return most;
}

// A warp's sums of a part of a tile. Those of other parts come by way of where its boxes of C leave from, since no
// registers are left for many of them to be on their way.
template <int N>
struct CutSums {
    static constexpr int APART = BLOCK_M * BLOCK_N / 4 * CLUSTER, CHUNK_BYTES = 32 * 16;
    static constexpr int CHUNKS = N / 8, AHEAD = fitting(CHUNKS, OUT_BOXES* OUT_BYTES / CHUNK_BYTES);

    HOPPER_SUM (&sums)[N / 2];
    float4* const handed;     // where those of this block, warp and lane are of the first part
    const unsigned int room;  // in shared memory, of this lane

    __device__ __forceinline__ void write(int part) const {
        float4* const to = handed + static_cast<long long>(part) * APART;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i)
            __stcg(to + i * 32, float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    }

    // What other parts handed over, so many from the first one on, in their order, without `left_out`.
    __device__ __forceinline__ void add(int count, int left_out) const {
        wait_stores_read<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            bring(count, left_out, i / CHUNKS, i % CHUNKS);
        for (int order = 0; order < count; ++order) {
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                float more[4];
                wait_copies<AHEAD - 1>();
                read_four(more, place(order, i));
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    sums[4 * i + j] += more[j];
                bring(count, left_out, order + (i + AHEAD) / CHUNKS, (i + AHEAD) % CHUNKS);
            }
        }
    }

private:
    __device__ __forceinline__ unsigned int place(int order, int i) const {
        if constexpr (AHEAD > CHUNKS) i += order % (AHEAD / CHUNKS) * CHUNKS;
        return room + i % AHEAD * CHUNK_BYTES;
    }

    __device__ __forceinline__ void bring(int count, int left_out, int order, int i) const {
        const int part = order + (order >= left_out);
        if (order < count) copy_chunk(place(order, i), handed + static_cast<long long>(part) * APART + i * 32, 16);
        commit_copies();
    }
};

// Whether this warp comes last of those with its part of C, of all parts of a tile along k; then `sums` are those of
// all. Since a + b is b + a, whoever has the first part or the second adds others to its own, and hands it over only
// where it is not the last.
template <int N>
__device__ __forceinline__ bool adds_up(const Shared& at, const HandedOver& handed_over, int rank, int parts, int tile,
                                        int part, HOPPER_SUM (&sums)[N / 2]) {
    const int own = threadIdx.x / 32, warp = rank * CONSUMERS * 4 + own, lane = threadIdx.x % 32;
    const long long first = static_cast<long long>(tile * parts) * CutSums<N>::APART + warp * (16 * BLOCK_N / 4) + lane;
    const unsigned int room = at.base + OUT_OFFSET + own * OUT_BOXES * OUT_BYTES + lane * 16;
    const CutSums<N> all = {sums, handed_over.parts + first, room};
    unsigned int* const counter = handed_over.counters + tile * (CLUSTER * CONSUMERS * 4) + warp;
    const bool keeps = part < 2;
    if (!keeps || arrived(counter, 0) < parts - 1) {
        all.write(part);
        __threadfence();
        __syncwarp();
        if (arrived(counter, 1) < parts - 1) return false;
    }
    if (!keeps) {
#pragma unroll
        for (HOPPER_SUM& sum : sums)
            sum = 0;
    }
    all.add(parts - keeps, keeps ? part : parts);
    if (lane == 0) *counter = 0;
    return true;
}

#endif
