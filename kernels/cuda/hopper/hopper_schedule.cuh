// Which tile of C a resident block computes in which wave. Blocks of a cluster take tiles below each other; clusters go
// through all tiles in groups of a few rows of tiles, so that operands are still in the L2 for a tile's neighbours.
//
// Tiles of which little lies inside C come last: they are quick, and fill the wave in which some clusters have nothing
// left to do. So a matrix one row or column larger costs little more.
//
// Where the last wave of whole tiles would leave clusters idle, groups of rows are cut into a column of tiles more,
// each some columns narrower: 4,096 rows and columns are 256 pairs of tiles of 256 columns, which 66 clusters take in
// four waves, and 264 of which half have 240 are four waves that are full and end sooner.
#pragma once

struct Work {
    int row, column, item;  // of the tile's first element in C, and which product of the batch
    int columns;            // of the tile inside C
#ifdef GROUPED
    int group, end;  // whose matrix of B it is multiplied by, and the row after its last one
    bool apart;      // the other blocks of the cluster need other columns of B
#endif
};

// FEWER: columns that a tile may have less than others.
template <int TILE_ROWS, int TILE_COLUMNS, int CLUSTER_BLOCKS, int GROUP, int FEWER>
struct Schedule {
    static constexpr int THIN_WAVES = 3;  // thin tiles that a cluster computes in the time of about one other

    int n, tall, across, whole_rows, whole_columns, fuller, whole, thin, id, clusters, rank;

    // The launch sees to it that the batch has fewer than 2^31 tiles.
    __device__ __forceinline__ Schedule(int m, int n, int batch, int rank) : n(n), rank(rank) {
        const int rows = TILE_ROWS * CLUSTER_BLOCKS, last_rows = m % rows, last_columns = n % TILE_COLUMNS;
        tall = (m - 1) / rows + 1;
        across = (n - 1) / TILE_COLUMNS + 1;
        whole_rows = tall - (0 < last_rows && last_rows <= TILE_ROWS / 2);
        whole_columns = across - (0 < last_columns && last_columns <= TILE_COLUMNS / 2);
        id = static_cast<int>(blockIdx.x) / CLUSTER_BLOCKS;
        clusters = static_cast<int>(gridDim.x) / CLUSTER_BLOCKS;
        whole = batch * whole_rows * whole_columns;
        thin = batch * tall * across - whole;
        fuller = thin == 0 ? groups_made_fuller(batch) : 0;
        whole += batch * fuller * GROUP;
    }

    // False where this block has no such wave, and no later one.
    __device__ __forceinline__ bool find(int wave, Work& work) const {
        const int waves = whole > id ? (whole - id - 1) / clusters + 1 : 0;
        if (wave < waves) {
            whole_tile(id + wave * clusters, work);
            return true;
        }
        const int index = thin_index(wave - waves);
        if (index < thin) thin_tile(index, work);
        return index < thin;
    }

private:
    // How many groups of rows get another column of tiles: as many as fit into the last wave.
    __device__ __forceinline__ int groups_made_fuller(int batch) const {
        if (FEWER == 0 || whole % clusters == 0 || n < (whole_columns + 1) * (TILE_COLUMNS - FEWER)) return 0;
        return min((clusters - whole % clusters) / (GROUP * batch), whole_rows / GROUP);
    }

    __device__ __forceinline__ void whole_tile(int index, Work& work) const {
        const int of_item = whole_rows * whole_columns + fuller * GROUP, item = index / of_item;
        const int within = index - item * of_item, in_fuller = fuller * GROUP * (whole_columns + 1);
        const bool is_fuller = within < in_fuller;
        const int columns = whole_columns + is_fuller, rest = is_fuller ? within : within - in_fuller;
        const int group = rest / (GROUP * columns), first = (group + (is_fuller ? 0 : fuller)) * GROUP;
        const int height = min(GROUP, whole_rows - first), place = rest - group * GROUP * columns;
        const int column = place / height;
        set(first + place - column * height, column, columns, item, work);
    }

    // Clusters that the last wave of whole tiles leaves idle take some first, and all take turns with the rest.
    __device__ __forceinline__ int thin_index(int wave) const {
        const int busy = whole % clusters, idle = busy ? clusters - busy : 0;
        const bool is_idle = id >= clusters - idle;
        if (is_idle && wave < THIN_WAVES) return id - (clusters - idle) + wave * idle;
        return THIN_WAVES * idle + id + (wave - (is_idle ? THIN_WAVES : 0)) * clusters;
    }

    // Those of the last column of tiles, if it is thin, then those of the last row.
    __device__ __forceinline__ void thin_tile(int index, Work& work) const {
        const int of_column = across > whole_columns ? tall : 0;
        const int of_item = of_column + (tall > whole_rows ? whole_columns : 0);
        const int item = index / of_item, place = index % of_item;
        if (place < of_column)
            set(place, across - 1, whole_columns, item, work);
        else
            set(tall - 1, place - of_column, whole_columns, item, work);
    }

    // Of so many columns of tiles, thin ones not counted, the first are as wide as can be and the others narrower,
    // unless even so the last one would not be full.
    __device__ __forceinline__ void set(int row, int column, int columns, int item, Work& work) const {
        constexpr int NARROW = TILE_COLUMNS - FEWER, UNIT = FEWER > 0 ? FEWER : 1;
        const int over = n - columns * NARROW, wide = over < 0 ? columns : min(columns, (over + UNIT - 1) / UNIT);
        const int first = column * NARROW + min(column, wide) * FEWER;
        const int width = min(column < wide ? TILE_COLUMNS : NARROW, n - first);
        work = {(row * CLUSTER_BLOCKS + rank) * TILE_ROWS, first, item, width};
    }
};
