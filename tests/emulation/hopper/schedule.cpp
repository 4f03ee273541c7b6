// The tiles that resident blocks compute, as hopper_schedule.cuh says: for each line "m n batch clusters" of the input,
// lines "block wave row column item columns", then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words

#include "hopper_schedule.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, clusters;
    while (std::scanf("%d %d %d %d", &m, &n, &batch, &clusters) == 4) {
        gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const Schedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M, LESS> schedule(m, n, batch, blockIdx.x % CLUSTER);
            Work work;
            for (int wave = 0; schedule.find(wave, work); ++wave)
                std::printf("%u %d %d %d %d %d\n", blockIdx.x, wave, work.row, work.column, work.item, work.columns);
        }
        std::printf("\n");
    }
}
