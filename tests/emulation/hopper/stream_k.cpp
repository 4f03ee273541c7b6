// What resident blocks compute, as stream_k.cuh says: for each line "m n batch steps blocks light" of the input, lines
// "block item row column first count place sharers" (of segments that are cut their place and first and last sharer, else
// -1), then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
//
#include "stream_k.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, steps, light;
    while (std::scanf("%d %d %d %d %u %d", &m, &n, &batch, &steps, &gridDim.x, &light) == 6) {
        typedef Sharing<4, 2, 1> Tiles;
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const Tiles tiles((m - 1) / BLOCK_M + 1, (n - 1) / BLOCK_N + 1, batch, steps, light);
            TileSegment segment;
            for (int wave = 0; tiles.find(wave, segment); ++wave) {
                const Corner corner = tiles.corner(segment.tile);
                const Sharers sharers = segment.is_cut ? tiles.sharers_of(segment.tile) : Sharers{-1, -1};
                const int place = segment.is_cut ? Tiles::place_of(blockIdx.x, segment.tile) : -1;
                std::printf("%u %d %d %d %d %d %d %d %d\n", blockIdx.x, corner.item, corner.down * BLOCK_M,
                            corner.across * BLOCK_N, segment.first, segment.count, place, sharers.first, sharers.last);
            }
        }
        std::printf("\n");
    }
}
