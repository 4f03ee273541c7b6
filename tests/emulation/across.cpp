// Where a warpgroup's threads read words of B and write sums, as hopper_across.cuh says: lines "warp lane row place"
// of the first eight rows.
#include <cstdio>

#include "hopper_mma_emulated.hpp"  // before the source: it has no other words

#define HOPPER_SUM float
#define HOPPER_TURNED
#include "hopper_across.cuh"

int main() {
    for (int warp = 0; warp < WARPGROUP / warpSize; ++warp)
        for (int lane = 0; lane < warpSize; ++lane)
            for (int row = 0; row < 8; ++row)
                std::printf("%d %d %d %d\n", warp, lane, row, Pair(warp, lane).place(row));
}
