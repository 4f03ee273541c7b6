// How the partial sums of a tile that is cut along k (hopper_cut.cuh) are added up. Each warp of a consumer writes the
// sums of its part to the workspace, which stays in the L2, and is done. Of the warps with the same elements of C, the
// last one adds up all parts, in the order of k. No warp waits for another, so clusters need not be resident together.
// A cut tile is its block's last: while one warp adds, others of its warpgroup must not go on to another tile
// (docs/decisions/0083).
//
// Compiled in with CUT only. The counters belong to the stream, and are zero before each launch and after it.
#pragma once

#ifdef CUT

#include "async.cuh"
#include "hopper_cut.cuh"
#include "hopper_stages.cuh"
#include "hopper_warp_epilogue.cuh"
#include "stream_k_sums.cuh"

// The largest divisor of `all` up to `most`; or the largest multiple of it up to `most`, if there is one.
__device__ constexpr int fitting(int all, int most) {
    if (most >= all) return most / all * all;
    while (all % most != 0)
        --most;
    return most;
}

// A warp's sums of one part of a tile. Those of other parts are copied to where the warp's boxes of C are stored from:
// no registers are left to have many of them on their way.
template <int N>
struct CutSums {
    static constexpr int APART = BLOCK_M * BLOCK_N / 4 * CLUSTER, CHUNK_BYTES = 32 * 16;
    static constexpr int CHUNKS = N / 8, AHEAD = fitting(CHUNKS, OUT_BOXES* OUT_BYTES / CHUNK_BYTES);

    HOPPER_SUM (&sums)[N / 2];
    float4* const handed;       // where those of this block, warp and lane are of the first part
    const unsigned int buffer;  // in shared memory, of this lane

    __device__ __forceinline__ void write(int part) const {
        float4* const to = handed + static_cast<long long>(part) * APART;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i)
            __stcg(to + i * 32, float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    }

    // Adds the sums of `count` parts, from the first one on and in their order, without part `left_out`.
    __device__ __forceinline__ void add(int count, int left_out) const {
        wait_stores_read<0>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            load(count, left_out, i / CHUNKS, i % CHUNKS);
        for (int order = 0; order < count; ++order) {
#pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                float more[4];
                wait_copies<AHEAD - 1>();
                read_four(more, place(order, i));
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    sums[4 * i + j] += more[j];
                load(count, left_out, order + (i + AHEAD) / CHUNKS, (i + AHEAD) % CHUNKS);
            }
        }
    }

private:
    __device__ __forceinline__ unsigned int place(int order, int i) const {
        if constexpr (AHEAD > CHUNKS) i += order % (AHEAD / CHUNKS) * CHUNKS;
        return buffer + i % AHEAD * CHUNK_BYTES;
    }

    __device__ __forceinline__ void load(int count, int left_out, int order, int i) const {
        const int part = order + (order >= left_out);
        if (order < count) copy_chunk(place(order, i), handed + static_cast<long long>(part) * APART + i * 32, 16);
        commit_copies();
    }
};

// Whether this warp is the last one with its elements of C; then `sums` become those of all parts. A warp with the
// first or second part adds the others to its own sums, since a + b is b + a, and so writes its part only if it is not
// the last.
template <int N>
__device__ __forceinline__ bool reduce_parts(const Shared& at, const HandedOver& handed_over, int rank, int parts,
                                             int tile, int part, HOPPER_SUM (&sums)[N / 2]) {
    const int own = threadIdx.x / 32, warp = rank * CONSUMERS * 4 + own, lane = threadIdx.x % 32;
    const long long first = static_cast<long long>(tile * parts) * CutSums<N>::APART + warp * (16 * BLOCK_N / 4) + lane;
    const unsigned int buffer = at.base + OUT_OFFSET + own * OUT_BOXES * OUT_BYTES + lane * 16;
    const CutSums<N> all = {sums, handed_over.parts + first, buffer};
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
