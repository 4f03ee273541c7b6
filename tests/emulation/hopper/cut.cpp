// What clusters multiply, as hopper_cut.cuh says: for each line "m n batch stages clusters" of the input, lines "block
// row column item columns tile part first end", then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
#include "hopper_cut.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, stages, clusters;
    while (std::scanf("%d %d %d %d %d", &m, &n, &batch, &stages, &clusters) == 5) {
        gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const CutSchedule<BLOCK_M, BLOCK_N, CLUSTER> tiles(m, n, batch, stages, blockIdx.x % CLUSTER);
            CutWork work;
            for (int wave = 0; tiles.find(wave, work); ++wave)
                std::printf("%u %d %d %d %d %d %d %d %d\n", blockIdx.x, work.row, work.column, work.item, work.columns,
                            work.tile, work.part, work.first, work.end);
        }
        std::printf("\n");
    }
}
