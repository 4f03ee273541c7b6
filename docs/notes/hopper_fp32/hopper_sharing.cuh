// How resident blocks share out the tiles of C. Whole tiles go round. What would fill only part of a last turn is cut
// along k into as many equal shares as there are blocks, which thus end together ("stream-K", Osama et al. 2023).
#pragma once

struct Sizes {
    int m, n, k, batch;
    int items_a, items_b;  // matrices in an operand: one may serve the whole batch
};

// Steps of k of one tile of C.
struct Piece {
    int tile, first, count;
    bool is_cut;  // others have the rest
};

struct Corner {
    int item, row, column;
};

struct Sharers {
    int first, last;  // blocks
};

template <int TILE_ROWS, int TILE_COLUMNS>
struct Sharing {
    static constexpr int RASTER = 8;   // rows of tiles that are taken together, for the second-level cache
    static constexpr int SHORTEST = 4;  // steps: a shorter share costs more than it saves

    int down, across, tiles, steps;
    int cut, shares;  // so many tiles, the first ones, are cut into so many shares
    int at, end;      // of this block's share, in steps of the tiles that are cut
    int whole;        // its next whole tile

    // The launch sees to it that the batch has fewer than 2^31 tiles, and the tiles of a turn fewer steps.
    __device__ __forceinline__ Sharing(int m, int n, int batch, int steps)
        : down((m - 1) / TILE_ROWS + 1), across((n - 1) / TILE_COLUMNS + 1), steps(steps) {
        const int blocks = gridDim.x, block = blockIdx.x;
        tiles = down * across * batch;
        const int rest = tiles % blocks;
        const bool pays = static_cast<long long>(blocks - rest) * steps > 2ll * blocks;  // else the turn is nearly full
        cut = pays && steps > 0 ? rest : 0;
        const long long most = static_cast<long long>(cut) * steps / SHORTEST;
        shares = cut == 0 ? 0 : static_cast<int>(most < cut ? cut : most < blocks ? most : blocks);
        at = block < shares ? begin_of(block) : 0;
        end = block < shares ? begin_of(block + 1) : 0;
        whole = cut + block;
    }

    __device__ __forceinline__ bool next(Piece& piece) {
        if (at < end) {
            const int tile = at / steps, first = at % steps, count = min(steps - first, end - at);
            piece = {tile, first, count, count < steps};
            at += count;
            return true;
        }
        piece = {whole, 0, steps, false};
        whole += gridDim.x;
        return piece.tile < tiles;
    }

    __device__ __forceinline__ Corner corner(int tile) const {
        const int of_item = down * across, item = tile / of_item, within = tile % of_item;
        const int first = within / (RASTER * across) * RASTER, height = min(RASTER, down - first);
        const int place = within - first * across;
        return {item, (first + place % height) * TILE_ROWS, place / height * TILE_COLUMNS};
    }

    __device__ __forceinline__ Sharers sharers_of(int tile) const {
        return {sharer_of(static_cast<long long>(tile) * steps), sharer_of(static_cast<long long>(tile + 1) * steps - 1)};
    }

    // Among the places for sums of cut tiles: a share is part of two tiles at most.
    __device__ __forceinline__ int place_of(int sharer, int tile) const {
        return 2 * sharer + (begin_of(sharer) < tile * steps);
    }

private:
    __device__ __forceinline__ int begin_of(int share) const {
        return static_cast<int>(static_cast<long long>(share) * cut * steps / shares);
    }

    __device__ __forceinline__ int sharer_of(long long step) const {
        return static_cast<int>(((step + 1) * shares - 1) / (static_cast<long long>(cut) * steps));
    }
};
