// Tiles that would leave a last wave partly empty are cut along k, and all clusters take equal shares of them first
// ("stream-K", Osama et al. 2023; stream_k.cuh). Thin tiles are the first of these: they are quick, and their sums few.
//
// Compiled in with CUT alone, for operands of 16 bits (kernels/entries/hopper_cut.py).
#pragma once

#ifdef CUT

#include "hopper_schedule.cuh"
#include "stream_k.cuh"

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
#ifdef CUT_TWO
        const int clusters = gridDim.x / CLUSTER_BLOCKS;
        if (thin < this->cut && this->tiles > clusters) {
            this->cut += clusters;
            this->shares = this->each = clusters;
            this->span = this->cut * stages;
            this->length = this->span / clusters;
            this->fewer = clusters - (this->span - this->length * clusters);
        }
#endif
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

#define CUT_PARAMETERS , float4 *handed_parts, unsigned int *handed_counters
#define CUT_WORDS , {handed_parts, handed_counters}

#else

#define CUT_PARAMETERS
#define CUT_WORDS

#endif
