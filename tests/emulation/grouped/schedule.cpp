// The tiles of a grouped product that resident blocks compute, as hopper_grouped.cuh says: for each line "n clusters
// groups" of the input, then for each group and once more "tile row", lines "block wave row column columns group end
// apart", then an empty one.
#include <cstdio>
#include <vector>

#include "emulated.hpp"  // before the source: it has no other words
#include "hopper_grouped.cuh"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

int main() {
    int n, clusters, count;
    while (std::scanf("%d %d %d", &n, &clusters, &count) == 3) {
        std::vector<GroupStart> groups(count + 1);
        for (GroupStart& group : groups)
            if (std::scanf("%d %d", &group.tile, &group.row) != 2) return 1;
        gridDim = {static_cast<unsigned int>(clusters * CLUSTER), 1, 1};
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
            const GroupedSchedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> schedule(groups.data(), n, count,
                                                                               blockIdx.x % CLUSTER);
            Work work;
            for (int wave = 0; schedule.find(wave, work); ++wave)
                std::printf("%u %d %d %d %d %d %d %d\n", blockIdx.x, wave, work.row, work.column, work.columns,
                            work.group, work.end, work.apart);
        }
        std::printf("\n");
    }
}
