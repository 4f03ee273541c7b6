// How what follows a product (hopper_after.cuh) comes to a warp that stores sums box by box, while the tensor cores
// work. C's boxes go to where D's leave from, as many as there is room for, others once a box has left. A bias for
// columns waits in registers, and is spread at the end by way of shared memory; one for rows is two numbers.
#pragma once

#include "async.cuh"
#include "hopper_across.cuh"
#ifdef EPILOGUE
#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ unsigned int read_word(unsigned int shared) {
    unsigned int word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
    return word;
}
__device__ __forceinline__ void write_one(unsigned int shared, float number) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(number) : "memory");
}
// The warpgroup's threads wait for each other; each has a number of its own, from 1 on.
__device__ __forceinline__ void meet_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}
#endif
// Of a warp's 16 rows of N columns.
template <int N>
class Follow {
    static constexpr int BYTES = sizeof(Delivered), CHUNK = 16 / BYTES;
    static constexpr int BOXES_OF_C = (N + OUT_COLUMNS - 1) / OUT_COLUMNS;
    const Epilogue& after;
    const int item, row, column, columns, lane, number;
    const unsigned int out, spread;  // where boxes leave from, and a bias for columns is
    const int boxes_stored;
    float of_rows[2] = {}, of_columns[2] = {};
    __device__ __forceinline__ static constexpr int first_column(int box) {
        return box * OUT_COLUMNS < N - OUT_COLUMNS ? box * OUT_COLUMNS : N - OUT_COLUMNS;
    }
    __device__ __forceinline__ void bring(int box, unsigned int to) const {
        const int first = column + first_column(box) + lane % 8 * CHUNK;
        if (box < BOXES_OF_C && box * OUT_COLUMNS < columns) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int line = i * 4 + lane / 8, at = row + line;
                const int bytes = at < after.rows ? max(0, min(CHUNK, after.columns - first)) * BYTES : 0;
                const Delivered* const from = after.c + item * after.stride_c + at * after.ldc + first;
                copy_chunk(to + line * SWIZZLE_BYTES + (lane % 8 ^ line % 8) * 16, bytes ? from : after.c, bytes);
            }
        }
        commit_copies();
    }

public:
    __device__ __forceinline__ Follow(const Epilogue& after, const Shared& at, const Work& work, int consumer,
                                      int boxes_stored)
        : after(after),
          item(work.item),
          row(work.row + consumer * BOX + threadIdx.x / 32 % 4 * 16),
          column(work.column),
          columns(work.columns),
          lane(threadIdx.x % 32),
          number(1 + consumer),
          out(at.base + OUT_OFFSET + (consumer * 4 + threadIdx.x / 32 % 4) * OUT_BOXES * OUT_BYTES),
          spread(at.base + BIAS_OFFSET + consumer * BIAS_BYTES),
          boxes_stored(boxes_stored) {}
    // While the first products run, which wait for nothing of this.
    __device__ __forceinline__ void begin() {
        bring_first();
#ifdef HAS_BIAS
        if (after.bias_column_step) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int at = threadIdx.x % WARPGROUP * 2 + i;
                if (at < N && column + at < after.columns)
                    of_columns[i] = as_float(__ldg(after.bias + (column + at) * after.bias_column_step));
            }
        } else {
            take_bias_of_rows();
        }
#endif
    }

#ifdef CUT
    // For one warp alone, after the last product, in place of it and of `settle_bias`: all write the same.
    __device__ __forceinline__ void begin_alone() {
        bring_first();
#ifdef HAS_BIAS
        if (after.bias_column_step == 0) take_bias_of_rows();
        for (int at = lane; after.bias_column_step && at < N && column + at < after.columns; at += 32)
            write_one(spread + at * 4, as_float(__ldg(after.bias + (column + at) * after.bias_column_step)));
        __syncwarp();
#endif
    }
#endif

    __device__ __forceinline__ void settle_bias() const {
#ifdef HAS_BIAS
        if (after.bias_column_step == 0) return;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (threadIdx.x % WARPGROUP * 2 + i < N)
                write_one(spread + (threadIdx.x % WARPGROUP * 2 + i) * 4, of_columns[i]);
        meet_warpgroup(number);
#endif
    }

    // D's box of the sums given, of which C's is at `shared`.
    template <int COUNT>
    __device__ __forceinline__ void follow(HOPPER_SUM (&d)[COUNT], const HOPPER_SUM* sums, int box,
                                           unsigned int shared) const {
#ifdef HAS_ADDEND
        wait_copies<OUT_BOXES - 1>();
        __syncwarp();
#endif
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
#pragma unroll
            for (int j = 0; j < 4; ++j)
                d[i + j] = sums[i + j] * after.alpha;
#ifdef HAS_ADDEND
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int line = lane / 4 + half * 8;
                float c[2];
                read_c(c, shared + line * SWIZZLE_BYTES, i / 4, line % 8);
                d[i + half * 2] = fmaf(after.beta, c[0], d[i + half * 2]);
                d[i + half * 2 + 1] = fmaf(after.beta, c[1], d[i + half * 2 + 1]);
            }
#endif
#ifdef HAS_BIAS
            float of_column[2] = {};
            if (after.bias_column_step) {
                unsigned int words[2];
                read_two(words, spread + (first_column(box) + i * 2 + lane % 4 * 2) * 4);
                of_column[0] = __uint_as_float(words[0]);
                of_column[1] = __uint_as_float(words[1]);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j)
                d[i + j] += of_column[j % 2] + of_rows[j / 2];
#endif
        }
#ifdef HAS_ADDEND
        __syncwarp();  // before others of the warp write D over C
#endif
    }

#ifdef HAS_ACTIVATION
    // Z's box was written, and is stored. Returns where D's is, made of it: in its place if there is no other.
    __device__ __forceinline__ unsigned int activate(int box, unsigned int shared, int& boxes_stored) const {
#ifdef HAS_ADDEND
        constexpr bool is_over_z = true;  // C comes to the others
#else
        constexpr bool is_over_z = OUT_BOXES == 1;
#endif
        if constexpr (is_over_z) {
            leave_as_z(box, shared);
            wait_stores_read<0>();
            __syncwarp();
            activate_box<32>(shared, shared, lane);
        } else {
            const unsigned int z = shared;
            shared = out + boxes_stored++ % OUT_BOXES * OUT_BYTES;
            wait_stores_read<0>();  // D's box before this one
            __syncwarp();
            activate_box<32>(z, shared, lane);
            leave_as_z(box, z);
        }
        return shared;
    }
#endif

    // The box after those that are on their way, to where this one left from.
    __device__ __forceinline__ void bring_next(int box, unsigned int shared) const {
#ifdef HAS_ADDEND
        if (box + OUT_BOXES < BOXES_OF_C) {
            wait_stores_read<0>();
            __syncwarp();
        }
        bring(box + OUT_BOXES, shared);
#endif
    }

    __device__ __forceinline__ void end() const {
#ifdef HAS_ADDEND
        wait_copies<0>();
#endif
    }

private:
    __device__ __forceinline__ void bring_first() const {
#ifdef HAS_ADDEND
        wait_stores_read<0>();
        __syncwarp();
#pragma unroll
        for (int box = 0; box < OUT_BOXES; ++box)
            bring(box, out + (boxes_stored + box) % OUT_BOXES * OUT_BYTES);
#endif
    }

#ifdef HAS_BIAS
    __device__ __forceinline__ void take_bias_of_rows() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = row + lane / 4 + i * 8;
            if (at < after.rows) of_rows[i] = as_float(__ldg(after.bias + at * after.bias_row_step));
        }
    }
#endif
#ifdef HAS_ACTIVATION
    __device__ __forceinline__ void leave_as_z(int box, unsigned int shared) const {
        fence_for_copies();
        __syncwarp();
        if (lane == 0) store_box(shared, after.z, column + first_column(box), row, item);
        commit_stores();
    }
#endif

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
};

#endif
