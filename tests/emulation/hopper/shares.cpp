// What resident blocks compute, as dmma_stream_k.cuh says: input and output like stream_k.cpp's.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
//
#include "dmma_stream_k.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, steps, light;
    while (std::scanf("%d %d %d %d %u %d", &m, &n, &batch, &steps, &gridDim.x, &light) == 6) {
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            WorkShare share((m - 1) / BLOCK_M + 1, (n - 1) / BLOCK_N + 1, batch, steps);
            TileSegment segment;
            while (share.next(segment)) {
                const Corner corner = share.corner(segment.tile);
                const Sharers sharers = segment.is_cut ? share.sharers_of(segment.tile) : Sharers{-1, -1};
                const int place = segment.is_cut ? Tiles::place_of(blockIdx.x, segment.tile) : -1;
                std::printf("%u %d %d %d %d %d %d %d %d\n", blockIdx.x, corner.item, corner.down * BLOCK_M,
                            corner.across * BLOCK_N, segment.first, segment.count, place, sharers.first, sharers.last);
            }
        }
        std::printf("\n");
    }
}
