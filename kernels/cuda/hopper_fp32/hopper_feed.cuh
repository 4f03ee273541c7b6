// Included by hopper_fp32.cu, whose sizes and places in shared memory it uses.
#pragma once

// What is still to be copied. It lies in shared memory, so that it takes none of the registers of those who multiply.
struct Feed {
    int wave, depth, left;  // left: steps of the present segment
    int row, column, item_a, item_b;
    PipelineState<STAGES> place;
};

struct Notes {
    Tiles tiles;
    Feed feed;
    unsigned int near_end[STAGES];  // warps that came near the end of a stage, over all of its uses
};

// Begins with this block's next segment, if there is one.
__device__ __forceinline__ bool next_piece(const Tiles& tiles, const Sizes& sizes, Feed& feed) {
    TileSegment segment;
    if (!tiles.find(feed.wave, segment)) return false;
    const Corner corner = tiles.corner(segment.tile);
    ++feed.wave;
    feed.depth = segment.first * BLOCK_K;
    feed.left = segment.count;
    feed.row = corner.down * BLOCK_M;
    feed.column = corner.across * BLOCK_N;
    feed.item_a = sizes.items_a > 1 ? corner.item : 0;
    feed.item_b = sizes.items_b > 1 ? corner.item : 0;
    return true;
}

// Starts the copies of one stage after the other, through all segments of this block; k is not 0.
__device__ __forceinline__ void feed_stage(Notes& notes, const Shared& at, const TensorMap& map_a,
                                           const TensorMap& map_b, const Sizes& sizes) {
    Feed feed = notes.feed;
    if (feed.left == 0 && !next_piece(notes.tiles, sizes, feed)) return;
    const int stage = feed.place.stage;
    const unsigned int full = at.full(stage);
    wait_barrier(at.empty(stage), feed.place.parity ^ 1);
    arrive_expecting(full, STAGE_BYTES);
#pragma unroll
    for (int box = 0; box < A_BOXES; ++box)
        load_box(at.a(stage) + box * BOX_BYTES, map_a, full, feed.row + box * BOX, feed.depth, feed.item_a);
#pragma unroll
    for (int box = 0; box < B_BOXES; ++box)
        load_box(at.b(stage) + box * BOX_BYTES, map_b, full, feed.column + box * BOX, feed.depth, feed.item_b);
    feed.depth += BLOCK_K;
    --feed.left;
    feed.place.advance();
    notes.feed = feed;
}

// Feeding takes some hundred clocks in which a warp multiplies nothing. Were it always the same warp, it would fall
// behind, and all others would wait for what it has yet to ask for. So whoever comes first to a stage's last stretch
// feeds at its end.
__device__ __forceinline__ bool comes_first(Notes& notes, int stage) {
    return atomicAdd(&notes.near_end[stage], 1u) % WARPS == 0;
}

// One after the other, in the order of stages: who feeds next sees the notes of who fed before.
__device__ __forceinline__ void feed_in_turn(Notes& notes, const Shared& at, const TensorMap& map_a,
                                             const TensorMap& map_b, const Sizes& sizes,
                                             const PipelineState<STAGES>& done) {
    const bool wraps = done.stage == 0;
    wait_barrier(at.fed(wraps ? STAGES - 1 : done.stage - 1), done.parity ^ wraps);
    feed_stage(notes, at, map_a, map_b, sizes);
    arrive(at.fed(done.stage));
}
