// Included by hopper_product.cuh, whose words it uses: a consumer that stores a tile while it multiplies the next one.
//
// Sums of 16 bits take half the registers of those in float32. So at a tile's end they are rounded and set aside, and
// products of the next tile begin at once. Boxes of C are then written under its first two stages, half under each, so
// that none has to wait for another's store.
#pragma once

constexpr int TILE_BOXES = BLOCK_N / OUT_COLUMNS;

// A thread's place in its warp, found anew at each call: so that nothing that follows from it stays in registers while
// sums want all there are.
#ifndef EMULATED  // an emulation on the CPU brings its own word
__device__ __forceinline__ int lane_again() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
#endif

// A tile that is multiplied, but not stored.
struct Rounded {
    unsigned int pairs[BLOCK_N / 4];
    Work work;
    bool is_there = false;

    __device__ __forceinline__ void set(const HOPPER_SUM (&sums)[BLOCK_N / 2], const Work& its_work) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 4; ++i)
            pairs[i] = narrowed(sums[2 * i], sums[2 * i + 1]);
        work = its_work;
        is_there = true;
    }

    template <int FIRST, int END>
    __device__ __forceinline__ void store(const Places& places, const TensorMap& map, const Sizes& sizes, int consumer,
                                          int& boxes_stored) {
        store_boxes<FIRST, END>(
            places, map, sizes, work, consumer, boxes_stored,
            [&](unsigned int shared, int box, int) { write_pairs(shared, &pairs[box * BOX_PAIRS], lane_again()); });
        if (END == TILE_BOXES) is_there = false;
    }
};

__device__ __forceinline__ void consume(const Shared& at, const TensorMap& map, const Sizes& sizes, Turns& turns,
                                        int consumer) {
    constexpr int HALF = TILE_BOXES / 2;
    Place place;
    Rounded rounded;
    HOPPER_SUM sums[BLOCK_N / 2];
    int boxes_stored = 0;
    while (true) {
        const bool has_work = turns.advance(), goes_on = has_work && is_whole(sizes, turns.work, consumer);
        if (rounded.is_there && !(goes_on && sizes.steps() > 1))
            rounded.store<0, TILE_BOXES>(Places(at, consumer, !has_work), map, sizes, consumer, boxes_stored);
        if (!has_work) return;
        if (goes_on) {
            multiply_stages<BLOCK_N>(at, consumer, sizes.steps(), place, sums, [&](int step) {
                if (step == 0) turns.look_ahead();
                if (!rounded.is_there) return;
                const Places places(at, consumer, false);
                if (step == 0)
                    rounded.store<0, HALF>(places, map, sizes, consumer, boxes_stored);
                else
                    rounded.store<HALF, TILE_BOXES>(places, map, sizes, consumer, boxes_stored);
            });
            rounded.set(sums, turns.work);
        } else {
            consume_part(at, map, sizes, turns, consumer, place, boxes_stored);
        }
    }
}
