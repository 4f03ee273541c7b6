// Where a warpgroup's threads write sums, as hopper_fragments.cuh says: lines "warp lane row place" of the first eight
// rows. Words of B are read from such places too; of bytes, what addresses a thread gives: lines "warp lane place" of
// the second consumer, after those.
#include <cstdio>

#include "hopper_mma_emulated.hpp"  // before the source: it has no other words

#define HOPPER_SUM emulated::Sum
#define HOPPER_TRANSPOSED
#include "hopper_across.cuh"

int main() {
    for (int warp = 0; warp < WARPGROUP / warpSize; ++warp)
        for (int lane = 0; lane < warpSize; ++lane)
            for (int row = 0; row < 8; ++row)
                std::printf("%d %d %d %d\n", warp, lane, row, Pair(warp, lane).place(row));
#ifdef DTYPE_INT8
    for (int warp = 0; warp < WARPGROUP / warpSize; ++warp)
        for (int lane = 0; lane < warpSize; ++lane)
            std::printf("%d %d %d\n", warp, lane, Fragments<1>(1, warp, lane).place);
#endif
}
