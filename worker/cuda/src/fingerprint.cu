// The fingerprint of a part of a matrix, added to *total: the sum of r(row)·c(column)·bits modulo 2^64. The twin of
// worker/check/fingerprint.py, which says what it is for.
//
// A block has THREADS·COLUMNS columns and ROWS rows of one item, and goes on to other items. A thread has COLUMNS
// neighbouring columns, a load of each row, and AHEAD rows on their way: fewer do not keep the memory busy. Weights of
// rows are in shared memory, those of columns are multiplied last, so an element costs one multiply-add.
using Word = unsigned long long;

#if ITEM_BYTES == 1
using Element = unsigned char;
#elif ITEM_BYTES == 2
using Element = unsigned short;
#elif ITEM_BYTES == 4
using Element = unsigned int;
#else
using Element = Word;
#endif

constexpr int THREADS = 256, ROWS = 64, AHEAD = 8;
constexpr int CHUNK_BYTES = ITEM_BYTES < 4 ? 8 : 16, COLUMNS = CHUNK_BYTES / ITEM_BYTES;
static_assert(ROWS % AHEAD == 0, "rows are read by so many at a time");
constexpr Word STEP = 0x9E3779B97F4A7C15ull, COLUMN_SEED = 0xD1B54A32D192ED03ull;

__device__ Word weight(Word seed, Word index) {
    Word z = (index + 1) * STEP + seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (z ^ (z >> 31)) | 1;
}

union Chunk {
#if ITEM_BYTES < 4
    uint2 whole;
#else
    uint4 whole;
#endif
    Element elements[COLUMNS];
};

// Of a row, the columns of this thread; zeros beyond the last.
template <bool WHOLE>
__device__ __forceinline__ Chunk chunk_of(const Element* line, long long left) {
    Chunk chunk;
    if (WHOLE) {
        chunk.whole = *reinterpret_cast<const decltype(chunk.whole)*>(line);
    } else {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            chunk.elements[j] = j < left ? line[j] : Element{0};
    }
    return chunk;
}

// Adds `height` rows, from the chunk at `line` down. `left`: columns from there on.
template <bool WHOLE>
__device__ __forceinline__ void add_rows(Word (&of_columns)[COLUMNS], const Element* line, long long pitch, int height,
                                         long long left, const Word* weights) {
    int i = 0;
    for (; i + AHEAD <= height; i += AHEAD) {
        Chunk chunks[AHEAD];
#pragma unroll
        for (int row = 0; row < AHEAD; ++row)
            chunks[row] = chunk_of<WHOLE>(line + (i + row) * pitch, left);
#pragma unroll
        for (int row = 0; row < AHEAD; ++row)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                of_columns[j] += weights[i + row] * chunks[row].elements[j];
    }
    for (; i < height; ++i) {
        const Chunk chunk = chunk_of<WHOLE>(line + i * pitch, left);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            of_columns[j] += weights[i] * chunk.elements[j];
    }
}

// `rows_of_item`: from one item to the next, in rows of the whole matrix; `stride`: the same in elements that lie here.
extern "C" __global__ void __launch_bounds__(THREADS)
    fingerprint(const Element* __restrict__ part, long long pitch, long long stride, long long rows, long long columns,
                long long items, long long rows_of_item, long long row, long long column, long long seed, Word* total) {
    __shared__ Word weights[ROWS], sums[THREADS / 32];
    const long long first_row = static_cast<long long>(blockIdx.y) * ROWS;
    const long long first_column = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * COLUMNS;
    const long long left = columns - first_column;
    const int height = static_cast<int>(min(static_cast<long long>(ROWS), rows - first_row));
    const Word apart = reinterpret_cast<Word>(part) | static_cast<Word>(pitch | stride) * ITEM_BYTES;
    const bool whole = left >= COLUMNS && apart % CHUNK_BYTES == 0;
    Word sum = 0;
    for (long long item = blockIdx.z; item < items; item += gridDim.z) {
        __syncthreads();
        const Word first = row + item * rows_of_item + first_row;
        if (threadIdx.x < height) weights[threadIdx.x] = weight(seed, first + threadIdx.x);
        __syncthreads();
        if (left <= 0) continue;
        const Element* line = part + item * stride + first_row * pitch + first_column;
        Word of_columns[COLUMNS] = {};
        if (whole)
            add_rows<true>(of_columns, line, pitch, height, left, weights);
        else
            add_rows<false>(of_columns, line, pitch, height, left, weights);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            sum += of_columns[j] * weight(seed ^ COLUMN_SEED, column + first_column + j);
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; ++warp)
            sum += sums[warp];
        atomicAdd(total, sum);
    }
}
