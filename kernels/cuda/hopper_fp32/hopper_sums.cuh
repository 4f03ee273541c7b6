// Included by hopper_fp32.cu: how sums leave a warp, stored in C or handed over to be added up.
#pragma once

// A warp's 64×64, in boxes of 16×32: no other warp takes part.
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                           const Corner& corner, int warp, int lane, const ThreadTile& thread) {
    const unsigned int out = at.base + OUT_OFFSET + warp * OUT_BOXES * OUT_BYTES;
    const int first_row = corner.down * BLOCK_M + warp / WARPS_N * WARP_M;
    const int first_column = corner.across * BLOCK_N + warp % WARPS_N * WARP_N;
#pragma unroll
    for (int box = 0; box < WARP_M / OUT_ROWS * (WARP_N / OUT_COLUMNS); ++box) {
        const int group = box / 2, row = first_row + group * OUT_ROWS, column = first_column + box % 2 * OUT_COLUMNS;
        if (row < sizes.m && column < sizes.n) {
            const unsigned int shared = out + box % OUT_BOXES * OUT_BYTES;
            wait_stores_read<OUT_BOXES - 1>();
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int line = lane % 4 * 4 + i;
                write_four(shared + line * SWIZZLE_BYTES + (lane / 4 ^ line % 8) * 16,
                           thread.sums[4 * group + i] + box % 2 * 4);
            }
            fence_for_copies();
            __syncwarp();
            if (lane == 0) store_box(shared, map, column, row, corner.item);
        }
        commit_stores();  // also of none: groups tell by their number which box is free
    }
    wait_stores_read<0>();
    __syncwarp();
}

// A warp's sums of a piece of a tile that is cut.
struct PartialSums {
    ThreadTile& thread;
    float4* workspace;
    int tile;

    __device__ __forceinline__ float4* of(int sharer) const {
        return workspace + Tiles::place_of(sharer, tile) * (SUMS / 4 * THREADS) + threadIdx.x;
    }

    __device__ __forceinline__ void write(int sharer) const {
        float4* const place = of(sharer);
#pragma unroll
        for (int i = 0; i < SUMS / 4; ++i) {
            const float* const four = thread.sums[i / 2] + i % 2 * 4;
            __stcg(place + i * THREADS, float4{four[0], four[1], four[2], four[3]});
        }
    }

    __device__ __forceinline__ void add(int sharer) const {
        const float4* const place = of(sharer);
#pragma unroll
        for (int i = 0; i < SUMS / 4; ++i) {
            float* const four = thread.sums[i / 2] + i % 2 * 4;
            const float4 more = __ldcg(place + i * THREADS);
            four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
        }
    }

    __device__ __forceinline__ void clear() const { thread = ThreadTile(); }
};
