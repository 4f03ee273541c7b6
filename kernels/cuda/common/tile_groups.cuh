// Grouped products: rows of A in groups of unequal sizes, each multiplied by a matrix of its own out of B. Compiled in
// with GROUPED alone. Tiles of C do not cross from one group into the next, and are counted group by group; a table
// says where each group begins. `batch` is then the number of groups.
#pragma once
#include "common.cuh"

#ifdef GROUPED

struct GroupStart {
    int tile, row;  // tiles, and rows of A, in the groups before; one entry more has what all groups have
};

// Of groups that begin at the same tile all but the last are empty.
__device__ __forceinline__ int group_of_tile(const GroupStart* groups, int count, int tile) {
    int low = 0, high = count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (groups[middle].tile <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Turns what a kernel was given into what it would be given for the group of this block's tile alone; the tile in C.
__device__ __forceinline__ Tile tile_in_group(const GroupStart* groups, Index n, Index lda, Index ldc, Index stride_b,
                                              int tile_rows, int tile_columns, const Element* __restrict__& a,
                                              const Element* __restrict__& b, Product* __restrict__& c, Index& m,
                                              Index& batch) {
    const int block = static_cast<int>(blockIdx.x), group = group_of_tile(groups, static_cast<int>(batch), block);
    const GroupStart start = groups[group];
    const Index within = block - start.tile, across = (n + tile_columns - 1) / tile_columns;
    a += start.row * row_step_a(lda);
    b += group * stride_b;
    c += start.row * ldc;
    m = groups[group + 1].row - start.row;
    batch = 1;
    return {within / across * tile_rows, within % across * tile_columns};
}

#define GROUP_PARAMETERS , const GroupStart* __restrict__ groups
#define FIND_TILE(tile_rows, tile_columns) \
    tile_in_group(groups, n, lda, ldc, stride_b, tile_rows, tile_columns, a, b, c, m, batch)

#else

#define GROUP_PARAMETERS
#define FIND_TILE(tile_rows, tile_columns) tile_of_block(n, tile_rows, tile_columns)

#endif
