// How resident blocks divide the tiles of C. Full waves consist of whole tiles. The tiles of a partial last wave are
// cut along k into equal shares, one for each block, so that all blocks end together ("stream-K", Osama et al. 2023).
//
// A share that extends into a second tile makes its block hand over another segment. So shares that end with their
// tiles are used if they are hardly longer.
//
// All arithmetic has 32 bits: a 64-bit division takes hundreds of clocks, during which a block multiplies nothing.
#pragma once

constexpr int MAX_SHARING_THREADS = 192 * 256;  // of all blocks that share tiles; no device has more

// Steps of k of one tile of C.
struct TileSegment {
    int tile, first, count;
    bool is_cut;  // others have the rest
};

// The position of a tile, in tiles.
struct Corner {
    int item, down, across;
};

struct Sharers {
    int first, last;  // blocks
};

// SHORTEST: steps of a share, below which it costs more than it saves. COST: steps in whose time cut tiles are put
// together. SECOND: those in whose time a block hands over a second segment. EACH: blocks that a multiprocessor has
// room for, which are numbered one after the other here: so the last ones have multiprocessors to themselves.
template <int SHORTEST, int COST, int SECOND, int EACH = 1>
struct Sharing {
    static constexpr int RASTER = 8;                 // rows of tiles that are processed together, for the L2
    static constexpr long long MAX_STEPS = 1 << 30;  // of all tiles that are cut

    int block;  // this one's number
    int down, across, tiles, steps;
    int cut, shares;                // the first tiles, and what they are cut into
    int span, each, length, fewer;  // steps that are cut alike, into so many shares, of so many steps or, after
                                    // `fewer`, one more

    // The launch ensures that the batch has fewer than 2^31 tiles. LIGHT: a tile's last step has almost no work. ASIDE:
    // the time, in steps, of work outside these tiles. If tiles are cut, some blocks get no share and do this work
    // instead: as many as make it take about as long as a share.
    __device__ __forceinline__ Sharing(int down, int across, int batch, int steps, bool light, float aside = 0)
        : block(number_of_block()), down(down), across(across), tiles(down * across * batch), steps(steps) {
        const int blocks = gridDim.x, rest = tiles % blocks;
        const bool pays = static_cast<long long>(blocks - rest) * steps > static_cast<long long>(COST) * blocks;
        const bool fits =
            static_cast<long long>(rest) * steps <= MAX_STEPS && blocks * blockDim.x <= MAX_SHARING_THREADS;
        cut = pays && fits ? rest : 0;
        shares = span = each = length = fewer = 0;
        if (cut > 0) share_out(blocks - left_for(aside), light);
    }

    // This block's segment of this wave; false if it has neither this wave nor a later one.
    __device__ __forceinline__ bool find(int wave, TileSegment& segment) const {
        const int segments = block < shares ? pieces_of(block) : 0;
        if (wave < segments) {
            const int begin = begin_of(block), end = begin_of(block + 1), tile = begin / steps + wave;
            const int first = max(begin - tile * steps, 0), count = min(end - tile * steps, steps) - first;
            segment = {tile, first, count, count < steps};
            return true;
        }
        const long long tile = cut + block + static_cast<long long>(wave - segments) * gridDim.x;
        segment = {static_cast<int>(tile), 0, steps, false};
        return tile < tiles;
    }

    __device__ __forceinline__ Corner corner(int tile) const {
        const int of_item = down * across, item = tile / of_item, within = tile - item * of_item;
        const int group = within / (RASTER * across), height = min(RASTER, down - group * RASTER);
        const int place = within - group * RASTER * across, column = place / height;
        return {item, group * RASTER + place - column * height, column};
    }

    // For a tile that is cut.
    __device__ __forceinline__ Sharers sharers_of(int tile) const {
        return {sharer_of(tile * steps), sharer_of(tile * steps + steps - 1)};
    }

    // Where a sharer's sums of a cut tile go: from one segment to the next the sharer is another, or the tile, or both.
    static __device__ __forceinline__ int place_of(int sharer, int tile) { return sharer + tile; }

    __device__ __forceinline__ int begin_of(int share) const {
        const int part = share / each, within = share - part * each;
        return part * span + within * length + max(within - fewer, 0);
    }

private:
    // The device begins with one block for each multiprocessor, and goes on with a second.
    static __device__ __forceinline__ int number_of_block() {
        const int index = blockIdx.x, multiprocessors = gridDim.x / EACH;
        if (EACH == 1 || gridDim.x % EACH != 0) return index;
        return index % multiprocessors * EACH + index / multiprocessors;
    }

    __device__ __forceinline__ int left_for(float aside) const {
        if (aside == 0) return 0;
        const int blocks = gridDim.x;
        const float all = static_cast<float>(cut) * static_cast<float>(steps) + aside;
        const int least = static_cast<int>(static_cast<float>(blocks) * aside / all) / EACH * EACH + EACH;
        return min(blocks - 1, least);
    }

    // One for each block; or a number that lets shares end with their tiles, if that is hardly slower.
    __device__ __forceinline__ void share_out(int blocks, bool light) {
        const int all = cut * steps, most = max(cut, min(blocks, all / SHORTEST)), of_tile = most / cut;
        const int longest = (all - light * cut - 1) / most + 1, longest_even = (steps - light - 1) / of_tile + 1;
        const bool even = longest_even <= longest + SECOND;
        shares = even ? cut * of_tile : most;
        each = even ? of_tile : most;
        span = even ? steps : all;
        length = span / each;
        fewer = each - (span - length * each);
    }

    __device__ __forceinline__ int pieces_of(int share) const {
        return (begin_of(share + 1) - 1) / steps - begin_of(share) / steps + 1;
    }

    __device__ __forceinline__ int sharer_of(int step) const {
        const int part = step / span, within = step - part * span, of_shorter = fewer * length;
        const int first = within < of_shorter ? within / length : fewer + (within - of_shorter) / (length + 1);
        return part * each + first;
    }
};
