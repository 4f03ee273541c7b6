// XXH3-64, without seed and with its own secret, of each part of a matrix's bytes as they are stored: in C order,
// without what pads rows. Only inputs of more than 240 bytes are hashed so (the long hash of xxHash's specification,
// doc/xxhash_spec.md of github.com/Cyan4973/xxHash).
//
// A warp has a part. Within a block of 1024 bytes the hash adds stripes' sums in any order, so eight groups of four
// lanes take eight blocks at once, a lane 16 bytes of every stripe; then blocks follow on each other, each with its
// scramble. ALIGNED says that no 16 bytes of a stripe lie in two rows, and that all rows begin at multiples of 16
// bytes.

typedef unsigned long long Word;
typedef long long Index;
typedef unsigned char Byte;

constexpr int PART = 16384, BLOCK = 1024, STRIPE = 64, STRIPES = BLOCK / STRIPE, SECRET_WORDS = 24;
constexpr int WARPS = 4, THREADS = 32 * WARPS, GROUPS = 8, PIECE = 16;
constexpr Word PRIME32_1 = 0x9E3779B1, PRIME32_2 = 0x85EBCA77, PRIME32_3 = 0xC2B2AE3D;
constexpr Word PRIME64_1 = 0x9E3779B185EBCA87, PRIME64_2 = 0xC2B2AE3D27D4EB4F, PRIME64_3 = 0x165667B19E3779F9;
constexpr Word PRIME64_4 = 0x85EBCA77C2B2AE63, PRIME64_5 = 0x27D4EB2F165667C5;
__device__ const Word SECRET[SECRET_WORDS] = {
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072, 0x78E5C0CC4EE679CB,
    0x2172FFCC7DD05A82, 0x8E2443F7744608B8, 0x4C263A81E69035E0, 0xCB00C391BB52283C, 0xA32E531B8B65D088,
    0x4EF90DA297486471, 0xD8ACDEA946EF1938, 0x3F349CE33F76FAA8, 0x1D4F0BC7C7BBDCF9, 0x3159B4CD4BE0518A,
    0x647378D9C97E9FC8, 0xC3EBD33483ACC5EA, 0xEB6313FAFFA081C5, 0x49DAF0B751DD0D17, 0x9E68D429265516D3,
    0xFCA1477D58BE162B, 0xCE31D07AD1B8F88F, 0x280416958F3ACB45, 0x7E404BBBCAFBD7AF};

struct Pair {
    Word low, high;
};

struct Stored {
    const Byte* first;
    Index row_bytes, pitch, rows, stride, batch;  // pitch and stride in bytes
};

// A place in the stream of bytes.
struct Place {
    const Byte* start;  // of its row
    Index column, row;

    __device__ __forceinline__ Place(const Stored& matrix, Index at) {
        const Index line = at / matrix.row_bytes, item = matrix.batch > 1 ? line / matrix.rows : 0;
        column = at - line * matrix.row_bytes;
        row = line - item * matrix.rows;
        start = matrix.first + item * matrix.stride + row * matrix.pitch;
    }
    __device__ __forceinline__ void advance(const Stored& matrix, int bytes) {
        column += bytes;
        while (column >= matrix.row_bytes) {
            column -= matrix.row_bytes;
            start += matrix.pitch;
            if (++row < matrix.rows) continue;
            row = 0;
            start += matrix.stride - matrix.rows * matrix.pitch;
        }
    }
};

__device__ __forceinline__ Word word_of(unsigned int low, unsigned int high) {
    return static_cast<Word>(high) << 32 | low;
}

// The next 16 bytes. Where they lie in one row with four more, whole words are read and shifted.
template <bool ALIGNED>
__device__ __forceinline__ Pair piece_at(const Stored& matrix, Place place) {
    const Byte* const from = place.start + place.column;
    if (ALIGNED) {
        const uint4 words = __ldg(reinterpret_cast<const uint4*>(from));
        return {word_of(words.x, words.y), word_of(words.z, words.w)};
    }
    if (reinterpret_cast<Word>(place.start) % 4 == 0 && place.column + PIECE + 4 <= matrix.row_bytes) {
        const unsigned int* const words = reinterpret_cast<const unsigned int*>(from - place.column % 4);
        const unsigned int shift = place.column % 4 * 8;
        unsigned int found[5];
#pragma unroll
        for (int i = 0; i < 5; ++i)
            found[i] = __ldg(words + i);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            found[i] = __funnelshift_r(found[i], found[i + 1], shift);
        return {word_of(found[0], found[1]), word_of(found[2], found[3])};
    }
    Word found[2] = {};
#pragma unroll 1
    for (int i = 0; i < PIECE; ++i) {
        const Word byte = __ldg(place.start + place.column);
        found[0] |= i < 8 ? byte << i * 8 : 0;
        found[1] |= i < 8 ? 0 : byte << (i - 8) * 8;
        if (i + 1 < PIECE) place.advance(matrix, 1);
    }
    return {found[0], found[1]};
}

__device__ __forceinline__ Word product_of_halves(Word value) { return (value & 0xFFFFFFFF) * (value >> 32); }

// Adds a stripe's two words to the lane's two accumulators.
__device__ __forceinline__ void accumulate(Pair& sums, Pair piece, Word key_low, Word key_high) {
    sums.low += piece.high + product_of_halves(piece.low ^ key_low);
    sums.high += piece.low + product_of_halves(piece.high ^ key_high);
}

__device__ __forceinline__ Word scrambled(Word value, Word key) { return (value ^ value >> 47 ^ key) * PRIME32_1; }

__device__ __forceinline__ Word secret_at(const Word* secret, int byte) {
    const int word = byte / 8, shift = byte % 8 * 8;
    return shift == 0 ? secret[word] : secret[word] >> shift | secret[word + 1] << (64 - shift);
}

// The lane's sums over so many stripes of the block that begins at `at`.
template <bool ALIGNED>
__device__ __forceinline__ Pair sums_of_block(const Stored& matrix, const Word* secret, Index at, int stripes) {
    const int lane = threadIdx.x % 4 * 2;
    Pair sums = {0, 0}, pieces[STRIPES];
    if (stripes <= 0) return sums;
    Place place(matrix, at + threadIdx.x % 4 * PIECE);
#pragma unroll
    for (int i = 0; i < STRIPES; ++i) {  // all on their way before the first is used
        if (i < stripes) pieces[i] = piece_at<ALIGNED>(matrix, place);
        if (i + 1 < stripes) place.advance(matrix, STRIPE);
    }
#pragma unroll
    for (int i = 0; i < STRIPES; ++i)
        if (i < stripes) accumulate(sums, pieces[i], secret[i + lane], secret[i + lane + 1]);
    return sums;
}

// In every lane.
template <bool ALIGNED>
__device__ __forceinline__ Word hash(const Stored& matrix, const Word* secret, Index begin, Index length) {
    const int lane = threadIdx.x % 4, group = threadIdx.x % 32 / 4;
    const int full = static_cast<int>((length - 1) / BLOCK), left = static_cast<int>((length - 1) % BLOCK / STRIPE);
    Pair sums = {lane == 0   ? PRIME32_3
                 : lane == 1 ? PRIME64_2
                 : lane == 2 ? PRIME64_4
                             : PRIME64_5,
                 lane == 0   ? PRIME64_1
                 : lane == 1 ? PRIME64_3
                 : lane == 2 ? PRIME32_2
                             : PRIME32_1};
    const Word key_low = secret[STRIPES + lane * 2], key_high = secret[STRIPES + lane * 2 + 1];
    for (int first = 0; first <= full; first += GROUPS) {
        const int own = first + group, stripes = own < full ? STRIPES : own == full ? left : 0;
        const Pair found = sums_of_block<ALIGNED>(matrix, secret, begin + static_cast<Index>(own) * BLOCK, stripes);
        for (int i = 0; i < GROUPS && first + i <= full; ++i) {
            sums.low += __shfl_sync(0xFFFFFFFFu, found.low, i * 4 + lane);
            sums.high += __shfl_sync(0xFFFFFFFFu, found.high, i * 4 + lane);
            if (first + i == full) break;
            sums = {scrambled(sums.low, key_low), scrambled(sums.high, key_high)};
        }
    }
    constexpr int LAST = SECRET_WORDS * 8 - STRIPE - 7, MERGE = 11;  // bytes of the secret
    const Place place(matrix, begin + length - STRIPE + lane * PIECE);
    accumulate(sums, piece_at<ALIGNED>(matrix, place), secret_at(secret, LAST + lane * 16),
               secret_at(secret, LAST + lane * 16 + 8));
    const Word one = sums.low ^ secret_at(secret, MERGE + lane * 16);
    const Word other = sums.high ^ secret_at(secret, MERGE + lane * 16 + 8);
    Word merged = one * other ^ __umul64hi(one, other);
    for (int lanes = 1; lanes < 4; lanes *= 2)
        merged += __shfl_xor_sync(0xFFFFFFFFu, merged, lanes);
    merged += static_cast<Word>(length) * PRIME64_1;
    merged = (merged ^ merged >> 37) * 0x165667919E3779F9;
    return merged ^ merged >> 32;
}

// The last part goes on to the end, and may be the only one.
template <bool ALIGNED>
__device__ __forceinline__ void digest(const Stored& matrix, Index parts, Word* digests) {
    __shared__ Word secret[SECRET_WORDS];
    if (threadIdx.x < SECRET_WORDS) secret[threadIdx.x] = SECRET[threadIdx.x];
    __syncthreads();
    const Index part = static_cast<Index>(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (part >= parts) return;
    const Index begin = part * PART, size = matrix.row_bytes * matrix.rows * matrix.batch;
    const Word found = hash<ALIGNED>(matrix, secret, begin, part + 1 < parts ? PART : size - begin);
    if (threadIdx.x % 32 == 0) digests[part] = found;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    digest_aligned(const Byte* matrix, Index row_bytes, Index pitch, Index rows, Index stride, Index batch, Index parts,
                   Word* digests) {
    digest<true>({matrix, row_bytes, pitch, rows, stride, batch}, parts, digests);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    digest_any(const Byte* matrix, Index row_bytes, Index pitch, Index rows, Index stride, Index batch, Index parts,
               Word* digests) {
    digest<false>({matrix, row_bytes, pitch, rows, stride, batch}, parts, digests);
}
