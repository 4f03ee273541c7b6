// How resident blocks share out tiles of C, as hopper_sharing.cuh does for another kernel: whole tiles go round, and
// what would fill only part of a last turn is cut along k into equal shares ("stream-K", Osama et al. 2023). Here a
// block's share is worked out once, and in 32 bits: what comes between two turns keeps tensor cores waiting.
#pragma once

// Steps of k of one tile of C.
struct Piece {
    int tile, first, count;
    bool is_cut;  // others have the rest
};

// Where a tile lies, counted in tiles.
struct Corner {
    int item, down, across;
};

struct Sharers {
    int first, last;  // blocks
};

struct Sharing {
    static constexpr int RASTER = 8;    // rows of tiles that are taken together, for the second-level cache
    static constexpr int SHORTEST = 8;  // steps: a shorter share costs more than it saves
    static constexpr int COST = 6;      // steps in whose time cut tiles are put together
    static constexpr long long MOST_STEPS = 1 << 30;  // of all tiles that are cut
    static constexpr int MOST_THREADS = 192 * 256;    // of all blocks that share them; no device has more

    int down, across, tiles, steps;
    int shares, length, longer;  // of cut tiles; all shares have so many steps, so many of them one more
    int begin, end, cut_tile;    // of this block's share, what is left, and the tile that it begins with
    int whole_tile;              // that this block does next, after its share

    // The launch sees to it that the batch has fewer than 2^31 tiles.
    __device__ __forceinline__ Sharing(int down, int across, int batch, int steps)
        : down(down), across(across), tiles(down * across * batch), steps(steps) {
        const int blocks = gridDim.x, block = blockIdx.x, rest = tiles % blocks;
        const bool pays = static_cast<long long>(blocks - rest) * steps > static_cast<long long>(COST) * blocks;
        const bool fits = static_cast<long long>(rest) * steps <= MOST_STEPS && blocks * blockDim.x <= MOST_THREADS;
        const int cut = pays && fits ? rest : 0, cut_steps = cut * steps;
        shares = max(cut, min(blocks, cut_steps / SHORTEST));
        length = cut > 0 ? cut_steps / shares : 0;
        longer = cut_steps - length * shares;
        begin = block < shares ? begin_of(block) : 0;
        end = block < shares ? begin_of(block + 1) : 0;
        cut_tile = cut > 0 ? begin / steps : 0;
        whole_tile = cut + block;
    }

    // This block's next piece; false where there is none.
    __device__ __forceinline__ bool next(Piece& piece) {
        if (begin < end) {
            const int first = begin - cut_tile * steps, count = min(end - begin, steps - first);
            piece = {cut_tile++, first, count, count < steps};
            begin += count;
            return true;
        }
        piece = {whole_tile, 0, steps, false};
        if (whole_tile >= tiles) return false;
        whole_tile = tiles - whole_tile > static_cast<int>(gridDim.x) ? whole_tile + gridDim.x : tiles;
        return true;
    }

    __device__ __forceinline__ Corner corner(int tile) const {
        const int of_item = down * across, item = tile / of_item, within = tile - item * of_item;
        const int group = within / (RASTER * across), height = min(RASTER, down - group * RASTER);
        const int place = within - group * RASTER * across, column = place / height;
        return {item, group * RASTER + place - column * height, column};
    }

    // Of a tile that is cut.
    __device__ __forceinline__ Sharers sharers_of(int tile) const {
        return {sharer_of(tile * steps), sharer_of(tile * steps + steps - 1)};
    }

    // Where a sharer's sums of a cut tile go: from one piece to the next the sharer is another, or the tile, or both.
    static __device__ __forceinline__ int place_of(int sharer, int tile) { return sharer + tile; }

private:
    __device__ __forceinline__ int begin_of(int share) const { return share * length + min(share, longer); }

    __device__ __forceinline__ int sharer_of(int step) const {
        const int of_longer = longer * (length + 1);
        return step < of_longer ? step / (length + 1) : longer + (step - of_longer) / length;
    }
};
