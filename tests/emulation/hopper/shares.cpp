// What resident blocks compute, as dmma_sharing.cuh says: input and output like sharing.cpp's.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
//
#include "dmma_sharing.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, steps, light;
    while (std::scanf("%d %d %d %d %u %d", &m, &n, &batch, &steps, &gridDim.x, &light) == 6) {
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            Share share((m - 1) / BLOCK_M + 1, (n - 1) / BLOCK_N + 1, batch, steps);
            Piece piece;
            while (share.next(piece)) {
                const Corner corner = share.corner(piece.tile);
                const Sharers sharers = piece.is_cut ? share.sharers_of(piece.tile) : Sharers{-1, -1};
                const int place = piece.is_cut ? Tiles::place_of(blockIdx.x, piece.tile) : -1;
                std::printf("%u %d %d %d %d %d %d %d %d\n", blockIdx.x, corner.item, corner.down * BLOCK_M,
                            corner.across * BLOCK_N, piece.first, piece.count, place, sharers.first, sharers.last);
            }
        }
        std::printf("\n");
    }
}
