// Included by hopper_fp32.cu: the last few rows and columns of C, which would leave most of a tile empty. Their tiles
// are thin: a tile's lines of one operand, and no more than MAX_VECTORS vectors of the other, are copied and
// multiplied.
//
// A thin tile waits for memory where a whole one waits for multipliers. So a few blocks do all thin tiles, and have no
// share of those tiles that all others cut up among them.
#pragma once

constexpr int BLOCKS_EACH = 8 / WARPS;  // of a multiprocessor
constexpr int THIN_STEPS = 14;          // of thin tiles, in the time of one of a whole tile

// Of one matrix: whole tiles down and across, thin ones of its last rows and of the columns above these.
struct TileGrid {
    int down, across, wide, tall;

    __device__ __forceinline__ TileGrid(const Sizes& sizes)
        : down((sizes.whole_m - 1) / BLOCK_M + 1), across((sizes.whole_n - 1) / BLOCK_N + 1) {
        const bool rows = sizes.whole_m < sizes.m, columns = sizes.whole_n < sizes.n;
        wide = rows ? across + columns : 0;
        tall = columns ? down : 0;
    }
};

#ifdef TRIANGLE
#include "triangle_sharing.cuh"
typedef TriangleSharing<4, 2, 1, BLOCKS_EACH> SharedTiles;
#else
typedef Sharing<4, 2, 1, BLOCKS_EACH> SharedTiles;
#endif

struct Tiles : SharedTiles {
    int wide, thin_of_item, thin;  // thin tiles: of an item's last rows, of an item, all
    int first_thin;                // the first block that does some: all after it do

    __device__ __forceinline__ Tiles(const TileGrid& grid, int batch, int steps, bool short_last_step)
        : SharedTiles(grid.down, grid.across, batch, steps, short_last_step,
                      static_cast<float>(grid.wide + grid.tall) * static_cast<float>(batch) *
                          static_cast<float>(steps) / THIN_STEPS),
          wide(grid.wide),
          thin_of_item(grid.wide + grid.tall),
          thin(thin_of_item * batch),
          first_thin(shares > 0 ? shares : tiles % static_cast<int>(gridDim.x)) {
        if (thin > static_cast<long long>(thin_step()) * THIN_STEPS) first_thin = 0;  // these blocks would end last
    }

    // This block's first thin tile; `thin` or more where there is none.
    __device__ __forceinline__ int begin_thin() const {
        const int mine = block - first_thin;
        return mine < 0 ? thin : mine;
    }

    __device__ __forceinline__ int thin_step() const { return static_cast<int>(gridDim.x) - first_thin; }

    __device__ __forceinline__ Corner thin_corner(int tile) const {
        const int item = tile / thin_of_item, within = tile - item * thin_of_item;
        return within < wide ? Corner{item, down, within} : Corner{item, within - wide, across};
    }
};
