// Digests of matrices that are projected: each block of 1024 bytes is hashed by the lanes that read it anyway, and the
// blocks of a part are joined once all are there. For matrices that lie row-major, with rows of whole blocks.
#pragma once
#include "sketch_patch.cuh"

constexpr int OF_PART = xxh3::PART / xxh3::BLOCK, OF_BLOCK = 8, KEYS = xxh3::SECRET_WORDS + 8;

// How a chunk of a stored matrix is hashed: nothing is where `blocks` is 0, as no digest of the matrix is taken.
struct Hashed {
    Word* sums;        // (blocks, 8): of each block's stripes
    const Word* keys;  // in shared memory
    int blocks;        // of the whole matrix
    int first;         // of the item's first row, at the chunk's first column
    int of_row;
};

__device__ __forceinline__ bool ends_part(int block, int blocks) {
    return block + 1 == blocks || (block % OF_PART == OF_PART - 1 && block + OF_PART < blocks);
}

// Of a lane's rows: a step is a stripe.
template <int ROWS>
struct BlockSums {
    xxh3::Piece sums[ROWS] = {};

    template <typename T>
    __device__ __forceinline__ void add(const Hashed& hashed, Index first_row, Index rows, const T& patch, int step) {
        const int stripe = step % xxh3::STRIPES, lane = threadIdx.x % 4 * 2;
        const bool is_last = stripe == xxh3::STRIPES - 1;
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            const int at = static_cast<int>(first_row) + T::row_of(row);
            const int block = hashed.first + at * hashed.of_row + step / xxh3::STRIPES;
            const Word* const key =
                hashed.keys + lane + (is_last && ends_part(block, hashed.blocks) ? xxh3::SECRET_WORDS : stripe);
            xxh3::accumulate(sums[row], xxh3::piece_of(patch.runs[row].whole), key[0], key[1]);
            if (!is_last) continue;
            Word* const to = hashed.sums + static_cast<Index>(block) * OF_BLOCK + lane;
            if (at < rows) {
                to[0] = sums[row].low;
                to[1] = sums[row].high;
            }
            sums[row] = {};
        }
    }
};

// The secret, and behind it the keys of an input's last stripe.
__device__ __forceinline__ void fetch_keys(Word (&keys)[KEYS]) {
    using namespace xxh3;
    const int i = threadIdx.x;
    if (i < SECRET_WORDS) keys[i] = SECRET[i];
    if (i >= SECRET_WORDS && i < KEYS) keys[i] = secret_at(SECRET, LAST_STRIPE + (i - SECRET_WORDS) * 8);
}

// How many parts a unit of `digest_parts` has.
constexpr int PARTS = THREADS / 4;

__device__ __forceinline__ Index parts_of(Index blocks) { return blocks == 0 ? 0 : max(blocks / OF_PART, Index{1}); }

// Of parts from `first` on, four lanes each: their blocks follow on each other, each with its scramble.
__device__ __forceinline__ void digest_parts(const Word* sums, Index blocks, Index first, const Word* keys,
                                             Word* digests) {
    using namespace xxh3;
    const int lane = threadIdx.x % 4;
    const Index own = first + threadIdx.x / 4, parts = parts_of(blocks), part = min(own, parts - 1);
    const Index begin = part * OF_PART, end = part + 1 < parts ? begin + OF_PART : blocks;
    Piece found = initial(lane);
    for (Index some = begin; some < end; some += OF_PART) {
        Piece pieces[OF_PART];
#pragma unroll
        for (int i = 0; i < OF_PART; ++i) {  // all on their way before the first is used
            const Word* const from = sums + min(some + i, end - 1) * OF_BLOCK + lane * 2;
            pieces[i] = piece_of(__ldcg(reinterpret_cast<const uint4*>(from)));
        }
#pragma unroll
        for (int i = 0; i < OF_PART; ++i) {
            if (some + i >= end) break;
            found.low += pieces[i].low;
            found.high += pieces[i].high;
            if (some + i + 1 < end) scramble(found, keys, lane);
        }
    }
    const Word digest = merged(found, keys, lane, (end - begin) * BLOCK);
    if (lane == 0 && own < parts) digests[own] = digest;
}
