// XXH3-64, without seed and with its own secret, of inputs of more than 240 bytes; shorter ones have other hashes (the
// long hash of xxHash's specification, doc/xxhash_spec.md of github.com/Cyan4973/xxHash).
//
// Blocks of 1024 bytes have 16 stripes of 64, and four lanes have 16 bytes of a stripe each, with two of the eight
// accumulators.
#pragma once

typedef unsigned long long Word;
typedef long long Index;

namespace xxh3 {

constexpr int PART = 16384, BLOCK = 1024, STRIPE = 64, STRIPES = BLOCK / STRIPE, SECRET_WORDS = 24, PIECE = 16;
constexpr int LAST_STRIPE = SECRET_WORDS * 8 - STRIPE - 7, MERGE = 11;  // bytes of the secret
constexpr Word PRIME32_1 = 0x9E3779B1, PRIME32_2 = 0x85EBCA77, PRIME32_3 = 0xC2B2AE3D;
constexpr Word PRIME64_1 = 0x9E3779B185EBCA87, PRIME64_2 = 0xC2B2AE3D27D4EB4F, PRIME64_3 = 0x165667B19E3779F9;
constexpr Word PRIME64_4 = 0x85EBCA77C2B2AE63, PRIME64_5 = 0x27D4EB2F165667C5;
__device__ const Word SECRET[SECRET_WORDS] = {
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072, 0x78E5C0CC4EE679CB,
    0x2172FFCC7DD05A82, 0x8E2443F7744608B8, 0x4C263A81E69035E0, 0xCB00C391BB52283C, 0xA32E531B8B65D088,
    0x4EF90DA297486471, 0xD8ACDEA946EF1938, 0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A,
    0x647378D9C97E9FC8, 0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5, 0x49DAF0B751DD0D17, 0x9E68D429265516D3,
    0xFCA1477D58BE162B, 0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF};

// A lane's 16 bytes of a stripe, or its two accumulators.
struct Piece {
    Word low, high;
};

__device__ __forceinline__ Word word_of(unsigned int low, unsigned int high) {
    return static_cast<Word>(high) << 32 | low;
}
__device__ __forceinline__ Piece piece_of(uint4 words) {
    return {word_of(words.x, words.y), word_of(words.z, words.w)};
}

__device__ __forceinline__ Word product_of_halves(Word value) { return (value & 0xFFFFFFFF) * (value >> 32); }

// Adds a stripe's two words to the lane's two accumulators.
__device__ __forceinline__ void accumulate(Piece& sums, Piece piece, Word key_low, Word key_high) {
    sums.low += piece.high + product_of_halves(piece.low ^ key_low);
    sums.high += piece.low + product_of_halves(piece.high ^ key_high);
}

__device__ __forceinline__ Word secret_at(const Word* secret, int byte) {
    const int word = byte / 8, shift = byte % 8 * 8;
    return shift == 0 ? secret[word] : secret[word] >> shift | secret[word + 1] << (64 - shift);
}

// Of an input's first block.
__device__ __forceinline__ Piece initial(int lane) {
    return {lane == 0   ? PRIME32_3
            : lane == 1 ? PRIME64_2
            : lane == 2 ? PRIME64_4
                        : PRIME64_5,
            lane == 0   ? PRIME64_1
            : lane == 1 ? PRIME64_3
            : lane == 2 ? PRIME32_2
                        : PRIME32_1};
}

// Between one block and the next.
__device__ __forceinline__ void scramble(Piece& sums, const Word* secret, int lane) {
    sums.low = (sums.low ^ sums.low >> 47 ^ secret[STRIPES + lane * 2]) * PRIME32_1;
    sums.high = (sums.high ^ sums.high >> 47 ^ secret[STRIPES + lane * 2 + 1]) * PRIME32_1;
}

// The hash, of four lanes' accumulators after the last stripe.
__device__ __forceinline__ Word merged(Piece sums, const Word* secret, int lane, Index length) {
    const Word one = sums.low ^ secret_at(secret, MERGE + lane * 16);
    const Word other = sums.high ^ secret_at(secret, MERGE + lane * 16 + 8);
    Word hash = one * other ^ __umul64hi(one, other);
    for (int lanes = 1; lanes < 4; lanes *= 2)
        hash += __shfl_xor_sync(0xFFFFFFFFu, hash, lanes);
    hash += static_cast<Word>(length) * PRIME64_1;
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9;
    return hash ^ hash >> 32;
}

}  // namespace xxh3
