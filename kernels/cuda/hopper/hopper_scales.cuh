// Block scales of 8-bit operands, included by hopper_promoted.cuh: what a stage's partial sums are multiplied by before
// they are added up. A stage is 128 steps of k, and so is a scale; each row of A has scales of its own, and so has each
// column of B, or each SCALE_COLUMNS = 128 of them. (DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.3.2, and
// DeepGEMM have these sizes.)
//
// Scales lie stage by stage, and one stage more is there than is multiplied: the next stage's are read while this one's
// are used. Rows and columns are padded beyond the last tile. So nothing here asks where the matrix ends.
#pragma once

static_assert(PROMOTED && STEP == 128, "scales are of 128 steps of k, and of sums that are promoted");
static_assert(SCALE_COLUMNS == 1 || SCALE_COLUMNS == 128, "SCALE_COLUMNS is 1 or 128");
static_assert(BLOCK_N <= 128 || (BLOCK_N == 256 && SCALE_COLUMNS == 128), "registers for scales are few");

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ float read_scale(const float* from) {
    float scale;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(scale) : "l"(from));
    return scale;
}

__device__ __forceinline__ void read_two_scales(float (&to)[2], const float* from) {
    asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "l"(from));
}

struct Scales {
    const float *a, *b;
    int pitch_a, pitch_b;    // from one stage to the next
    int stride_a, stride_b;  // from one item of a batch to the next; 0 where one serves all
};
#endif

// Of one tile, and of a thread's two rows in it. Rounds are promoted in order; the first one of a stage is at column 0.
class TileScales {
    const Scales& scales;
    int next_a, next_b;  // where those of the next stage begin
    float a[2], b[2], coming_a[2], coming_b[2];

    __device__ __forceinline__ void fetch() {
        coming_a[0] = read_scale(scales.a + next_a);
        coming_a[1] = read_scale(scales.a + next_a + 8);
        if (SCALE_COLUMNS == 1) return;
        coming_b[0] = read_scale(scales.b + next_b);
        if (BLOCK_N > 128) coming_b[1] = read_scale(scales.b + next_b + 1);
    }

    __device__ __forceinline__ void next_stage() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            a[i] = coming_a[i];
            b[i] = coming_b[i];
        }
        next_a += scales.pitch_a;
        next_b += scales.pitch_b;
        fetch();
    }

public:
    // `row`, `column`: of C, where this warpgroup's rows and the tile begin.
    __device__ __forceinline__ TileScales(const Scales& given, int item, int row, int column)
        : scales(given),
          next_a(item * given.stride_a + row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4),
          next_b(item * given.stride_b + (SCALE_COLUMNS == 1 ? column + threadIdx.x % 4 * 2 : column / 128)),
          coming_b() {
        fetch();
    }

    // `sums` are those of the tile's columns from `column` on.
    template <int COUNT>
    __device__ __forceinline__ void add(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums, int column) {
        if (column == 0) next_stage();
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            const int at = column + i * 2;  // of eight columns a thread has two, in two rows
            float of_b[2];
            if (SCALE_COLUMNS == 1)
                read_two_scales(of_b, scales.b + (next_b - scales.pitch_b + at));
            else
                of_b[0] = of_b[1] = b[at / 128];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sums[i + j] = fmaf(partial[i + j], a[j / 2] * of_b[j % 2], sums[i + j]);
        }
    }
};

template <int COUNT>
__device__ __forceinline__ void promote(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums, int column,
                                        TileScales& scales) {
    scales.add(partial, sums, column);
}
