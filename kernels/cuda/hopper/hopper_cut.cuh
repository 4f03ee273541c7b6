// Tiles that would leave a last wave partly empty are cut along k, and all clusters take equal shares of them first
// ("stream-K", Osama et al. 2023; stream_k.cuh). Thin tiles are the first of these: they are quick, and their sums few.
//
// A consumer's warp that has a part of a tile's steps hands its sums over, to where the L2 keeps them, and goes on; the
// one that comes last adds up those of all parts in the order of k, and stores them. No warp waits for another, so
// nothing depends on clusters being resident together.
//
// Compiled in with CUT alone, for operands of 16 bits. The counters are the stream's, zero before each launch and after.
#pragma once

#ifdef CUT

#include "hopper_follow.cuh"
#include "hopper_stages.cuh"
#include "stream_k_sums.cuh"

constexpr int SHORTEST_CUT = 4;  // stages of a share: fewer cost more than they save
constexpr int SECOND_CUT = 4;    // in whose time a cluster hands over sums of a second tile

struct CutWork : Work {
    TileSegment segment;  // its tile and stages
};

template <int CLUSTER_BLOCKS>
using CutShares = Sharing<SHORTEST_CUT, 0, SECOND_CUT, 1, CLUSTER_BLOCKS, 1 << 30>;

template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int GROUP>
struct CutSchedule : CutShares<CLUSTER_BLOCKS> {
    int whole_columns, of_whole, thin, columns, rank;

    __device__ __forceinline__ CutSchedule(int m, int n, int batch, int stages, int rank)
        : CutShares<CLUSTER_BLOCKS>((m - 1) / (TILE_ROWS * CLUSTER_BLOCKS) + 1, (n - 1) / TILE_COLUMNS + 1, batch,
                                    stages, false),
          columns(n),
          rank(rank) {
        const int last_rows = m % (TILE_ROWS * CLUSTER_BLOCKS), last_columns = n % TILE_COLUMNS;
        whole_columns = this->across - (0 < last_columns && last_columns <= TILE_COLUMNS / 2);
        of_whole = (this->down - (0 < last_rows && last_rows <= TILE_ROWS / 2)) * whole_columns;
        thin = this->tiles - batch * of_whole;
    }

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, CutWork& work) const {
        if (!CutShares<CLUSTER_BLOCKS>::find(wave, work.segment)) return false;
        place(work.segment.tile, work);
        return true;
    }

private:
    // Thin tiles of each item are those of the last column, if it is thin, then those of the last row.
    __device__ __forceinline__ void place(int tile, Work& work) const {
        const bool is_thin = tile < thin;
        const int down = this->down, across = this->across;
        const int of_item = is_thin ? down * across - of_whole : of_whole, at = is_thin ? tile : tile - thin;
        const int item = at / of_item, within = at - item * of_item;
        int row, column;
        if (is_thin) {
            const int of_column = across > whole_columns ? down : 0;
            row = within < of_column ? within : down - 1;
            column = within < of_column ? across - 1 : within - of_column;
        } else {
            const int group = within / (GROUP * whole_columns), rest = within - group * GROUP * whole_columns;
            const int height = min(GROUP, of_whole / whole_columns - group * GROUP);
            column = rest / height;
            row = group * GROUP + rest - column * height;
        }
        const int first = column * TILE_COLUMNS;
        static_cast<Work&>(work) = {(row * CLUSTER_BLOCKS + rank) * TILE_ROWS, first, item,
                                    min(TILE_COLUMNS, columns - first)};
    }
};

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

#define CUT_PARAMETERS , float4 *handed_parts, unsigned int *handed_counters
#define CUT_WORDS , {handed_parts, handed_counters}

#else

#define CUT_PARAMETERS
#define CUT_WORDS

#endif
