// What resident blocks compute, as hopper_sharing.cuh says: for each line "m n batch steps blocks" of the input, lines
// "block item row column first count place sharers" (of pieces that are cut their place and first and last sharer, else
// -1), then an empty one.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words
#include "hopper_sharing.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int m, n, batch, steps;
    while (std::scanf("%d %d %d %d %u", &m, &n, &batch, &steps, &gridDim.x) == 5) {
        typedef Sharing<BLOCK_M, BLOCK_N> Tiles;
        const Tiles tiles(m, n, batch, steps);
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            Piece piece;
            for (int turn = 0; tiles.find(turn, piece); ++turn) {
                const Corner corner = tiles.corner(piece.tile);
                const Sharers sharers = piece.is_cut ? tiles.sharers_of(piece.tile) : Sharers{-1, -1};
                const int place = piece.is_cut ? Tiles::place_of(blockIdx.x, piece.tile) : -1;
                std::printf("%u %d %d %d %d %d %d %d %d\n", blockIdx.x, corner.item, corner.row, corner.column,
                            piece.first, piece.count, place, sharers.first, sharers.last);
            }
        }
        std::printf("\n");
    }
}
