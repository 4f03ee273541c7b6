// fp32 on the CUDA cores of Hopper: one thread of a block feeds the others, which do little else than multiply.
//
// The copy engine brings boxes of both operands into a ring of stages, so that no warp spends instructions on addresses
// or waits for its neighbours. A lies along k as it is stored, and is read so too: four steps of k of a row at once,
// which is as few reads as A turned would take, and spares the turning. A thread keeps 16×8 sums, four steps of its
// eight columns of B, and four rows of A at a time, the next four on their way.
//
// Blocks stay, one a multiprocessor. What does not fill a last wave of tiles is cut along k among all of them
// ("stream-K", Osama et al. 2023), and added up in the order of k: the same operands give the same bits.
#include "common.cuh"
#include "hopper.cuh"
#include "hopper_sharing.cuh"

constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int WARP_M = 64, WARP_N = 64, WARPS_N = BLOCK_N / WARP_N;
constexpr int ROWS = 16, COLUMNS = 8;  // of a thread
constexpr int SUMS = ROWS * COLUMNS;
constexpr int BATCH = 4;  // steps of k that a thread takes up at once: 16 bytes of a row of A
constexpr int BATCHES = BLOCK_K / BATCH;
constexpr int BOX_COLUMNS = SWIZZLE_BYTES / 4;
constexpr int A_BYTES = BLOCK_M * SWIZZLE_BYTES, B_BOX_BYTES = BLOCK_K * SWIZZLE_BYTES;
constexpr int B_BOXES = BLOCK_N / BOX_COLUMNS;
constexpr int STAGE_BYTES = A_BYTES + B_BOXES * B_BOX_BYTES;
constexpr int OUT_ROWS = 16, OUT_BYTES = OUT_ROWS * SWIZZLE_BYTES, OUT_BOXES = 2;  // of C, of each warp
constexpr int OUT_OFFSET = STAGES * STAGE_BYTES;
constexpr int BARRIERS_OFFSET = OUT_OFFSET + WARPS * OUT_BOXES * OUT_BYTES;
static_assert(BLOCK_K == BOX_COLUMNS, "a tile of A is as deep as a row of a box");
static_assert(BLOCK_M / WARP_M * WARPS_N == WARPS, "a block's tile is eight of 64×64");

typedef Sharing<BLOCK_M, BLOCK_N> Tiles;

struct Shared {
    unsigned int base;

    __device__ __forceinline__ unsigned int a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned int b(int stage, int box) const {
        return a(stage) + A_BYTES + box * B_BOX_BYTES;
    }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
};

#include "hopper_feed.cuh"

__device__ __forceinline__ void read_four(float* to, unsigned int shared) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(shared));
}

__device__ __forceinline__ void write_four(unsigned int shared, const float* from) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(from[0]), "f"(from[1]), "f"(from[2]),
                 "f"(from[3])
                 : "memory");
}

// Where a thread's operands lie. It has rows lane % 4 + 4·i of its warp's 64, and columns 4·(lane / 4) of each 32: lanes
// that are served together meet different banks.
struct Reader {
    unsigned int a, b;  // in the first stage: its first row of A, its columns of the first row of B, unpermuted

    __device__ __forceinline__ Reader(const Shared& at, int warp, int lane)
        : a(at.a(0) + (warp / WARPS_N * WARP_M + lane % 4) * SWIZZLE_BYTES + lane % 4 * 16),
          b(at.b(0, warp % WARPS_N * (WARP_N / BOX_COLUMNS)) + lane / 4 * 16) {}

    // Four rows of A from the i-th on, one batch of k; `from`: of that batch, and the row's chunks permuted.
    static __device__ __forceinline__ void rows(float (&to)[4][BATCH], unsigned int from, int i) {
#pragma unroll
        for (int row = 0; row < 4; ++row)
            read_four(to[row], (from ^ (row % 2 * 64)) + (i + row) * 4 * SWIZZLE_BYTES);
    }

    // A row of B, step `k` of an even or odd batch.
    static __device__ __forceinline__ void row_b(float (&to)[COLUMNS], unsigned int from, int k, bool odd) {
        const unsigned int at = from ^ ((odd * 4 + k) * 16);
        read_four(to, at + k * SWIZZLE_BYTES);
        read_four(to + 4, at + k * SWIZZLE_BYTES + B_BOX_BYTES);
    }
};

struct Thread {
    float sums[ROWS][COLUMNS];
    float a[2][4][BATCH];
    float b[BATCH][COLUMNS];

    __device__ __forceinline__ void multiply(int quad, int k) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int turn = 0; turn < COLUMNS; ++turn) {
                const int j = i % 2 ? COLUMNS - 1 - turn : turn;
                sums[4 * quad + i][j] = fmaf(a[quad % 2][i][k], b[k][j], sums[4 * quad + i][j]);
            }
    }

    // A batch of k, and on the way the first operands of the next one.
    template <bool ODD>
    __device__ __forceinline__ void batch(unsigned int from_a, unsigned int next_a, unsigned int next_b) {
#pragma unroll
        for (int quad = 0; quad < 4; ++quad) {
            Reader::rows(a[(quad + 1) % 2], quad < 3 ? from_a : next_a, (quad + 1) % 4 * 4);
#pragma unroll
            for (int k = 0; k < BATCH; ++k) {
                multiply(quad, k);
                if (quad == 3) Reader::row_b(b[k], next_b, k, !ODD);
            }
        }
    }
};

// Multiplies `count` stages. Within one, two batches at a time are a stretch of code without a branch, in which the
// compiler is free to spread reads among the multiply-adds; what it reads for after the last one is garbage.
template <class Refill>
__device__ __forceinline__ void multiply_stages(const Shared& at, const Reader& reader, RingPlace<STAGES>& place,
                                                Thread& thread, int count, bool speaks, Refill refill) {
    wait_barrier(at.full(place.stage), place.parity);
    unsigned int a = reader.a + place.stage * STAGE_BYTES, b = reader.b + place.stage * STAGE_BYTES;
    Reader::rows(thread.a[0], a, 0);
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
        Reader::row_b(thread.b[k], b, k, false);
    for (; count > 0; --count) {
        const int stage = place.stage;
        place.advance();
        const unsigned int after_a = reader.a + place.stage * STAGE_BYTES, after_b = reader.b + place.stage * STAGE_BYTES;
#pragma unroll 1
        for (int batch = 0; batch < BATCHES; batch += 2) {
            const bool last = batch == BATCHES - 2;
            if (last && count > 1) wait_barrier(at.full(place.stage), place.parity);
            const unsigned int odd_a = a ^ 16, odd_b = b + BATCH * SWIZZLE_BYTES;
            const unsigned int next_a = last ? after_a : a ^ (batch ^ (batch + 2)) * 16;
            const unsigned int next_b = last ? after_b : b + 2 * BATCH * SWIZZLE_BYTES;
            thread.batch<false>(a, odd_a, odd_b);
            thread.batch<true>(odd_a, next_a, next_b);
            a = next_a;
            b = next_b;
        }
        __syncwarp();
        if (speaks) arrive(at.empty(stage));
        refill();
    }
}

#include "hopper_sums.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    hopper_fp32(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                const __grid_constant__ TensorMap map_c, int m, int n, int k, int batch, int items_a, int items_b,
                unsigned char* workspace) {
    DYNAMIC_TILES(shared);
    const Shared at = {shared_address(shared)};
    const Sizes sizes = {m, n, k, batch, items_a, items_b};
    Tiles tiles(m, n, batch, (k + BLOCK_K - 1) / BLOCK_K);
    Feed feed(tiles);
    const int index = threadIdx.x, warp = index / 32, lane = index % 32;
    const auto refill = [&]() {
        if (index == 0) feed.next_stage(at, map_a, map_b, sizes);
    };
    if (index == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), WARPS);
        }
        publish_barriers();
        for (int stage = 0; stage < STAGES - 1; ++stage)
            feed.next_stage(at, map_a, map_b, sizes);
    }
    __syncthreads();
    const Reader reader(at, warp, lane);
    RingPlace<STAGES> place;
    Piece piece;
    while (tiles.next(piece)) {
        Thread thread = {};
        if (sizes.k > 0) multiply_stages(at, reader, place, thread, piece.count, index % 32 == 0, refill);
        if (piece.is_cut && !add_up(thread, tiles, piece, workspace, index)) continue;
        store_sums(at, map_c, sizes, tiles.corner(piece.tile), warp, lane, thread);
    }
}

