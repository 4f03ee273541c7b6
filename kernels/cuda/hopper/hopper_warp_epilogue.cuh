// The epilogue (hopper_epilogue.cuh) of a warp that stores its sums box by box. What it needs is fetched while the
// tensor cores work: C's boxes as hopper_warp_addend.cuh says; a bias for rows as two numbers of each thread. A bias
// for columns is kept in registers, and written to shared memory at the end, for the whole warpgroup. With CUT warps
// store without each other, and each reads it from global memory.
#pragma once

#ifdef EPILOGUE
#include "hopper_warp_addend.cuh"

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void write_one(unsigned int shared, float number) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(number) : "memory");
}
#endif

template <int N>
class WarpEpilogue : public WarpAddend<N> {
    typedef WarpAddend<N> Addend;
    using Addend::column;
    using Addend::epilogue;
    using Addend::first_column;
    using Addend::item;
    using Addend::lane;
    using Addend::out;
    using Addend::row;

    const int number;                // of the warpgroup's barrier
    const unsigned int column_bias;  // where a bias for columns is in shared memory
    float row_bias[2] = {}, own_columns[2] = {};

public:
    __device__ __forceinline__ WarpEpilogue(const Epilogue& epilogue, const Shared& at, const Work& work, int consumer,
                                            int boxes_stored)
        : Addend(epilogue, at, work, consumer, boxes_stored),
          number(1 + consumer),
          column_bias(at.base + BIAS_OFFSET + consumer * BIAS_BYTES) {}

    // While the first products run, which do not depend on any of this.
    __device__ __forceinline__ void begin() {
        this->load_first();
#ifdef HAS_BIAS
        if (epilogue.bias_column_step) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int at = threadIdx.x % WARPGROUP * 2 + i;
                if (at < N && column + at < epilogue.columns)
                    own_columns[i] = as_float(__ldg(epilogue.bias + (column + at) * epilogue.bias_column_step));
            }
        } else {
            load_row_bias();
        }
#endif
    }

#ifdef CUT
    // In place of `begin` and `share_bias`, after the last product, for one warp alone.
    __device__ __forceinline__ void begin_in_one_warp() {
        this->load_first();
#ifdef HAS_BIAS
        if (epilogue.bias_column_step == 0) load_row_bias();
#endif
    }
#endif

    // A bias for columns, from the threads that loaded it to all of the warpgroup: once none of these reads the one of
    // the tile before.
    __device__ __forceinline__ void share_bias() const {
#ifdef HAS_BIAS
        if (epilogue.bias_column_step == 0) return;
        sync_warpgroup(number);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (threadIdx.x % WARPGROUP * 2 + i < N)
                write_one(column_bias + (threadIdx.x % WARPGROUP * 2 + i) * 4, own_columns[i]);
        sync_warpgroup(number);
#endif
    }

    // D's box `d` of these sums. C's is at `shared`.
    template <int COUNT>
    __device__ __forceinline__ void apply(HOPPER_SUM (&d)[COUNT], const HOPPER_SUM* sums, int box,
                                          unsigned int shared) const {
#ifdef HAS_ADDEND
        wait_copies<OUT_BOXES - 1>();
        __syncwarp();
#endif
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
#pragma unroll
            for (int j = 0; j < 4; ++j)
                d[i + j] = sums[i + j] * epilogue.alpha;
#ifdef HAS_ADDEND
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int line = lane / 4 + half * 8;
                float c[2];
                this->read_c(c, shared + line * SWIZZLE_BYTES, i / 4, line % 8);
                d[i + half * 2] = fmaf(epilogue.beta, c[0], d[i + half * 2]);
                d[i + half * 2 + 1] = fmaf(epilogue.beta, c[1], d[i + half * 2 + 1]);
            }
#endif
#ifdef HAS_BIAS
            float of_column[2] = {};
            if (epilogue.bias_column_step) read_column_bias(of_column, first_column(box) + i * 2 + lane % 4 * 2);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                d[i + j] += of_column[j % 2] + row_bias[j / 2];
#endif
        }
#ifdef HAS_ADDEND
        __syncwarp();  // before others of the warp write D over C
#endif
    }

#ifdef HAS_ACTIVATION
    // Z's box, at `shared`, is written: stores it, and returns where D = activation(Z) is. With one box only, or where
    // C's boxes take the others, D is written over Z, once that has been stored.
    __device__ __forceinline__ unsigned int activate(int box, unsigned int shared, int& boxes_stored) const {
#ifdef HAS_ADDEND
        constexpr bool is_over_z = true;
#else
        constexpr bool is_over_z = OUT_BOXES == 1;
#endif
        if constexpr (is_over_z) {
            store_z(box, shared);
            wait_stores_read<0>();
            __syncwarp();
            activate_box<32>(shared, shared, lane);
        } else {
            const unsigned int z = shared;
            shared = out + boxes_stored++ % OUT_BOXES * OUT_BYTES;
            wait_stores_read<0>();  // D's box before this one
            __syncwarp();
            activate_box<32>(z, shared, lane);
            store_z(box, z);
        }
        return shared;
    }
#endif

private:
#ifdef HAS_BIAS
    __device__ __forceinline__ void load_row_bias() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = row + lane / 4 + i * 8;
            if (at < epilogue.rows) row_bias[i] = as_float(__ldg(epilogue.bias + at * epilogue.bias_row_step));
        }
    }

    // Of two adjacent columns of the tile.
    __device__ __forceinline__ void read_column_bias(float (&of_column)[2], int first) const {
#ifdef CUT
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = column + first + i;
            if (at < epilogue.columns) of_column[i] = as_float(__ldg(epilogue.bias + at * epilogue.bias_column_step));
        }
#else
        unsigned int words[2];
        read_two(words, column_bias + first * 4);
        of_column[0] = __uint_as_float(words[0]);
        of_column[1] = __uint_as_float(words[1]);
#endif
    }
#endif

#ifdef HAS_ACTIVATION
    __device__ __forceinline__ void store_z(int box, unsigned int shared) const {
        fence_for_copies();
        __syncwarp();
        if (lane == 0) store_box(shared, epilogue.z, column + first_column(box), row, item);
        commit_stores();
    }
#endif
};

#endif
