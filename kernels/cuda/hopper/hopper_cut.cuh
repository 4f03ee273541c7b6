// Tiles that would leave a last wave partly empty are cut along k, and all clusters take equal shares of them first
// ("stream-K", Osama et al. 2023). Thin tiles are the first of these: they are quick, and their sums few. Where there are
// fewer thin ones, those of a full wave are cut with the others: a share is then longer than a tile, so no tile has more
// than two parts.
//
// Compiled in with CUT alone, for operands of 16 bits (kernels/entries/hopper_cut.py).
#pragma once

#ifdef CUT

#include "hopper_schedule.cuh"
#include "stream_k.cuh"

constexpr int SHORTEST_CUT = 4;  // stages of a share: fewer cost more than they save
constexpr int SECOND_CUT = 4;    // in whose time a cluster hands over sums of a second tile
constexpr int LIGHT_PARTS = 9, LIGHT_OF = 16;  // of a whole tile's time, that a thin one takes

struct CutWork : Work {
    TileSegment segment;  // its tile and stages
};

// Shares are counted in units: a stage of a whole tile, or of a thin one as many stages as take as long.
template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int GROUP>
struct CutSchedule {
    int columns, stages, rank, id, clusters;
    int down, across, whole_columns, of_whole;  // tiles of an item, of which so many are whole
    int tiles, thin, light;                     // of the batch; units of a thin one
    int cut, shares;                            // the first tiles, and what they are cut into
    int span, each, length, fewer;  // units that are cut alike, into so many shares, of so many or, after `fewer`, one more

    // The launch sees to it that the batch has fewer than 2^31 tiles, and those that are cut fewer than 2^31 stages.
    __device__ __forceinline__ CutSchedule(int m, int n, int batch, int stages, int rank)
        : columns(n), stages(stages), rank(rank) {
        const int rows = TILE_ROWS * CLUSTER_BLOCKS, last_rows = m % rows, last_columns = n % TILE_COLUMNS;
        id = static_cast<int>(blockIdx.x) / CLUSTER_BLOCKS;
        clusters = static_cast<int>(gridDim.x) / CLUSTER_BLOCKS;
        down = (m - 1) / rows + 1;
        across = (n - 1) / TILE_COLUMNS + 1;
        whole_columns = across - (0 < last_columns && last_columns <= TILE_COLUMNS / 2);
        of_whole = (down - (0 < last_rows && last_rows <= TILE_ROWS / 2)) * whole_columns;
        tiles = batch * down * across;
        thin = tiles - batch * of_whole;
        light = (stages * LIGHT_PARTS + LIGHT_OF - 1) / LIGHT_OF;
        const int rest = stages > 1 ? tiles % clusters : 0;
        cut = rest > thin && tiles > clusters ? rest + clusters : rest;
        shares = span = each = length = fewer = 0;
        if (cut > 0) share_out();
    }

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, CutWork& work) const {
        const int begin = begin_of(id), end = begin_of(id + 1);
        const int first = id < shares ? tile_at(begin) : 0, pieces = id < shares ? tile_at(end - 1) - first + 1 : 0;
        if (wave < pieces) {
            const int tile = first + wave, from = begin_of_tile(tile), to = begin_of_tile(tile + 1);
            const int stage = stages_in(tile, max(begin - from, 0)), last = stages_in(tile, min(end, to) - from);
            work.segment = {tile, stage, last - stage, last - stage < stages};
        } else {
            work.segment = {cut + id + (wave - pieces) * clusters, 0, stages, false};
        }
        if (work.segment.tile >= tiles) return false;
        place(work.segment.tile, work);
        return true;
    }

    // For a tile that is cut.
    __device__ __forceinline__ Sharers sharers_of(int tile) const {
        return {sharer_of(begin_of_tile(tile)), sharer_of(begin_of_tile(tile + 1) - 1)};
    }

    // Where a sharer's sums of a cut tile go: from one segment to the next the sharer is another, or the tile, or both.
    static __device__ __forceinline__ int place_of(int sharer, int tile) { return sharer + tile; }

private:
    // One for each cluster; or, of tiles that are alike, a number that lets shares end with them, if that is hardly
    // slower.
    __device__ __forceinline__ void share_out() {
        const int all = begin_of_tile(cut), most = min(clusters, max(cut, all / SHORTEST_CUT)), of_tile = most / cut;
        const bool alike = of_tile > 0 && (cut <= thin || thin == 0);
        const bool even = alike && (all / cut - 1) / of_tile <= (all - 1) / most + SECOND_CUT;
        shares = even ? cut * of_tile : most;
        each = even ? of_tile : most;
        span = even ? all / cut : all;
        length = span / each;
        fewer = each - (span - length * each);
    }

    __device__ __forceinline__ int begin_of(int share) const {
        if (shares == 0) return 0;
        const int part = share / each, within = share - part * each;
        return part * span + within * length + max(within - fewer, 0);
    }

    __device__ __forceinline__ int sharer_of(int unit) const {
        const int part = unit / span, within = unit - part * span, of_shorter = fewer * length;
        const int first = within < of_shorter ? within / length : fewer + (within - of_shorter) / (length + 1);
        return part * each + first;
    }

    __device__ __forceinline__ int begin_of_tile(int tile) const {
        return min(tile, thin) * light + max(tile - thin, 0) * stages;
    }

    __device__ __forceinline__ int tile_at(int unit) const {
        const int of_thin = thin * light;
        return unit < of_thin ? unit / light : thin + (unit - of_thin) / stages;
    }

    // Of a tile's units the first so many.
    __device__ __forceinline__ int stages_in(int tile, int units) const {
        return tile < thin ? units * stages / light : units;
    }

    // Thin tiles of each item are those of the last column, if it is thin, then those of the last row.
    __device__ __forceinline__ void place(int tile, Work& work) const {
        const bool is_thin = tile < thin;
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
