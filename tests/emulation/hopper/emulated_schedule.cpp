// What clusters of `fp32_emulated` multiply, as emulated_schedule.cuh says: for each line "m n batch steps clusters" of the
// input, lines "block row column item part first end", then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words

constexpr int LINES = 128;
#include "emulated_schedule.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, steps, clusters;
    while (std::scanf("%d %d %d %d %d", &m, &n, &batch, &steps, &clusters) == 5) {
        gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const TileSchedule tiles(m, n, batch, blockIdx.x % CLUSTER);
            TileWork work;
            for (int wave = 0; tiles.find(wave, steps, work); ++wave)
                std::printf("%u %d %d %d %d %d %d\n", blockIdx.x, work.row, work.column, work.item, tiles.id, work.first,
                            work.end);
        }
        std::printf("\n");
    }
}
