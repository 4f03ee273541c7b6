// What a block of hopper_product.cuh keeps in shared memory, and how a consumer multiplies it, stage by stage.
//
// Parameters: BLOCK_M, BLOCK_N, STAGES, CLUSTER; PROMOTE where the tensor cores' sums have too few bits
// (hopper_promoted.cuh). With HOPPER_TRANSPOSED the kernel computes Cᵀ = Bᵀ·Aᵀ (hopper_across.cuh): what is called A
// from here on is then the caller's Bᵀ, and so on.
#pragma once

#include "common.cuh"
#include "hopper_epilogue.cuh"
#include "hopper_mma.cuh"
#include "tile_groups.cuh"

constexpr int BOX = 64;                   // rows and columns of a box: 64 × 128 bytes
constexpr int CONSUMERS = BLOCK_M / BOX;  // warpgroups
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = CONSUMERS == 2 ? 224 : 152;
constexpr int STEP = SWIZZLE_BYTES / sizeof(Element);  // of k, in a stage
constexpr int BOX_BYTES = BOX * SWIZZLE_BYTES;
constexpr int BOXES = (BLOCK_N + BOX - 1) / BOX;  // of B in a stage; of A, one for each consumer
constexpr int STAGE_BYTES = (CONSUMERS + BOXES) * BOX_BYTES;
constexpr int OUT_BYTES = 16 * SWIZZLE_BYTES;  // of C: 16 rows of a warp
constexpr int OUT_COLUMNS = SWIZZLE_BYTES / sizeof(Delivered);
constexpr int OUT_OFFSET = STAGES * STAGE_BYTES;
#ifdef SCALE_COLUMNS  // of a stage: of its rows, and of its columns or of each 128 of them
constexpr bool HAS_SCALES = true;
constexpr int SCALES_BYTES_OF_A = BLOCK_M * 4;
constexpr int SCALES_BYTES = SCALES_BYTES_OF_A + (SCALE_COLUMNS == 1 ? BLOCK_N * 4 : (BLOCK_N + 127) / 128 * 16);
#else
constexpr bool HAS_SCALES = false;
constexpr int SCALES_BYTES = 0;
#endif
constexpr int SCALES_APART = (SCALES_BYTES + 127) / 128 * 128;  // from those of one stage to the next
constexpr int BARRIERS_BYTES = STAGES * 16;
#if defined(HAS_BIAS) && !defined(CUT)
constexpr int BIAS_BYTES = BLOCK_N * 4;  // of a consumer
#else
constexpr int BIAS_BYTES = 0;
#endif
constexpr int OUT_BYTES_OF_ALL = CONSUMERS * 4 * OUT_BYTES;
constexpr int LARGEST_SHARED_BYTES = 227 * 1024;
constexpr int ROOM =
    (LARGEST_SHARED_BYTES - OUT_OFFSET - STAGES * SCALES_APART - BARRIERS_BYTES - CONSUMERS * BIAS_BYTES) /
    OUT_BYTES_OF_ALL;
#ifdef HAS_ADDEND  // C comes to where D leaves from, so there is as much room for that as is left
constexpr int MOST_BOXES = (BLOCK_N + OUT_COLUMNS - 1) / OUT_COLUMNS;
#elif defined(CUT)  // and so do sums that other blocks hand over (hopper_hand_over.cuh)
constexpr int MOST_BOXES = 4;
#else
constexpr int MOST_BOXES = 2;
#endif
constexpr int OUT_BOXES = ROOM < MOST_BOXES ? ROOM : MOST_BOXES;  // of a warp, written and stored in turn
static_assert(OUT_BOXES > 0, "there is room for a box");
constexpr int SCALES_OFFSET = OUT_OFFSET + OUT_BOXES * OUT_BYTES_OF_ALL;
constexpr int BARRIERS_OFFSET = SCALES_OFFSET + STAGES * SCALES_APART;
constexpr int BIAS_OFFSET = BARRIERS_OFFSET + BARRIERS_BYTES;
constexpr int DEPTH_BYTES = 32;  // of an operand's row, that one instruction multiplies
#ifdef HOPPER_TRANSPOSED
constexpr bool FROM_REGISTERS = true, A_ALONG_K = TRANSPOSE_B, B_ALONG_K = !TRANSPOSE_A;
static_assert(!A_ALONG_K && B_ALONG_K, "of a product that is transposed both operands lie in rows, as in a plain A·B");
#else
constexpr bool FROM_REGISTERS = false, A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
#endif
// A box of A: 64 of its rows; or, where these lie across k, STEP lines of 128 bytes, or of 64 if 128 do not divide a
// tile's.
constexpr int A_LINE =
    FROM_REGISTERS && BLOCK_M * sizeof(Element) % SWIZZLE_BYTES != 0 ? SWIZZLE_BYTES / 2 : SWIZZLE_BYTES;
constexpr int A_BOX = FROM_REGISTERS ? A_LINE / static_cast<int>(sizeof(Element)) : BOX;  // rows of A
constexpr int A_BOX_BYTES = (FROM_REGISTERS ? STEP : BOX) * A_LINE, A_BOXES = BLOCK_M / A_BOX;
// Arrivals of one consumer that release a stage: one for each warp where warps read the stage themselves, and one for
// each thread where threads read scales. Then no thread's reads are ordered by way of another one's arrival.
constexpr int RELEASES = HAS_SCALES ? WARPGROUP : FROM_REGISTERS ? WARPGROUP / 32 : 1;
#ifdef PROMOTE
constexpr bool PROMOTED = PROMOTE;
#else
constexpr bool PROMOTED = false;
#endif
// By how many columns some tiles are narrower (hopper_schedule.cuh). With two sets of partial sums there are no
// registers for tiles of that width.
constexpr int LESS = BLOCK_N == 256 && !PROMOTED ? 16 : 0;
static_assert(STEP == BOX || ((A_ALONG_K || FROM_REGISTERS) && B_ALONG_K),
              "only 16-bit operands may lie across k in shared memory");
static_assert(!PROMOTED || (A_ALONG_K && B_ALONG_K), "sums are promoted of operands along k");
static_assert(BLOCK_M == 128 || (BLOCK_M == 192 && BLOCK_N <= 192), "registers are left for that many sums");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N >= BOX && BLOCK_N <= 256, "BLOCK_N is a multiple of 16 from 64 to 256");

typedef PipelineState<STAGES> StageState;

#ifndef EMULATED  // an emulation on the CPU brings its own words
// The first `bytes` of 16, at a multiple of that; zeros for the others.
__device__ __forceinline__ void copy_chunk(unsigned int shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

// A barrier of a consumer's threads. Each has a number of its own, from 1 on.
__device__ __forceinline__ void sync_warpgroup(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}
#endif

#ifdef SCALE_COLUMNS
struct Scales;
#endif

#ifdef CUT
// The partial sums of tiles that are cut along k, and how many parts of each are there (hopper_hand_over.cuh).
struct HandedOver {
    float4* parts;
    unsigned int* counters;
};
#endif

struct Sizes {
    int m, n, k, batch;
    int items_a, items_b;  // matrices in an operand: one may serve the whole batch
#ifdef SCALE_COLUMNS
    const Scales& scales;
#endif
#ifdef GROUPED
    const TensorMap& c_row;  // for copies of one row of a box of C
    const GroupStart* groups;
#endif
#ifdef PACED
    unsigned int* const counted;
#endif
#ifdef CUT
    const HandedOver handed_over;
#endif

    __device__ __forceinline__ int steps() const { return (k + STEP - 1) / STEP; }
};

struct Shared {
    unsigned int base;

    __device__ __forceinline__ unsigned int a(int stage, int consumer) const {
        return base + stage * STAGE_BYTES + consumer * BOX_BYTES;
    }
    __device__ __forceinline__ unsigned int b(int stage, int box) const { return a(stage, CONSUMERS + box); }
    __device__ __forceinline__ unsigned int scales(int stage) const {
        return base + SCALES_OFFSET + stage * SCALES_APART;
    }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
};

// Releases a stage, at every block of the cluster: a block's producer fills it again once all consumers of the cluster
// have released it.
__device__ __forceinline__ void release(const Shared& at, int stage) {
    const int rank = threadIdx.x % (WARPGROUP / RELEASES);
    if (CLUSTER == 1) {
        if (rank == 0) arrive(at.empty(stage));
    } else if (RELEASES == WARPGROUP) {
#pragma unroll
        for (int block = 0; block < CLUSTER; ++block)
            arrive_at_rank(at.empty(stage), block);
    } else if (rank < CLUSTER) {
        arrive_at_rank(at.empty(stage), rank);
    }
}

// Where the next instruction's part of an operand begins.
__device__ __forceinline__ int part_offset(bool along_k, int part) {
    return part * (along_k ? DEPTH_BYTES : DEPTH_BYTES / static_cast<int>(sizeof(Element)) * SWIZZLE_BYTES);
}

// `warp_epilogue`: none, or a WarpEpilogue, which begins while the first products run.
template <int N, typename... WarpEpilogues>
__device__ __forceinline__ void multiply_stages(const Shared& at, int consumer, int steps, StageState& place,
                                                HOPPER_SUM (&sums)[N / 2], WarpEpilogues&... warp_epilogue) {
    int before = -1;
    const int half = warp_uniform(consumer);  // so that descriptors are computed once for a warp
    for (int step = 0; step < steps; ++step, place.advance()) {
        const int stage = warp_uniform(place.stage);
        wait_barrier(at.full(place.stage), place.parity);
        const unsigned long long a = tile_descriptor(at.a(stage, half), BOX_BYTES);
        const unsigned long long b = tile_descriptor(at.b(stage, 0), BOX_BYTES);
        wgmma_fence();
#pragma unroll
        for (int part = 0; part < SWIZZLE_BYTES / DEPTH_BYTES; ++part)
            Mma<N>::add(sums, offset_descriptor(a, part_offset(A_ALONG_K, part)),
                        offset_descriptor(b, part_offset(B_ALONG_K, part)));
        wgmma_commit_group();
        if (step == 0) (warp_epilogue.begin(), ...);
        wgmma_wait_group<1>();  // the stage before
        if (before >= 0) release(at, before);
        before = place.stage;
    }
    wgmma_wait_group<0>();
    fence_accumulators(sums);
    if (before >= 0) release(at, before);
}

#include "hopper_promoted.cuh"
