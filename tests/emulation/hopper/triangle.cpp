// The tiles of a symmetric product that resident blocks compute, as hopper_triangle.cuh says: for each line "n clusters"
// of the input and each shape of a tile, lines "block row column columns", then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
//
#include "hopper_triangle.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

template <int ROWS, int COLUMNS, int CLUSTER>
void print(int n, int clusters) {
    gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        const TriangleSchedule<ROWS, COLUMNS, CLUSTER, 8> schedule(n, n, 1, blockIdx.x % CLUSTER);
        Work work;
        for (int wave = 0; schedule.find(wave, work); ++wave)
            std::printf("%u %d %d %d\n", blockIdx.x, work.row, work.column, work.columns);
    }
    std::printf("\n");
}

int main() {
    int n, clusters;
    while (std::scanf("%d %d", &n, &clusters) == 2) {
        print<128, 256, 2>(n, clusters);
        print<128, 192, 2>(n, clusters);
        print<128, 128, 2>(n, clusters);
        print<128, 128, 1>(n, clusters);
        print<128, 64, 1>(n, clusters);
        print<128, 192, 1>(n, clusters);
        print<128, 256, 1>(n, clusters);
    }
}
