// Included by hopper_fp32.cu, whose sizes and places in shared memory it uses.
#pragma once

// The loads of stages that are still to be issued. In shared memory, where they take no registers of threads that
// multiply.
struct Loads {
    int wave, depth, left;  // left: steps of the present segment
    int row, column, item_a, item_b;
    PipelineState<STAGES> place;
};

struct Notes {
    Tiles tiles;
    Loads loads;
    unsigned int near_end[STAGES];  // warps that came near the end of a stage, over all of its uses
};

// Begins with this block's next segment, if there is one.
__device__ __forceinline__ bool next_segment(const Tiles& tiles, const Sizes& sizes, Loads& loads) {
    TileSegment segment;
    if (!tiles.find(loads.wave, segment)) return false;
    const Corner corner = tiles.corner(segment.tile);
    ++loads.wave;
    loads.depth = segment.first * BLOCK_K;
    loads.left = segment.count;
    loads.row = corner.down * BLOCK_M;
    loads.column = corner.across * BLOCK_N;
    loads.item_a = sizes.items_a > 1 ? corner.item : 0;
    loads.item_b = sizes.items_b > 1 ? corner.item : 0;
    return true;
}

// Starts the copies of one stage after the other, through all segments of this block; k is not 0.
__device__ __forceinline__ void load_stage(Notes& notes, const Shared& at, const TensorMap& map_a,
                                           const TensorMap& map_b, const Sizes& sizes) {
    Loads loads = notes.loads;
    if (loads.left == 0 && !next_segment(notes.tiles, sizes, loads)) return;
    const int stage = loads.place.stage;
    const unsigned int full = at.full(stage);
    wait_barrier(at.empty(stage), loads.place.parity ^ 1);
    arrive_expecting(full, STAGE_BYTES);
#pragma unroll
    for (int box = 0; box < A_BOXES; ++box)
        load_box(at.a(stage) + box * BOX_BYTES, map_a, full, loads.row + box * BOX, loads.depth, loads.item_a);
#pragma unroll
    for (int box = 0; box < B_BOXES; ++box)
        load_box(at.b(stage) + box * BOX_BYTES, map_b, full, loads.column + box * BOX, loads.depth, loads.item_b);
    loads.depth += BLOCK_K;
    --loads.left;
    loads.place.advance();
    notes.loads = loads;
}

// To issue a stage's loads takes some hundred clocks, in which a warp multiplies nothing. Were it always the same warp,
// it would fall behind, and all others would wait for its loads. So the warp that comes first to a stage's last stretch
// issues them at its end.
__device__ __forceinline__ bool is_ahead(Notes& notes, int stage) {
    return atomicAdd(&notes.near_end[stage], 1u) % WARPS == 0;
}

// One after the other, in the order of stages: each sees the notes of the one before.
__device__ __forceinline__ void load_in_order(Notes& notes, const Shared& at, const TensorMap& map_a,
                                              const TensorMap& map_b, const Sizes& sizes,
                                              const PipelineState<STAGES>& done) {
    const bool wraps = done.stage == 0;
    wait_barrier(at.issued(wraps ? STAGES - 1 : done.stage - 1), done.parity ^ wraps);
    load_stage(notes, at, map_a, map_b, sizes);
    arrive(at.issued(done.stage));
}
