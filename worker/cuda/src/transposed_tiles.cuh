// Tiles of matrices that are turned on their way through shared memory: for transpose.cu and mirror.cu, which say how
// many bytes an element has, ITEM_BYTES.
//
// Where addresses and pitches allow it threads move chunks of 16 bytes along the rows, of the matrix in and of the
// transposed one out; a chunk that goes out is picked from as many rows of the tile as it has elements. A row's chunks
// are permuted by the number of its group of so many rows, so that neither these picks nor the chunks that come in meet
// in a bank (but by twos for 4 bytes and more).
#pragma once

typedef long long Index;

#if ITEM_BYTES == 1
typedef unsigned char Element;
#elif ITEM_BYTES == 2
typedef unsigned short Element;
#elif ITEM_BYTES == 4
typedef unsigned int Element;
#else
typedef unsigned long long Element;
#endif
static_assert(sizeof(Element) == ITEM_BYTES, "an element has 1, 2, 4 or 8 bytes");

constexpr int THREADS = 256;
constexpr int PICKED = 16 / ITEM_BYTES;                               // elements of a chunk
constexpr int TILE = ITEM_BYTES == 1 ? 128 : 64;                      // rows and columns
constexpr int TILE_CHUNKS = TILE / PICKED;                            // of a row of a tile
constexpr int CHUNKS = TILE * TILE_CHUNKS;                            // of a tile
constexpr int BANK_CHUNKS = 8;                                        // next to each other, that lie in different banks
constexpr int EACH = CHUNKS / THREADS, ROWS = THREADS / TILE_CHUNKS;  // chunks of a thread, and so many rows apart
static_assert(CHUNKS % THREADS == 0 && THREADS % TILE_CHUNKS == 0,
              "a block's threads go over a tile a whole number of times");

// Of an element in shared memory.
__device__ __forceinline__ int place(int row, int column) {
    return row * TILE + (column / PICKED ^ row / PICKED % BANK_CHUNKS) * PICKED + column % PICKED;
}

// How many of a row's first `count` elements lie in chunks that can be moved whole.
__device__ __forceinline__ int in_chunks(const Element* first, Index pitch, int count) {
    const unsigned long long address = reinterpret_cast<unsigned long long>(first), step = pitch * ITEM_BYTES;
    return (address | step) % 16 == 0 ? count / PICKED * PICKED : 0;
}

// What lies past the matrix stays unwritten.
__device__ __forceinline__ void read_tile(Element* tile, const Element* first, Index pitch, int rows, int columns) {
    const int whole = in_chunks(first, pitch, columns), rest = columns - whole;
    const int row_of_thread = threadIdx.x / TILE_CHUNKS, column_of_thread = threadIdx.x % TILE_CHUNKS * PICKED;
    uint4 chunks[EACH];  // all on their way before the first is put down
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        if (row_of_thread + i * ROWS < rows && column_of_thread < whole)
            chunks[i] = *reinterpret_cast<const uint4*>(first + (row_of_thread + i * ROWS) * pitch + column_of_thread);
#pragma unroll
    for (int i = 0; i < EACH; ++i)
        if (row_of_thread + i * ROWS < rows && column_of_thread < whole)
            *reinterpret_cast<uint4*>(tile + place(row_of_thread + i * ROWS, column_of_thread)) = chunks[i];
#pragma unroll 1
    for (int index = threadIdx.x; index < rows * rest; index += THREADS) {
        const int row = index / rest, column = whole + index % rest;
        tile[place(row, column)] = first[row * pitch + column];
    }
}

__device__ __forceinline__ uint4 picked(const Element* tile, int row, int column) {
    unsigned int words[4] = {};
#pragma unroll
    for (int i = 0; i < PICKED; ++i) {
        const Element element = tile[place(row + i, column)];
        words[i * ITEM_BYTES / 4] |= static_cast<unsigned int>(element) << i * ITEM_BYTES % 4 * 8;
        if (ITEM_BYTES == 8) words[i * 2 + 1] = static_cast<unsigned int>(element >> ITEM_BYTES * 4);
    }
    uint4 chunk;
    chunk.x = words[0], chunk.y = words[1], chunk.z = words[2], chunk.w = words[3];
    return chunk;
}

// `rows` and `columns` are still the matrix's: a row of the transposed one is a column of it.
__device__ __forceinline__ void write_tile(const Element* tile, Element* first, Index pitch, int rows, int columns) {
    const int whole = in_chunks(first, pitch, rows), rest = rows - whole;
#pragma unroll 2
    for (int done = 0; done < CHUNKS; done += THREADS) {
        const int index = done + threadIdx.x, column = index / TILE_CHUNKS, row = index % TILE_CHUNKS * PICKED;
        if (column < columns && row < whole)
            __stcg(reinterpret_cast<uint4*>(first + column * pitch + row), picked(tile, row, column));
    }
#pragma unroll 1
    for (int index = threadIdx.x; index < columns * rest; index += THREADS) {
        const int column = index / rest, row = whole + index % rest;
        first[column * pitch + row] = tile[place(row, column)];
    }
}

__device__ __forceinline__ int at_most_a_tile(Index extent) { return extent < TILE ? static_cast<int>(extent) : TILE; }
