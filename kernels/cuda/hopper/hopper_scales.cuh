// Block scales of 8-bit operands, included by hopper_product.cuh: how a consumer multiplies operands that have some. The
// tensor cores' sums end with each stage, which is 128 steps of k, and so is a scale; each row of A has scales of its
// own, and so has each column of B, or each SCALE_COLUMNS = 128 of them. Partial sums are multiplied by both as they are
// added up in float32. (DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.3.2, and DeepGEMM have these sizes.)
//
// A consumer has one set of partial sums, and while it adds them the tensor cores work for the other consumer. So rounds
// are wide, and the operands are read less often than by two sets of narrow ones (hopper_promoted.cuh). Of tiles of 256
// columns each consumer has half the columns and all rows, 64 after 64.
//
// Scales lie stage by stage, and one stage more is there than is multiplied. Rows and columns are padded beyond the last
// tile. So nothing here asks where the matrix ends. Those of 128 columns are few: threads read the next stage's while
// this one's are used. Those of single columns are brought into shared memory with the stage (`load_scales`), and lie so
// that a thread's of 16 columns are next to each other.
#pragma once

static_assert(PROMOTED && STEP == 128, "scales are of 128 steps of k, and of sums that are promoted");
static_assert(SCALE_COLUMNS == 1 || SCALE_COLUMNS == 128, "SCALE_COLUMNS is 1 or 128");
static_assert(BLOCK_N != 192 || SCALE_COLUMNS == 1, "tiles of 192 columns begin within a block of scales");

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ float read_scale(const float* from) {
    float scale;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(scale) : "l"(from));
    return scale;
}

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

constexpr int BOXES_DOWN = BLOCK_N == 256 ? CONSUMERS : 1;  // of rows that a consumer has
constexpr int WIDTH = BLOCK_N / BOXES_DOWN;                 // of columns

// ---- of the producer, where columns of B have scales of their own ----
__device__ __forceinline__ void load_scales(const Shared& at, const Scales& scales, const Work& work, int step,
                                            int stage) {
    const float* const a = scales.a + (work.item * scales.stride_a + step * scales.pitch_a + work.row);
    const float* const b = scales.b + (work.item * scales.stride_b + step * scales.pitch_b + work.column);
    load_run(at.scales(stage), a, at.full(stage), BLOCK_M * 4);
    load_run(at.scales(stage) + BLOCK_M * 4, b, at.full(stage), BLOCK_N * 4);
}

// ---- of a consumer ----
// What it has of a tile, as a whole tile would begin of which it had 64 rows.
__device__ __forceinline__ Work share_of(const Work& work, int consumer) {
    const int across = BOXES_DOWN == 1 ? 0 : consumer * WIDTH, up = BOXES_DOWN == 1 ? 0 : consumer * BOX;
    return {work.row - up, work.column + across, work.item, min(WIDTH, work.columns - across)};
}

// Of a thread's two rows in each box, and of 128 columns.
template <int DOWN>
class BlockScales {
    const Scales& scales;
    int next_a, next_b;  // where those of the next stage begin
    float a[DOWN][2], b, coming_a[DOWN][2], coming_b;

    __device__ __forceinline__ void fetch() {
#pragma unroll
        for (int box = 0; box < DOWN; ++box) {
            coming_a[box][0] = read_scale(scales.a + next_a + box * BOX);
            coming_a[box][1] = read_scale(scales.a + next_a + box * BOX + 8);
        }
        coming_b = read_scale(scales.b + next_b);
    }

public:
    __device__ __forceinline__ BlockScales(const Scales& given, const Work& share, int consumer)
        : scales(given),
          next_a(share.item * given.stride_a + share.row + consumer * BOX + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4),
          next_b(share.item * given.stride_b + share.column / SCALE_COLUMNS) {
        fetch();
    }

    __device__ __forceinline__ void next_stage(unsigned int) {
#pragma unroll
        for (int box = 0; box < DOWN; ++box) {
            a[box][0] = coming_a[box][0] * coming_b;
            a[box][1] = coming_a[box][1] * coming_b;
        }
        next_a += scales.pitch_a;
        next_b += scales.pitch_b;
        fetch();
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM (&sums)[COUNT], int box) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            sums[i] = fmaf(partial[i], a[box][i / 2 % 2], sums[i]);
    }
};

// The same where each column has scales of its own.
template <int DOWN>
class ColumnScales {
    unsigned int first_a, first_b;  // in a stage's
    unsigned int of_a, of_b;

public:
    __device__ __forceinline__ ColumnScales(const Scales&, const Work&, int consumer)
        : first_a((threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + (DOWN == 1 && BOXES_DOWN == 1 ? consumer * BOX : 0)) * 4),
          first_b(BLOCK_M * 4 + threadIdx.x % 4 * 16 + (BOXES_DOWN == 1 ? 0 : consumer * WIDTH * 4)) {}

    __device__ __forceinline__ void next_stage(unsigned int shared) {
        of_a = shared + first_a;
        of_b = shared + first_b;
    }

    template <int COUNT>
    __device__ __forceinline__ void add(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM (&sums)[COUNT], int box) const {
        const float a[2] = {read_one(of_a + box * BOX * 4), read_one(of_a + box * BOX * 4 + 32)};
#pragma unroll
        for (int i = 0; i < COUNT; i += 8) {  // 16 columns, of which a thread has four in two rows
            float b[4];
            read_four(b, of_b + i * 8);
#pragma unroll
            for (int j = 0; j < 8; ++j)
                sums[i + j] = fmaf(partial[i + j], a[j / 2 % 2] * b[j / 4 * 2 + j % 2], sums[i + j]);
        }
    }
};

#if SCALE_COLUMNS == 1
template <int DOWN>
using TileScales = ColumnScales<DOWN>;
#else
template <int DOWN>
using TileScales = BlockScales<DOWN>;
#endif

template <int N, int DOWN, typename... Follows>
__device__ __forceinline__ void multiply_scaled(const Shared& at, int given_consumer, int steps, StageState& place,
                                                HOPPER_SUM (&sums)[DOWN][N / 2], TileScales<DOWN>& scales, Follows&... follow) {
    const int consumer = alike(given_consumer);
    HOPPER_SUM partial[N / 2] = {};
#ifdef ORDERED
    if (consumer == 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
#endif
#pragma unroll 1
    for (int step = 0; step < steps; ++step, place.advance()) {
        const int stage = alike(place.stage);
        wait_barrier(at.full(place.stage), place.parity);
        const unsigned long long b = tile_descriptor(at.b(stage, BOXES_DOWN == 1 ? 0 : consumer * (WIDTH / BOX)), BOX_BYTES);
        const unsigned long long a = tile_descriptor(at.a(stage, BOXES_DOWN == 1 ? consumer : 0), BOX_BYTES);
#pragma unroll
        for (int box = 0; box < DOWN; ++box) {
#ifdef ORDERED
            asm volatile("bar.sync %0, 256;" ::"r"(1 + consumer) : "memory");
#endif
            fence_sums();
            Mma<N>::begin(partial, moved(a, box * BOX_BYTES), b);
#pragma unroll
            for (int part = 1; part < PARTS; ++part) {
#if defined(ORDERED) && ORDERED > 0
                if (part == ORDERED) commit_products();
#endif
                Mma<N>::add(partial, moved(a, box * BOX_BYTES + part * DEPTH_BYTES), moved(b, part * DEPTH_BYTES));
            }
            commit_products();
#ifdef ORDERED
            if (ORDERED > 0) wait_products<1>();
            asm volatile("bar.arrive %0, 256;" ::"r"(2 - consumer) : "memory");
#endif
            if (box == 0) scales.next_stage(at.scales(place.stage));
            if (step == 0 && box == 0) (follow.begin(), ...);
            wait_products<0>();
            settle(partial);
            const bool is_last = box + 1 == DOWN;
            if (is_last && RELEASES == 1) release(at, place.stage);
            scales.add(partial, sums[box], box);
            if (is_last && RELEASES > 1) {
                __syncwarp();
                release(at, place.stage);
            }
        }
    }
#ifdef ORDERED
    if (consumer == 0) asm volatile("bar.sync 1, 256;" ::: "memory");
#endif
}
