// A product on Hopper's tensor cores. Of a block's three warpgroups one brings boxes of both operands into a ring of
// stages, by bulk tensor copies; two multiply 64 rows of the block's tile each, straight out of shared memory. Blocks
// stay resident and go from tile to tile, so the ring never runs dry between two.
//
// The blocks of a cluster need the same columns of B: each copies a part of them, for all.
//
// Parameters: BLOCK_M, BLOCK_N, STAGES, CLUSTER. Techniques: CUTLASS's warp-specialised persistent kernels for sm_90,
// and P. Shah's "Outperforming cuBLAS on H100" (2024).
#pragma once

#include "common.cuh"
#include "hopper_mma.cuh"
#include "hopper_schedule.cuh"

constexpr int CONSUMERS = 2;  // warpgroups
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 224;
constexpr int GROUP_M = 8;  // rows of clusters whose tiles are computed at about the same time
constexpr int BOX = 64;     // rows and columns of a box: 64 × 128 bytes
constexpr int STEP = SWIZZLE_BYTES / sizeof(Element);  // of k, in a stage
constexpr int BOX_BYTES = BOX * SWIZZLE_BYTES;
constexpr int BOXES = BLOCK_N / BOX;  // of B in a stage; of A, one for each consumer
constexpr int STAGE_BYTES = (CONSUMERS + BOXES) * BOX_BYTES;
constexpr int OUT_BYTES = 16 * SWIZZLE_BYTES;  // of C: 16 rows of a warp
constexpr int OUT_COLUMNS = SWIZZLE_BYTES / sizeof(Product);
constexpr int OUT_BOXES = 2;  // of a warp, written and stored in turn
constexpr int OUT_OFFSET = STAGES * STAGE_BYTES;
constexpr int BARRIERS_OFFSET = OUT_OFFSET + CONSUMERS * 4 * OUT_BOXES * OUT_BYTES;
constexpr int DEPTH_BYTES = 32;  // of an operand's row, that one instruction multiplies
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
static_assert(STEP == BOX || (A_ALONG_K && B_ALONG_K), "only 16-bit operands may lie across k");
static_assert(BLOCK_M == CONSUMERS * BOX, "BLOCK_M is 128");
static_assert(BLOCK_N % BOX == 0 && BLOCK_N <= 256, "BLOCK_N is 64, 128, 192 or 256");

typedef Schedule<BLOCK_M, BLOCK_N, CLUSTER, GROUP_M> TileSchedule;
typedef RingPlace<STAGES> Place;

struct Sizes {
    int m, n, k, batch;
    int items_a, items_b;  // matrices in an operand: one may serve the whole batch

    __device__ __forceinline__ int steps() const { return (k + STEP - 1) / STEP; }
};

struct Shared {
    unsigned int base;

    __device__ __forceinline__ unsigned int a(int stage, int consumer) const {
        return base + stage * STAGE_BYTES + consumer * BOX_BYTES;
    }
    __device__ __forceinline__ unsigned int b(int stage, int box) const { return a(stage, CONSUMERS + box); }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
};

// ---- the producer: one thread ----
__device__ __forceinline__ void load_b(const Shared& at, const TensorMap& map, const Work& work, int item, int depth,
                                       int stage, int boxes, int rank) {
    for (int box = rank; box < boxes; box += CLUSTER) {
        const int column = work.column + box * BOX, x = B_ALONG_K ? depth : column, y = B_ALONG_K ? column : depth;
        if (CLUSTER > 1)
            load_box_for((1 << CLUSTER) - 1, at.b(stage, box), map, at.full(stage), x, y, item);
        else
            load_box(at.b(stage, box), map, at.full(stage), x, y, item);
    }
}

__device__ __forceinline__ void produce(const Shared& at, const TileSchedule& schedule, const TensorMap& map_a,
                                        const TensorMap& map_b, const Sizes& sizes) {
    Place place;
    Work work;
    for (int turn = 0; schedule.find(turn, work); ++turn) {
        const int boxes_a = min(CONSUMERS, max(0, (sizes.m - work.row + BOX - 1) / BOX));
        const int boxes_b = min(BOXES, (sizes.n - work.column + BOX - 1) / BOX);
        const int item_a = sizes.items_a > 1 ? work.item : 0, item_b = sizes.items_b > 1 ? work.item : 0;
        for (int depth = 0; depth < sizes.k; depth += STEP, place.advance()) {
            wait_barrier(at.empty(place.stage), place.parity ^ 1);
            arrive_expecting(at.full(place.stage), (boxes_a + boxes_b) * BOX_BYTES);
            for (int box = 0; box < boxes_a; ++box) {
                const int row = work.row + box * BOX, x = A_ALONG_K ? depth : row, y = A_ALONG_K ? row : depth;
                load_box(at.a(place.stage, box), map_a, at.full(place.stage), x, y, item_a);
            }
            load_b(at, map_b, work, item_b, depth, place.stage, boxes_b, schedule.rank);
        }
    }
}

// ---- a consumer: a warpgroup ----
// Every block of the cluster may write into this stage again, once all have said so.
__device__ __forceinline__ void release(const Shared& at, int stage) {
    const int rank = threadIdx.x % WARPGROUP;
    if (CLUSTER == 1) {
        if (rank == 0) arrive(at.empty(stage));
    } else if (rank < CLUSTER) {
        arrive_at_rank(at.empty(stage), rank);
    }
}

// Where the next instruction's part of an operand begins.
__device__ __forceinline__ int part_offset(bool along_k, int part) {
    return part * (along_k ? DEPTH_BYTES : DEPTH_BYTES / static_cast<int>(sizeof(Element)) * SWIZZLE_BYTES);
}

template <int N>
__device__ __forceinline__ void multiply_stages(const Shared& at, int consumer, int steps, Place& place,
                                                HOPPER_SUM (&sums)[N / 2]) {
    int before = -1;
    for (int step = 0; step < steps; ++step, place.advance()) {
        wait_barrier(at.full(place.stage), place.parity);
        const unsigned long long a = tile_descriptor(at.a(place.stage, consumer), BOX_BYTES);
        const unsigned long long b = tile_descriptor(at.b(place.stage, 0), BOX_BYTES);
        fence_sums();
#pragma unroll
        for (int part = 0; part < SWIZZLE_BYTES / DEPTH_BYTES; ++part)
            Mma<N>::add(sums, moved(a, part_offset(A_ALONG_K, part)), moved(b, part_offset(B_ALONG_K, part)));
        commit_products();
        wait_products<1>();  // the stage before
        if (before >= 0) release(at, before);
        before = place.stage;
    }
    wait_products<0>();
    if (before >= 0) release(at, before);
}

__device__ __forceinline__ unsigned int narrowed(HOPPER_SUM low, HOPPER_SUM high) {
    unsigned int pair;
    asm(HOPPER_NARROW " %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// A warp's 16 rows, box by box: no other thread takes part.
template <int N>
__device__ __forceinline__ void store_sums(const Shared& at, const TensorMap& map, const Sizes& sizes, const Work& work,
                                           int consumer, int& boxes_stored, const HOPPER_SUM (&sums)[N / 2]) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row = work.row + consumer * BOX + warp * 16;
    if (row >= sizes.m) return;
    const unsigned int out = at.base + OUT_OFFSET + (consumer * 4 + warp) * OUT_BOXES * OUT_BYTES;
    const int line = lane % 16, half = lane / 16;  // which row this lane gives the address of, and which chunk of two
#pragma unroll
    for (int box = 0; box < N / OUT_COLUMNS; ++box) {
        const int column = work.column + box * OUT_COLUMNS;
        if (column >= sizes.n) break;
        const unsigned int shared = out + boxes_stored++ % OUT_BOXES * OUT_BYTES;
        wait_stores_read<OUT_BOXES - 1>();
        __syncwarp();
#pragma unroll
        for (int chunk = 0; chunk < 8; chunk += 2) {
            const HOPPER_SUM* const four = &sums[(box * 8 + chunk) * 4];
            const unsigned int pairs[4] = {narrowed(four[0], four[1]), narrowed(four[2], four[3]),
                                           narrowed(four[4], four[5]), narrowed(four[6], four[7])};
            store_matrices(shared + line * SWIZZLE_BYTES + ((chunk + half) ^ (line % 8)) * 16, pairs);
        }
        fence_for_copies();
        __syncwarp();
        if (lane == 0) store_box(shared, map, column, row, work.item);
        commit_stores();
    }
}

template <int N>
__device__ __forceinline__ void consume_tile(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                             const Work& work, int consumer, Place& place, int& boxes_stored) {
    HOPPER_SUM sums[N / 2] = {};
    multiply_stages<N>(at, consumer, sizes.steps(), place, sums);
    store_sums<N>(at, map, sizes, work, consumer, boxes_stored, sums);
}

// Rows that lie below C are not multiplied, but their stages are released as they come.
__device__ __forceinline__ void pass_tile(const Shared& at, int steps, Place& place) {
    for (int step = 0; step < steps; ++step, place.advance()) {
        wait_barrier(at.full(place.stage), place.parity);
        release(at, place.stage);
    }
}

__device__ __forceinline__ void consume(const Shared& at, const TileSchedule& schedule, const TensorMap& map,
                                        const Sizes& sizes, int consumer) {
    Place place;
    Work work;
    int boxes_stored = 0;
    for (int turn = 0; schedule.find(turn, work); ++turn) {
        const int columns = sizes.n - work.column;
        if (work.row + consumer * BOX >= sizes.m)
            pass_tile(at, sizes.steps(), place);
        else if (BLOCK_N > 64 && columns <= 64)
            consume_tile<64>(at, map, sizes, work, consumer, place, boxes_stored);
        else if (BLOCK_N > 128 && columns <= 128)
            consume_tile<128>(at, map, sizes, work, consumer, place, boxes_stored);
        else
            consume_tile<BLOCK_N>(at, map, sizes, work, consumer, place, boxes_stored);
    }
    wait_stores_read<0>();
}

__device__ __forceinline__ void multiply_tiles(unsigned char* shared, const TensorMap& a, const TensorMap& b,
                                               const TensorMap& c, const Sizes& sizes) {
    const Shared at = {shared_address(shared)};
    const int warpgroup = threadIdx.x / WARPGROUP;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), CONSUMERS * CLUSTER);
        }
        publish_barriers();
    }
    cluster_barrier();
    const TileSchedule schedule(sizes.m, sizes.n, sizes.batch, cluster_rank());
    if (warpgroup == CONSUMERS) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * WARPGROUP) produce(at, schedule, a, b, sizes);
    } else {
        take_registers<CONSUMER_REGISTERS>();
        consume(at, schedule, c, sizes, warpgroup);
    }
    cluster_barrier();  // no block ends while others of its cluster still write or arrive in its shared memory
}
