// XXH3-64 of each part of a matrix's bytes as they are stored: in C order, without what pads rows.
//
// A warp has a part. Within a block of 1024 bytes the hash adds stripes' sums in any order, so eight groups of four
// lanes take eight blocks at once, a lane 16 bytes of every stripe; then blocks follow on each other, each with its
// scramble. ALIGNED says that no 16 bytes of a stripe lie in two rows, and that all rows begin at multiples of 16
// bytes.
#include "digest.cuh"

typedef unsigned char Byte;
using namespace xxh3;

constexpr int WARPS = 4, THREADS = 32 * WARPS, GROUPS = 8;

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

// The next 16 bytes. Where they lie in one row with four more, whole words are read and shifted.
template <bool ALIGNED>
__device__ __forceinline__ Piece piece_at(const Stored& matrix, Place place) {
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

// The lane's sums over so many stripes of the block that begins at `at`.
template <bool ALIGNED>
__device__ __forceinline__ Piece sums_of_block(const Stored& matrix, const Word* secret, Index at, int stripes) {
    const int lane = threadIdx.x % 4 * 2;
    Piece sums = {0, 0}, pieces[STRIPES];
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
    Piece sums = initial(lane);
    for (int first = 0; first <= full; first += GROUPS) {
        const int own = first + group, stripes = own < full ? STRIPES : own == full ? left : 0;
        const Piece found = sums_of_block<ALIGNED>(matrix, secret, begin + static_cast<Index>(own) * BLOCK, stripes);
        for (int i = 0; i < GROUPS && first + i <= full; ++i) {
            sums.low += __shfl_sync(0xFFFFFFFFu, found.low, i * 4 + lane);
            sums.high += __shfl_sync(0xFFFFFFFFu, found.high, i * 4 + lane);
            if (first + i == full) break;
            scramble(sums, secret, lane);
        }
    }
    const Place place(matrix, begin + length - STRIPE + lane * PIECE);
    accumulate(sums, piece_at<ALIGNED>(matrix, place), secret_at(secret, LAST_STRIPE + lane * 16),
               secret_at(secret, LAST_STRIPE + lane * 16 + 8));
    return merged(sums, secret, lane, length);
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
