// What clusters multiply, as hopper_cut.cuh says: for each line "m n batch stages clusters" of the input, lines "block row
// column item columns tile first count place sharers" (place, and first and last sharer, of parts of tiles, else -1), then
// an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words

#include "hopper_cut.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, stages, clusters;
    while (std::scanf("%d %d %d %d %d", &m, &n, &batch, &stages, &clusters) == 5) {
        gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            typedef CutSchedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> Tiles;
            const Tiles tiles(m, n, batch, stages, blockIdx.x % CLUSTER);
            CutWork work;
            for (int wave = 0; tiles.find(wave, work); ++wave) {
                const auto [tile, first, count, is_cut] = work.segment;
                const Sharers sharers = is_cut ? tiles.sharers_of(tile) : Sharers{-1, -1};
                const int place = is_cut ? Tiles::place_of(tiles.id, tile) : -1;
                std::printf("%u %d %d %d %d %d %d %d %d %d %d\n", blockIdx.x, work.row, work.column, work.item,
                            work.columns, tile, first, count, place, sharers.first, sharers.last);
            }
        }
        std::printf("\n");
    }
}
