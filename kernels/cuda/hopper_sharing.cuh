// How resident blocks share out the tiles of C. Whole tiles go round. What would fill only part of a last turn is cut
// along k into as many equal shares as there are blocks, which thus end together ("stream-K", Osama et al. 2023).
#pragma once

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
    static constexpr int RASTER = 8;    // rows of tiles that are taken together, for the second-level cache
    static constexpr int SHORTEST = 4;  // steps: a shorter share costs more than it saves
    static constexpr int COST = 2;      // steps in whose time cut tiles are put together

    int down, across, tiles, steps;
    int cut, shares;  // so many tiles, the first ones, are cut into so many shares

    // The launch sees to it that the batch has fewer than 2^31 tiles.
    __device__ __forceinline__ Sharing(int m, int n, int batch, int steps)
        : down((m - 1) / TILE_ROWS + 1), across((n - 1) / TILE_COLUMNS + 1), steps(steps) {
        const int blocks = gridDim.x;
        tiles = down * across * batch;
        const int rest = tiles % blocks;
        const bool pays = static_cast<long long>(blocks - rest) * steps > static_cast<long long>(COST) * blocks;
        cut = pays ? rest : 0;
        const long long most = cut_steps() / SHORTEST;
        shares = static_cast<int>(most < cut ? cut : most < blocks ? most : blocks);
    }

    // This block's piece of this turn; false where it has no such turn, and no later one.
    __device__ __forceinline__ bool find(int turn, Piece& piece) const {
        const int block = blockIdx.x, pieces = block < shares ? pieces_of(block) : 0;
        if (turn < pieces) {
            const long long begin = begin_of(block), end = begin_of(block + 1), tile = begin / steps + turn;
            const int first = static_cast<int>(max(begin - tile * steps, 0ll));
            const int count = static_cast<int>(min(end - tile * steps, static_cast<long long>(steps))) - first;
            piece = {static_cast<int>(tile), first, count, count < steps};
            return true;
        }
        const long long tile = cut + block + static_cast<long long>(turn - pieces) * gridDim.x;
        piece = {static_cast<int>(tile), 0, steps, false};
        return tile < tiles;
    }

    __device__ __forceinline__ Corner corner(int tile) const {
        const int of_item = down * across, item = tile / of_item, within = tile % of_item;
        const int first = within / (RASTER * across) * RASTER, height = min(RASTER, down - first);
        const int place = within - first * across;
        return {item, (first + place % height) * TILE_ROWS, place / height * TILE_COLUMNS};
    }

    // Of a tile that is cut.
    __device__ __forceinline__ Sharers sharers_of(int tile) const {
        const long long begin = static_cast<long long>(tile) * steps;
        return {sharer_of(begin), sharer_of(begin + steps - 1)};
    }

    // Where a sharer's sums of a cut tile go: from one piece to the next the sharer is another, or the tile, or both.
    static __device__ __forceinline__ int place_of(int sharer, int tile) { return sharer + tile; }

private:
    __device__ __forceinline__ long long cut_steps() const { return static_cast<long long>(cut) * steps; }
    __device__ __forceinline__ long long begin_of(int share) const { return share * cut_steps() / shares; }

    __device__ __forceinline__ int pieces_of(int share) const {
        return static_cast<int>((begin_of(share + 1) - 1) / steps - begin_of(share) / steps) + 1;
    }

    // The last share that begins no later.
    __device__ __forceinline__ int sharer_of(long long step) const {
        return static_cast<int>(((step + 1) * shares - 1) / cut_steps());
    }
};
