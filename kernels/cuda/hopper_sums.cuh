// Included by hopper_fp32.cu: how sums leave a warp, stored in C or handed over to be added up.
#pragma once

// A warp's 64×64, in boxes of 16×32: no other warp takes part.
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                           const Corner& corner, int warp, int lane, const Thread& thread) {
    const unsigned int out = at.base + OUT_OFFSET + warp * OUT_BOXES * OUT_BYTES;
    const int first_row = corner.row + warp / WARPS_N * WARP_M, first_column = corner.column + warp % WARPS_N * WARP_N;
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

// Hands over this warp's sums of a piece; true in the warp that comes last, with the sums of all pieces, added in the
// order of k. Nobody waits for another: who is last does the rest. Warps of a tile do so independently, since a warp's
// part of C is the same in every block. The workspace begins with a counter, zero at first, for each of them.
__device__ __forceinline__ bool add_up(Thread& thread, const Tiles& tiles, const Piece& piece, unsigned char* workspace,
                                       int index) {
    unsigned int* const arrived = reinterpret_cast<unsigned int*>(workspace) + piece.tile * WARPS + index / 32;
    float4* const sums = reinterpret_cast<float4*>(workspace + gridDim.x * WARPS * sizeof(unsigned int)) + index;
    const auto of_sharer = [&](int sharer) {
        return sums + Tiles::place_of(sharer, piece.tile) * (SUMS / 4 * THREADS);
    };
    const Sharers sharers = tiles.sharers_of(piece.tile);
    float4* const mine = of_sharer(blockIdx.x);
#pragma unroll
    for (int i = 0; i < SUMS / 4; ++i) {
        const float* const four = thread.sums[i / 2] + i % 2 * 4;
        __stcg(mine + i * THREADS, float4{four[0], four[1], four[2], four[3]});
    }
    __threadfence();
    __syncwarp();
    unsigned int before = 0;
    if (index % 32 == 0) before = atomicAdd(arrived, 1u);
    if (__shfl_sync(0xffffffffu, before, 0) != static_cast<unsigned int>(sharers.last - sharers.first)) return false;
    __threadfence();
    thread = Thread();
    for (int sharer = sharers.first; sharer <= sharers.last; ++sharer) {
        const float4* const its = of_sharer(sharer);
#pragma unroll
        for (int i = 0; i < SUMS / 4; ++i) {
            float* const four = thread.sums[i / 2] + i % 2 * 4;
            const float4 more = __ldcg(its + i * THREADS);
            four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
        }
    }
    return true;
}
