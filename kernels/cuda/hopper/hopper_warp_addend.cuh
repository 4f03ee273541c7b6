// C, for the epilogue of one warp (hopper_warp_epilogue.cuh). Its boxes are copied into the shared memory that D's
// boxes are stored from: at first as many as there is room for, then the next one whenever a box of D has been stored.
#pragma once

#include "async.cuh"
#include "hopper_across.cuh"

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ unsigned int read_word(unsigned int shared) {
    unsigned int word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
    return word;
}
#endif

// A warp's 16 rows of N columns of the tile.
template <int N>
class WarpAddend {
protected:
    static constexpr int BYTES = sizeof(Delivered), CHUNK = 16 / BYTES;  // of an element; elements of 16 bytes
    static constexpr int BOXES_OF_C = (N + OUT_COLUMNS - 1) / OUT_COLUMNS;

    const Epilogue& epilogue;
    const int item, row, column, columns, lane;
    const unsigned int out;  // where the warp's boxes of D are stored from
    const int boxes_stored;  // before this tile: it says which of these is next

    __device__ __forceinline__ WarpAddend(const Epilogue& epilogue, const Shared& at, const Work& work, int consumer,
                                          int boxes_stored)
        : epilogue(epilogue),
          item(work.item),
          row(work.row + consumer * BOX + threadIdx.x / 32 % 4 * 16),
          column(work.column),
          columns(work.columns),
          lane(threadIdx.x % 32),
          out(at.base + OUT_OFFSET + (consumer * 4 + threadIdx.x / 32 % 4) * OUT_BOXES * OUT_BYTES),
          boxes_stored(boxes_stored) {}

    // The last box may overlap the one before.
    __device__ __forceinline__ static constexpr int first_column(int box) {
        return box * OUT_COLUMNS < N - OUT_COLUMNS ? box * OUT_COLUMNS : N - OUT_COLUMNS;
    }

    __device__ __forceinline__ void load_first() const {
#ifdef HAS_ADDEND
        wait_stores_read<0>();
        __syncwarp();
#pragma unroll
        for (int box = 0; box < OUT_BOXES; ++box)
            load(box, out + (boxes_stored + box) % OUT_BOXES * OUT_BYTES);
#endif
    }

    // Two elements of a row. `line`: where the row is in shared memory; `permuted`: its number modulo 8.
    __device__ __forceinline__ void read_c(float (&c)[2], unsigned int line, int eight, int permuted) const {
        if constexpr (BYTES == 4) {
            unsigned int words[2];
            read_two(words, line + ((eight * 2 + lane % 4 / 2) ^ permuted) * 16 + lane % 2 * 8);
            c[0] = __uint_as_float(words[0]);
            c[1] = __uint_as_float(words[1]);
        } else {
            const unsigned int word = read_word(line + (eight ^ permuted) * 16 + lane % 4 * 4);
            c[0] = as_float(static_cast<Delivered>(word & 0xFFFF));
            c[1] = as_float(static_cast<Delivered>(word >> 16));
        }
    }

public:
    // After D's box has been stored from `shared`: the next box that is not on its way yet, to the same place.
    __device__ __forceinline__ void load_next(int box, unsigned int shared) const {
#ifdef HAS_ADDEND
        if (box + OUT_BOXES < BOXES_OF_C) {
            wait_stores_read<0>();
            __syncwarp();
        }
        load(box + OUT_BOXES, shared);
#endif
    }

    __device__ __forceinline__ void end() const {
#ifdef HAS_ADDEND
        wait_copies<0>();
#endif
    }

private:
    // Elements outside C become zeros. Every box is a group of copies, empty ones too, so that groups can be counted.
    __device__ __forceinline__ void load(int box, unsigned int to) const {
        const int first = column + first_column(box) + lane % 8 * CHUNK;
        if (box < BOXES_OF_C && box * OUT_COLUMNS < columns) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int line = i * 4 + lane / 8, at = row + line;
                const int bytes = at < epilogue.rows ? max(0, min(CHUNK, epilogue.columns - first)) * BYTES : 0;
                const Delivered* const from = epilogue.c + item * epilogue.stride_c + at * epilogue.ldc + first;
                copy_chunk(to + line * SWIZZLE_BYTES + (lane % 8 ^ line % 8) * 16, bytes ? from : epilogue.c, bytes);
            }
        }
        commit_copies();
    }
};
