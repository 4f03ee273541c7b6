// Included by hopper_fp32.cu: how sums leave a warp, stored in C or handed over to be added up.
#pragma once

// A warp's 64×64, in boxes of 16×32: no other warp takes part.
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                           const Corner& corner, int warp, int lane, const Thread& thread) {
    const unsigned int out = at.base + OUT_OFFSET + warp * OUT_BOXES * OUT_BYTES;
    const int first_row = corner.row + warp / WARPS_N * WARP_M, first_column = corner.column + warp % WARPS_N * WARP_N;
#pragma unroll
    for (int box = 0; box < WARP_M / OUT_ROWS * (WARP_N / BOX_COLUMNS); ++box) {
        const int group = box / 2, row = first_row + group * OUT_ROWS, column = first_column + box % 2 * BOX_COLUMNS;
        if (row >= sizes.m || column >= sizes.n) continue;
        const unsigned int shared = out + box % OUT_BOXES * OUT_BYTES;
        wait_stores_read<OUT_BOXES - 1>();
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int line = lane % 4 + 4 * i;
            write_four(shared + line * SWIZZLE_BYTES + (lane / 4 ^ line % 8) * 16,
                       thread.sums[4 * group + i] + box % 2 * 4);
        }
        fence_for_copies();
        __syncwarp();
        if (lane == 0) store_box(shared, map, column, row, corner.item);
        commit_stores();
    }
    wait_stores_read<0>();
    __syncwarp();
}

// Hands over this warp's sums of a piece; true in the warp that comes last, with the sums of all pieces, added in the
// order of k. Warps of a tile do so independently: a warp's part of C is the same in every block.
__device__ __forceinline__ bool add_up(Thread& thread, const Tiles& tiles, const Piece& piece, unsigned char* workspace,
                                       int index) {
    unsigned int* const arrived = reinterpret_cast<unsigned int*>(workspace) + piece.tile * WARPS + index / 32;
    float* const partial = reinterpret_cast<float*>(workspace + gridDim.x * WARPS * sizeof(unsigned int)) + index;
    const Sharers sharers = tiles.sharers_of(piece.tile);
    const auto place_of = [&](int sharer) { return partial + tiles.place_of(sharer, piece.tile) * (SUMS * THREADS); };
    float* const mine = place_of(blockIdx.x);
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
        __stcg(mine + i * THREADS, thread.sums[i / COLUMNS][i % COLUMNS]);
    __threadfence();
    __syncwarp();
    unsigned int before = 0;
    if (index % 32 == 0) before = atomicAdd(arrived, 1u);
    if (__shfl_sync(0xffffffffu, before, 0) != static_cast<unsigned int>(sharers.last - sharers.first)) return false;
    __threadfence();
    thread = Thread();
    for (int sharer = sharers.first; sharer <= sharers.last; ++sharer) {
        const float* const its = place_of(sharer);
#pragma unroll
        for (int i = 0; i < SUMS; ++i)
            thread.sums[i / COLUMNS][i % COLUMNS] += __ldcg(its + i * THREADS);
    }
    return true;
}
