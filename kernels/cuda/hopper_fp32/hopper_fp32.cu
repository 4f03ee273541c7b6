// fp32 on the CUDA cores of Hopper: threads that do little else than multiply.
//
// The copy engine loads boxes of both operands into a ring of stages, at the request of the warp that is ahead, so none
// spends instructions on addresses. Both come with rows of k (A transposed before, where it does not lie so): a step of
// k is read at fixed distances from one register, 16 rows and 8 columns of a thread.
//
// Blocks stay. What does not fill a last wave of tiles is cut along k among all of them ("stream-K", Osama et al. 2023)
// and added up in the order of k: the same operands give the same bits.
//
// Parameters: BLOCK_M, BLOCK_N, BLOCK_K, STRETCH, STAGES.
#include "common.cuh"
#include "dependent_launch.cuh"
#include "gate.cuh"
#include "hopper.cuh"
#include "stream_k_sums.cuh"

constexpr int WARP_M = 64, WARP_N = 64, WARPS_N = BLOCK_N / WARP_N;
constexpr int WARPS = BLOCK_M / WARP_M * WARPS_N, THREADS = WARPS * 32;
// Of a thread: enough for the sums, and for operands of a step and a half. With the 254 that there is room for, the
// compiler reads a whole step ahead, six reads in a row, which hold up the scheduler; so it does with some numbers near
// this one (docs/notes/hopper_fp32.md). With a gate the compiler orders them otherwise, and this number is the one with
// the speed of the kernel without a gate.
#ifdef GATED
constexpr int MAX_REGISTERS = 198;
#else
constexpr int MAX_REGISTERS = 206;
#endif
constexpr int ROWS = 16, COLUMNS = 8;  // of a thread
constexpr int SUMS = ROWS * COLUMNS;
constexpr int STRETCHES = BLOCK_K / STRETCH;  // of a stage
constexpr int BOX = 128;                      // rows of A, or columns of B
constexpr int ROW_BYTES = BOX * 4, BOX_BYTES = BLOCK_K * ROW_BYTES;
constexpr int A_BOXES = BLOCK_M / BOX, B_BOXES = BLOCK_N / BOX;
constexpr int STAGE_BYTES = (A_BOXES + B_BOXES) * BOX_BYTES;
constexpr int OUT_ROWS = 16, OUT_COLUMNS = SWIZZLE_BYTES / 4, OUT_BYTES = OUT_ROWS * SWIZZLE_BYTES;  // of C
constexpr int OUT_BOXES = 2;                                                                         // of each warp
constexpr int OUT_OFFSET = STAGES * STAGE_BYTES;
constexpr int BARRIERS_OFFSET = OUT_OFFSET + WARPS * OUT_BOXES * OUT_BYTES;
constexpr int NOTES_OFFSET = BARRIERS_OFFSET + STAGES * 24, NOTES_BYTES = 120;
constexpr int SLOT_BOXES = A_BOXES > B_BOXES ? A_BOXES : B_BOXES;  // of thin tiles' ring, which leaves a box over
constexpr int THIN_SLOTS = (STAGES * (A_BOXES + B_BOXES) - 1) / SLOT_BOXES, THIN_OFFSET = NOTES_OFFSET + NOTES_BYTES;
constexpr int MAX_VECTORS = 8, VECTORS_BYTES = MAX_VECTORS * 4;  // rows or columns of a thin tile, at most
static_assert(TRANSPOSE_A && !TRANSPOSE_B, "operands come across k: as rows of k");
static_assert(WARPS == 4 || WARPS == 8, "a block's tile is four or eight of 64×64");
static_assert(BLOCK_K % STRETCH == 0 && STRETCH % 2 == 0, "steps take turns in two sets of operands");

struct Sizes {
    int m, n, k, batch;
    int items_a, items_b;  // matrices in an operand: one may serve the whole batch
    int whole_m, whole_n;  // rows and columns of C without those of thin tiles
};

struct Shared {
    unsigned int base;

    __device__ __forceinline__ unsigned int a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned int b(int stage) const { return a(stage) + A_BOXES * BOX_BYTES; }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ unsigned int issued(int stage) const { return full(2 * STAGES + stage); }
};

#include "hopper_thin.cuh"
// What follows uses `Tiles`.
#include "hopper_loads.cuh"
#include "hopper_outer.cuh"
#include "hopper_sums.cuh"
#include "hopper_thin_sums.cuh"
#include "hopper_thin_tiles.cuh"
static_assert(sizeof(Notes) <= NOTES_BYTES, "what the launch leaves for notes");

extern "C" __global__ void __maxnreg__(MAX_REGISTERS)
    hopper_fp32(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                const __grid_constant__ TensorMap map_c, const __grid_constant__ TensorMap vectors_a,
                const __grid_constant__ TensorMap vectors_b, int m, int n, int k, int batch, int items_a, int items_b,
                int whole_m, int whole_n, float4* workspace GATE) {
    if (GATE_IS_CLOSED) return;
    DYNAMIC_TILES(shared);
    const Shared at = {shared_address(shared)};
    const Sizes sizes = {m, n, k, batch, items_a, items_b, whole_m, whole_n};
    Notes& notes = *reinterpret_cast<Notes*>(shared + NOTES_OFFSET);
    const int index = threadIdx.x, warp = index / 32, lane = index % 32;
    if (index == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init_barrier(at.full(stage), 1);
            init_barrier(at.empty(stage), WARPS);
            init_barrier(at.issued(stage), 1);
        }
        publish_barriers();
        const int steps = (k + BLOCK_K - 1) / BLOCK_K, rest = k % BLOCK_K;
        const bool short_last_step = 0 < rest && rest <= BLOCK_K / 4;
        notes = {Tiles(TileGrid(sizes), batch, steps, short_last_step), Loads(), {}};
        wait_on_dependency();
        for (int stage = 0; k > 0 && stage < STAGES - 1; ++stage)
            load_stage(notes, at, map_a, map_b, sizes);
    }
    __syncthreads();
    const auto refill = [&](const PipelineState<STAGES>& done) { load_in_order(notes, at, map_a, map_b, sizes, done); };
    const Reader reader(at, warp, lane);
    PipelineState<STAGES> place;
    TileSegment segment;
    for (int wave = 0; notes.tiles.find(wave, segment); ++wave) {
        const Corner corner = notes.tiles.corner(segment.tile);
        const int row = corner.down * BLOCK_M + warp / WARPS_N * WARP_M;
        if (row >= m || corner.across * BLOCK_N + warp % WARPS_N * WARP_N >= n) {
            release_stages(at, notes, place, segment.count, lane == 0, refill);
            continue;
        }
        ThreadTile thread = {};
        const int last =
            segment.first + segment.count == notes.tiles.steps ? (k - 1) % BLOCK_K / STRETCH + 1 : STRETCHES;
        if (segment.count > 0)
            multiply_stages(at, notes, reader, place, thread, segment.count, last, lane == 0, refill);
        const PartialSums partial = {thread, workspace, segment.tile};
        if (segment.is_cut && !add_up(partial, notes.tiles.sharers_of(segment.tile), segment.tile, notes.tiles.block))
            continue;
        // The corner is found again here, so that no register keeps it while sums want all there are.
        store_sums(at, map_c, sizes, notes.tiles.corner(segment.tile), warp, lane, thread);
    }
    if (notes.tiles.begin_thin() < notes.tiles.thin)
        multiply_thin_tiles(ThinRing{at}, notes.tiles, {map_a, map_b, vectors_a, vectors_b}, map_c, sizes);
}
