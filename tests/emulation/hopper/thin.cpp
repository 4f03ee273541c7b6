// What resident blocks compute of a product with thin tiles, as hopper_thin.cuh says: for each line "m n whole_m
// whole_n batch steps blocks" of the input, lines "block thin item row column count", then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
//
#include "stream_k.cuh"

constexpr int WARPS = BLOCK_M * BLOCK_N / 4096;

struct Sizes {
    int m, n, k, batch, whole_m, whole_n;
};

#include "hopper_thin.cuh"
static_assert(THIN_STEPS == RECKONED, "what a config is chosen by");

Dim3 threadIdx, blockIdx, blockDim, gridDim;

void tell(const Tiles& tiles, bool thin, const Corner& corner, int count) {
    std::printf("%d %d %d %d %d %d\n", tiles.block, thin, corner.item, corner.down * BLOCK_M, corner.across * BLOCK_N,
                count);
}

int main() {
    int m, n, whole_m, whole_n, batch, steps;
    while (std::scanf("%d %d %d %d %d %d %u", &m, &n, &whole_m, &whole_n, &batch, &steps, &gridDim.x) == 7) {
        blockDim.x = WARPS * 32;
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const Tiles tiles(TileGrid(Sizes{m, n, steps * 32, batch, whole_m, whole_n}), batch, steps, false);
            TileSegment segment;
            for (int wave = 0; tiles.find(wave, segment); ++wave)
                tell(tiles, false, tiles.corner(segment.tile), segment.count);
            for (int tile = tiles.begin_thin(); tile < tiles.thin; tile += tiles.thin_step())
                tell(tiles, true, tiles.thin_corner(tile), tiles.steps);
        }
        std::printf("\n");
    }
}
