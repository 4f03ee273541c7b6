// float64 on Hopper's tensor cores, fed by TMA: warps that do little else than multiply.
//
// One thread of a warpgroup of its own asks the copy engine for boxes of both operands, into a ring of stages. Eight
// warps have half of the tile's rows and a quarter of its columns each, and registers that the first warpgroup gave up.
// Blocks stay, so the next tile's boxes arrive while sums of the one before are stored.
//
// Parameters: BLOCK_M, BLOCK_N, BLOCK_K, STEP, STAGES.
#include "dependent_launch.cuh"
#include "dmma_tiles.cuh"
#include "gate.cuh"
#include "hopper.cuh"

constexpr int WARPS_M = 2, WARPS_N = 4, WARPS = WARPS_M * WARPS_N, THREADS = WARPS * 32 + WARPGROUP;
constexpr int WARP_M = BLOCK_M / WARPS_M, WARP_N = BLOCK_N / WARPS_N;
constexpr int BOX = SWIZZLE_BYTES / 8;                // elements in a row of a box
constexpr int GROUP_BYTES = 8 * SWIZZLE_BYTES;        // of 8 rows of a box
constexpr int A_BOX_BYTES = BLOCK_M * SWIZZLE_BYTES;  // of all rows of A, and 16 steps of k
constexpr int B_BOX_BYTES = BLOCK_K * SWIZZLE_BYTES;  // of 16 columns of B, and all steps
constexpr int A_BYTES = BLOCK_K / BOX * A_BOX_BYTES, B_BYTES = BLOCK_N / BOX * B_BOX_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int OUT_BOXES = 2, OUT_OFFSET = STAGES * STAGE_BYTES;  // boxes of C on their way out, of each warp
constexpr int BARRIERS_OFFSET = OUT_OFFSET + WARPS * OUT_BOXES * GROUP_BYTES;
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(!TRANSPOSE_A && !TRANSPOSE_B, "A comes along k, B across it");
static_assert(WARP_M % 8 == 0 && BLOCK_M % WARPS_M == 0, "a warp's rows are groups of eight");
static_assert(WARP_N % SQUARE == 0 && BLOCK_N % WARPS_N == 0, "a warp's columns are slabs of 16");
static_assert(STEP == 16, "two steps of eight are read as pairs");
static_assert(BLOCK_K % (2 * STEP) == 0, "slabs of B take turns in two sets of registers");

struct Sizes {
    int m, n, k, batch;
    int items_a, items_b;  // matrices in an operand: one may serve the whole batch
};

struct Shared {
    unsigned int base;

    __device__ __forceinline__ unsigned int stage(int index) const { return base + index * STAGE_BYTES; }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
};

struct Corner {
    int row, column, item;  // of a tile's first element in C, and which product of the batch
};

// Blocks next to each other take tiles of eight rows of tiles, column by column: they share more than those of a row.
struct Tiles {
    static constexpr int ROWS = 8;
    int down, across, count;

    __device__ __forceinline__ explicit Tiles(const Sizes& of)
        : down((of.m + BLOCK_M - 1) / BLOCK_M),
          across((of.n + BLOCK_N - 1) / BLOCK_N),
          count(down * across * of.batch) {}

    __device__ __forceinline__ Corner corner(int tile) const {
        const int item = tile / (down * across), of_item = tile % (down * across);
        const int first = of_item / (ROWS * across) * ROWS, within = of_item % (ROWS * across);
        const int rows = min(down - first, ROWS);
        return {(first + within % rows) * BLOCK_M, within / rows * BLOCK_N, item};
    }
};

typedef PipelineState<STAGES> Place;

// Warps of a scheduler (every fourth one) have other rows and columns, so that all schedulers share a tile half in C.
__device__ __forceinline__ int row_of(int warp) { return warp / WARPS_N * WARP_M; }
__device__ __forceinline__ int column_of(int warp) { return (warp + warp / WARPS_N * 2) % WARPS_N * WARP_N; }

#include "hopper_dmma.cuh"

__device__ __forceinline__ void load_tiles(const Shared& at, const TensorMap& map_a, const TensorMap& map_b,
                                           const Sizes& sizes) {
    const Tiles tiles(sizes);
    Place place;
    for (int tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
        const Corner corner = tiles.corner(tile);
        const int item_a = sizes.items_a > 1 ? corner.item : 0, item_b = sizes.items_b > 1 ? corner.item : 0;
        for (int depth = 0; depth < sizes.k; depth += BLOCK_K, place.advance()) {
            const unsigned int a = at.stage(place.stage), full = at.full(place.stage);
            wait_barrier(at.empty(place.stage), place.parity ^ 1);
            arrive_expecting(full, STAGE_BYTES);
#pragma unroll
            for (int box = 0; box < BLOCK_K / BOX; ++box)
                load_box(a + box * A_BOX_BYTES, map_a, full, depth + box * BOX, corner.row, item_a);
#pragma unroll
            for (int box = 0; box < BLOCK_N / BOX; ++box)
                load_box(a + A_BYTES + box * B_BOX_BYTES, map_b, full, corner.column + box * BOX, depth, item_b);
        }
    }
}

__device__ __forceinline__ void multiply_tiles(const Shared& at, const TensorMap& map_c, const Sizes& sizes) {
    const Tiles tiles(sizes);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stages = (sizes.k + BLOCK_K - 1) / BLOCK_K;
    Place place;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles.count; tile += gridDim.x) {
        const Corner corner = tiles.corner(tile);
        if (corner.row + row_of(warp) >= sizes.m || corner.column + column_of(warp) >= sizes.n) {
            for (int left = stages; left > 0; --left, place.advance()) {
                wait_barrier(at.full(place.stage), place.parity);
                __syncwarp();  // a lane that came a whole ring late would wait for another phase
                if (lane == 0) arrive(at.empty(place.stage));
            }
            continue;
        }
        WarpProduct product(row_of(kept(warp)), column_of(kept(warp)), kept(lane));
        if (stages > 0) product.multiply_stages(at, place, stages, lane == 0);
        // The corner is found again here, so that no register keeps it while sums want all there are.
        const Corner again = tiles.corner(kept(tile));
        product.store(at, map_c, sizes, again, kept(warp));
    }
    wait_stores_read<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    hopper_fp64(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                const __grid_constant__ TensorMap map_c, int m, int n, int k, int batch, int items_a,
                int items_b GATE) {
    if (GATE_IS_CLOSED) return;
    DYNAMIC_TILES(shared);
    const Shared at = {shared_address(shared)};
    const Sizes sizes = {m, n, k, batch, items_a, items_b};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), WARPS);
        }
        publish_barriers();
    }
    wait_on_dependency();
    __syncthreads();
    if (threadIdx.x >= WARPS * 32) {
        give_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x == WARPS * 32) load_tiles(at, map_a, map_b, sizes);
    } else {
        take_registers<CONSUMER_REGISTERS>();
        launch_dependents();
        multiply_tiles({static_cast<unsigned int>(kept(at.base))}, map_c, sizes);
    }
}
