// Included by hopper_fp32.cu, whose sizes and places in shared memory it uses.
#pragma once

// Starts the copies of one stage after the other, through all pieces of this block. One thread does so, between its
// multiply-adds.
struct Feed {
    Tiles tiles;
    Piece piece = {};
    RingPlace<STAGES> place;
    bool more = true;

    __device__ __forceinline__ explicit Feed(const Tiles& tiles) : tiles(tiles) {}

    __device__ __forceinline__ void next_stage(const Shared& at, const TensorMap& map_a, const TensorMap& map_b,
                                               const Sizes& sizes) {
        while (more && piece.count == 0)
            more = tiles.next(piece) && sizes.k > 0;
        if (!more) return;
        const Corner corner = tiles.corner(piece.tile);
        const int boxes = min(B_BOXES, (sizes.n - corner.column + BOX_COLUMNS - 1) / BOX_COLUMNS);
        const int item_a = sizes.items_a > 1 ? corner.item : 0, item_b = sizes.items_b > 1 ? corner.item : 0;
        const int depth = piece.first * BLOCK_K;
        const unsigned int full = at.full(place.stage);
        wait_barrier(at.empty(place.stage), place.parity ^ 1);
        arrive_expecting(full, A_BYTES + boxes * B_BOX_BYTES);
        load_box(at.a(place.stage), map_a, full, depth, corner.row, item_a);
        for (int box = 0; box < boxes; ++box)
            load_box(at.b(place.stage, box), map_b, full, corner.column + box * BOX_COLUMNS, depth, item_b);
        ++piece.first;
        --piece.count;
        place.advance();
    }
};
