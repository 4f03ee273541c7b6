// Where a warp's 32-bit sums go in a box of C, as hopper_box.cuh says: lines "lane store place first second", sums being
// numbered in each thread.
#include <cstdio>

#include "emulated.hpp"  // before the source: it has no other words

#include "hopper_box.cuh"

int main() {
    int sums[16];
    for (int i = 0; i < 16; ++i)
        sums[i] = i;
    for (int lane = 0; lane < warpSize; ++lane) {
        int stores = 0;
        place_sums(sums, lane, [lane, &stores](int place, int first, int second) {
            std::printf("%d %d %d %d %d\n", lane, stores++, place, first, second);
        });
    }
}
