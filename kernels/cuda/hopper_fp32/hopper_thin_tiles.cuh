// Included by hopper_fp32.cu: a block's way through its thin tiles (hopper_thin.cuh). Copies have a ring of their own,
// where whole tiles had theirs: of boxes of lines, and of vectors in one box's place.
#pragma once

// Stages whose loads are issued before they are multiplied. The ring has two slots more, so that a warp that issues
// loads does not wait for others that do.
constexpr int THIN_AHEAD = THIN_SLOTS - 2;
constexpr int SLOT_BYTES = SLOT_BOXES * BOX_BYTES;
static_assert(THIN_SLOTS * VECTORS_BYTES * BLOCK_K <= BOX_BYTES, "vectors of all slots in one box");
static_assert(THIN_AHEAD <= WARPS, "each warp loads one stage before the first");

struct ThinRing {
    Shared at;

    __device__ __forceinline__ unsigned int full(int slot) const { return at.base + THIN_OFFSET + slot * 8; }
    __device__ __forceinline__ unsigned int empty(int slot) const { return full(THIN_SLOTS + slot); }
    __device__ __forceinline__ unsigned int lines(int slot) const { return at.base + slot * SLOT_BYTES; }
    __device__ __forceinline__ unsigned int vectors(int slot) const {
        return at.base + THIN_SLOTS * SLOT_BYTES + slot * VECTORS_BYTES * BLOCK_K;
    }

    // In one thread.
    __device__ __forceinline__ void begin() const {
        for (int slot = 0; slot < THIN_SLOTS; ++slot) {
            init_barrier(full(slot), 1);
            init_barrier(empty(slot), WARPS);
        }
        publish_barriers();
    }
};

// Tensor maps: of operands in boxes of lines, and in boxes of vectors, which are few lines.
struct ThinMaps {
    const TensorMap &a, &b, &vectors_a, &vectors_b;
};

// Warps take turns in issuing loads, since that takes longer than a stage's products: each loads every WARPS-th stage
// of the block, of all its tiles one after the other.
struct ThinLoads {
    int number, step = 0, stage = 0;  // the tile, its stage, and that of the block
    Corner corner;
    PipelineState<THIN_SLOTS> place;

    __device__ __forceinline__ ThinLoads(const Tiles& tiles, int warp)
        : number(tiles.begin_thin()), corner(tiles.thin_corner(number)) {
        advance(tiles, warp);
    }

    __device__ __forceinline__ void advance(const Tiles& tiles, int stages) {
        stage += stages;
        for (int i = 0; i < stages; ++i)
            place.advance();
        for (step += stages; step >= tiles.steps && number < tiles.thin; step -= tiles.steps) {
            number += tiles.thin_step();
            corner = tiles.thin_corner(number);
        }
    }

    __device__ __forceinline__ void load(const Tiles& tiles, const ThinRing& ring, const ThinMaps& maps,
                                         const Sizes& sizes) {
        if (number < tiles.thin) {
            const ThinTile tile(tiles, sizes, corner);
            const TensorMap &lines = tile.wide ? maps.b : maps.a,
                            &vectors = tile.wide ? maps.vectors_a : maps.vectors_b;
            const int item_a = sizes.items_a > 1 ? corner.item : 0, item_b = sizes.items_b > 1 ? corner.item : 0;
            const int first = tile.wide ? tile.column : tile.row, slot = place.stage;
            const unsigned int full = ring.full(slot);
            wait_barrier(ring.empty(slot), place.parity ^ 1);
            arrive_expecting(full, tile.boxes() * BOX_BYTES + VECTORS_BYTES * BLOCK_K);
            for (int box = 0; box < tile.boxes(); ++box)
                load_box(ring.lines(slot) + box * BOX_BYTES, lines, full, first + box * BOX, step * BLOCK_K,
                         tile.wide ? item_b : item_a);
            load_box(ring.vectors(slot), vectors, full, tile.wide ? tile.row : tile.column, step * BLOCK_K,
                     tile.wide ? item_a : item_b);
        }
        advance(tiles, WARPS);
    }
};

__device__ __forceinline__ void multiply_thin_tiles(const ThinRing& ring, const Tiles& tiles, const ThinMaps& maps,
                                                    const TensorMap& map_c, const Sizes& sizes) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    ThinLoads next(tiles, warp);
    PipelineState<THIN_SLOTS> place;
    if (threadIdx.x == 0) ring.begin();
    __syncthreads();  // nobody is still at a whole tile
    if (lane == 0 && warp < THIN_AHEAD) next.load(tiles, ring, maps, sizes);
    int stage = 0;
    for (int number = tiles.begin_thin(); number < tiles.thin; number += tiles.thin_step()) {
        const Corner corner = tiles.thin_corner(number);
        const ThinTile tile(tiles, sizes, corner);
        const int step = tile.step_of(warp), of_lines = tile.box_of(warp) * BOX_BYTES + step * ROW_BYTES + lane * 16;
        float sums[MAX_VECTORS][LINES] = {}, line[MAX_VECTORS];
        for (const int end = stage + tiles.steps; stage < end; ++stage) {
            if (lane == 0 && next.stage == stage + THIN_AHEAD) next.load(tiles, ring, maps, sizes);
            __syncwarp();
            wait_barrier(ring.full(place.stage), place.parity);
            const unsigned int lines = ring.lines(place.stage) + of_lines;
            const unsigned int vectors = ring.vectors(place.stage) + step * VECTORS_BYTES;
            if (A_BOXES != B_BOXES && tile.boxes() == 2)
                add_steps<2 * BLOCK_K / WARPS>(tile.vectors, lines, vectors, sums);
            else
                add_steps<BLOCK_K / WARPS>(tile.vectors, lines, vectors, sums);
            __syncwarp();
            if (lane == 0) arrive(ring.empty(place.stage));
            place.advance();
        }
        add_warps(ring.at, tile, warp, lane, sums, line);
        store_lines(ring.at, map_c, sizes, corner.item, tile, warp, lane, line);
        __syncthreads();  // boxes of C are read before others' sums come there
    }
}
