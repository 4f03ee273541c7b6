// Block scales of 8-bit operands, included by hopper_promoted.cuh: what a stage's partial sums are multiplied by before
// they are added up. A stage is 128 steps of k, and so is a scale; each row of A has scales of its own, and so has each
// column of B, or each SCALE_COLUMNS = 128 of them. (DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.3.2, and
// DeepGEMM have these sizes.)
//
// Scales lie stage by stage in memory, and are brought into shared memory with the stage that they are of: read from
// global memory they would either take registers for a stage ahead, or keep the tensor cores waiting. Rows and columns
// are padded beyond the last tile, so nothing here asks where the matrix ends. Those of 128 columns lie there four
// times, 16 bytes; those of single columns so that a thread's of 16 columns are next to each other.
#pragma once

#include "hopper_bulk.cuh"

static_assert(PROMOTED && STEP == 128, "scales are of 128 steps of k, and of sums that are promoted");
static_assert(SCALE_COLUMNS == 1 || SCALE_COLUMNS == 128, "SCALE_COLUMNS is 1 or 128");
static_assert(BLOCK_N != 192 || SCALE_COLUMNS == 1, "tiles of 192 columns begin within a block of scales");

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ float read_one(unsigned int shared) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(shared));
    return value;
}

struct Scales {
    const float *a, *b;
    int pitch_a, pitch_b;    // from one stage to the next
    int stride_a, stride_b;  // from one item of a batch to the next; 0 where one serves all
};
#endif

// ---- of the producer ----
__device__ __forceinline__ void load_scales(const Shared& at, const Scales& scales, int item, int row, int column,
                                            int step, int stage) {
    const int first = SCALE_COLUMNS == 1 ? column : column / 128 * 4;
    load_run(at.scales(stage), scales.a + (item * scales.stride_a + step * scales.pitch_a + row), at.full(stage),
             SCALES_BYTES_OF_A);
    load_run(at.scales(stage) + SCALES_BYTES_OF_A, scales.b + (item * scales.stride_b + step * scales.pitch_b + first),
             at.full(stage), SCALES_BYTES - SCALES_BYTES_OF_A);
}

// ---- of a consumer: of one tile, and of a thread's two rows in it. Rounds are promoted in order; the first one of a
// stage is at column 0. ----
class TileScales {
    static constexpr int BLOCKS = SCALE_COLUMNS == 1 ? 1 : (BLOCK_N + 127) / 128;

    const Shared& at;
    StageState place;  // of the stage that is promoted next
    const unsigned int first_a, first_b;
    unsigned int of_b;         // where those of single columns are
    float factors[BLOCKS][2];  // of both rows, with B's where 128 columns share it

    __device__ __forceinline__ void next_stage() {
        const unsigned int shared = at.scales(place.stage);
        const float a[2] = {read_one(shared + first_a), read_one(shared + first_a + 32)};
        of_b = shared + first_b;
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            const float b = SCALE_COLUMNS == 1 ? 1.0f : read_one(of_b + block * 16);
            factors[block][0] = SCALE_COLUMNS == 1 ? a[0] : a[0] * b;
            factors[block][1] = SCALE_COLUMNS == 1 ? a[1] : a[1] * b;
        }
        place.advance();
    }

public:
    // `place`: of the tile's first stage.
    __device__ __forceinline__ TileScales(const Shared& at, const StageState& place, int consumer)
        : at(at),
          place(place),
          first_a((consumer * BOX + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) * 4),
          first_b(SCALES_BYTES_OF_A + (SCALE_COLUMNS == 1 ? threadIdx.x % 4 * 16 : 0)) {}

    // `sums` are those of the tile's columns from `column` on.
    template <int COUNT>
    __device__ __forceinline__ void add(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums, int column) {
        if (column == 0) next_stage();
#pragma unroll
        for (int i = 0; i < COUNT; i += 8) {  // 16 columns, of which a thread has four in two rows
            float b[4];
            if (SCALE_COLUMNS == 1) read_four(b, of_b + column * 4 + i * 8);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float a = factors[SCALE_COLUMNS == 1 ? 0 : (column + i * 2) / 128][j / 2 % 2];
                const float times_b = SCALE_COLUMNS == 1 ? partial[i + j] * b[j / 4 * 2 + j % 2] : partial[i + j];
                sums[i + j] = fmaf(times_b, a, sums[i + j]);
            }
        }
    }
};

template <int COUNT>
__device__ __forceinline__ void promote(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums, int column,
                                        TileScales& scales) {
    scales.add(partial, sums, column);
}
