// Included by hopper_product.cuh, whose words it uses: how sums leave a consumer for C.
#pragma once

// Whether a consumer multiplies all columns of the tile. The shorter tiles are those of 64 and of 128 columns.
__device__ __forceinline__ bool is_whole(const Sizes& sizes, const Work& work, int consumer) {
    const int columns = sizes.n - work.column;
    return work.row + consumer * BOX < sizes.m && (BLOCK_N <= 64 || columns > 64) && (BLOCK_N <= 128 || columns > 128);
}

// Where a warp writes boxes of C, each in turn with the others of its own. After the block's last tile no copy comes to
// the ring any more: there a consumer's boxes of A are free, and more stores can be under way.
struct Places {
    unsigned int first;
    int apart, count;

    __device__ __forceinline__ Places(const Shared& at, int consumer, bool is_last) {
        const int warp = threadIdx.x / 32 % 4;
        first = is_last ? at.a(0, consumer) + warp * OUT_BYTES
                        : at.base + OUT_OFFSET + (consumer * 4 + warp) * OUT_BOXES * OUT_BYTES;
        apart = is_last ? STAGE_BYTES : OUT_BYTES;
        count = is_last ? STAGES : OUT_BOXES;
        if (is_last) meet(1 + consumer, WARPGROUP);  // other warps may still multiply what this one is to overwrite
    }
};

// Boxes FIRST to END - 1 of a warp's 16 rows of a tile: `write(shared, box, lane)` fills one. No other thread takes
// part.
template <int FIRST, int END, typename Write>
__device__ __forceinline__ void store_boxes(const Places& places, const TensorMap& map, const Sizes& sizes,
                                            const Work& work, int consumer, int& boxes_stored, Write write) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = work.row + consumer * BOX + warp * 16;
    if (row >= sizes.m) return;
#pragma unroll
    for (int box = FIRST; box < END; ++box) {
        const int column = work.column + box * OUT_COLUMNS;
        if (column >= sizes.n) break;
        const unsigned int shared = places.first + boxes_stored++ % places.count * places.apart;
        if (places.count == OUT_BOXES)
            wait_stores_read<OUT_BOXES - 1>();
        else
            wait_stores_read<STAGES - 1>();
        __syncwarp();
        write(shared, box, lane);
        fence_for_copies();
        __syncwarp();
        if (lane == 0) store_c_box(shared, map, column, row, work.item);
        commit_stores();
    }
}

template <int N>
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes, const Work& work,
                                           int consumer, bool is_last, int& boxes_stored,
                                           const HOPPER_SUM (&sums)[N / 2]) {
    store_boxes<0, N / OUT_COLUMNS>(
        Places(at, consumer, is_last), map, sizes, work, consumer, boxes_stored,
        [&](unsigned int shared, int box, int lane) { write_box(shared, &sums[box * OUT_COLUMNS / 2], lane); });
}
