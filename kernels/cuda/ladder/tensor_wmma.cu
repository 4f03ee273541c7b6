// Tensor cores: each warp multiplies 16×16 fragments, out of tiles that asynchronous copies bring into shared memory.
//
// One instruction of a warp does 16·16·16 multiply-adds where a CUDA core does one a thread. So the operands' way
// becomes the limit: a warp that keeps WARP_M×WARP_N sums reads (WARP_M+WARP_N)·16 elements for WARP_M·WARP_N·16
// multiply-adds, and only a tile of several fragments a side, each used that many times, lets shared memory keep up.
#include "async.cuh"
#include "tiles.cuh"
#include "wmma.cuh"

constexpr int FRAGMENTS_M = WARP_M / FRAGMENT, FRAGMENTS_N = WARP_N / FRAGMENT;
constexpr int WARPS_N = BLOCK_N / WARP_N, WARPS = BLOCK_M / WARP_M * WARPS_N, THREADS = WARPS * 32;
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "the block's tile is a whole number of warp tiles");
static_assert(WARP_M % FRAGMENT == 0 && WARP_N % FRAGMENT == 0, "a warp's tile is a whole number of 16×16 fragments");
static_assert(BLOCK_K % FRAGMENT == 0, "the tile's depth is a whole number of fragments");
static_assert(THREADS <= 1024, "a block is at most 32 warps");
static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");

constexpr int RUN = RUN_BYTES / sizeof(Element);  // elements of one copy
constexpr int BLOCKS =
    blocks_per_multiprocessor(THREADS, 8 * FRAGMENTS_M * FRAGMENTS_N, 8 * (FRAGMENTS_M + FRAGMENTS_N));

// Copies tiles of one operand as it is stored, one BLOCK_K after the other: fragments are read by rows or by columns,
// so nothing is transposed. `corner` is where the block's rows (of A) or columns (of B) begin; `outers` of them lie in
// the operand.
template <int OUTER, bool ALONG_K>
struct Courier {
    static constexpr int LINE = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;
    static constexpr int ROW = LINE + RUN;  // an odd number of runs: eight rows of a fragment lie in different banks
    static constexpr int ELEMENTS = LINES * ROW;
    static constexpr int ACROSS = LINE / RUN, DOWN = THREADS / ACROSS;
    static_assert(LINE % FRAGMENT == 0, "a line of the tile is a whole number of fragments");
    static_assert(THREADS % ACROSS == 0, "each thread copies runs of the same place in their lines");
    static_assert(LINES % DOWN == 0 || LINES < DOWN, "each thread copies as many runs as every other, or none");

    const Element* corner;  // of an element that there is, for copies that read none
    const Element* from;    // this thread's first run of the next tile
    Index ld, outers;
    int line, first;  // of that run within the tile
    bool aligned;

    __device__ __forceinline__ Courier(const Element* corner, Index ld, Index outers, bool aligned)
        : corner(corner),
          from(corner + threadIdx.x / ACROSS * ld + threadIdx.x % ACROSS * RUN),
          ld(ld),
          outers(outers),
          line(threadIdx.x / ACROSS),
          first(threadIdx.x % ACROSS * RUN),
          aligned(aligned) {}

    // Starts to copy the next tile, `depths` of whose steps lie in the operand. What lies outside becomes zero: 0
    // against an infinity of the other operand would make a NaN.
    template <bool GUARDED>
    __device__ __forceinline__ void copy(Element* tile, Index depths) {
        const Index lines = ALONG_K ? outers : depths, length = ALONG_K ? depths : outers;
#pragma unroll
        for (int share = 0; share < (LINES + DOWN - 1) / DOWN; ++share) {
            if (LINES < DOWN && line >= LINES) break;
            const int its_line = line + share * DOWN;
            const Element* run = from + share * DOWN * ld;
            Element* to = tile + its_line * ROW + first;
            if (!GUARDED) {
                copy_async<RUN_BYTES>(to, run, true);
                continue;
            }
            const Index left = its_line < lines ? length - first : 0;
            const int inside = left >= RUN ? RUN : left > 0 ? static_cast<int>(left) : 0;
            if (aligned) {
                copy_part_async<RUN_BYTES>(to, inside > 0 ? run : corner, inside * sizeof(Element));
            } else {
#pragma unroll
                for (int i = 0; i < RUN; ++i)
                    to[i] = i < inside ? run[i] : Element(0);
            }
        }
        from += ALONG_K ? BLOCK_K : BLOCK_K * ld;
    }

    // Where the fragment `outer` rows or columns and `depth` steps into the tile begins.
    __device__ __forceinline__ static int place(int outer, int depth) {
        return ALONG_K ? outer * ROW + depth : depth * ROW + outer;
    }
};

using CourierA = Courier<BLOCK_M, A_ALONG_K>;
using CourierB = Courier<BLOCK_N, B_ALONG_K>;
constexpr int PAIR = CourierA::ELEMENTS + CourierB::ELEMENTS;  // of one tile of A and one of B

// A warp's part of C.
struct WarpSums {
    FragmentSums at[FRAGMENTS_M][FRAGMENTS_N];

    // `row` and `column` are those of the warp's tile within the block's.
    __device__ __forceinline__ void add(const Element* pair, int row, int column) {
#pragma unroll
        for (int depth = 0; depth < BLOCK_K; depth += FRAGMENT) {
            FragmentA of_a[FRAGMENTS_M];
            FragmentB of_b[FRAGMENTS_N];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
                of_a[i].load(pair + CourierA::place(row + i * FRAGMENT, depth), CourierA::ROW);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
                of_b[j].load(pair + CourierA::ELEMENTS + CourierB::place(column + j * FRAGMENT, depth), CourierB::ROW);
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
                    at[i][j].add_product(of_a[i], of_b[j]);
        }
    }

    // Which thread has which sum, is not told: they go through shared memory, sixteen rows at a time, to be rounded
    // once and written in whole runs. `corner` is where the warp's tile of C begins; `rows`×`columns` elements lie in
    // C.
    __device__ __forceinline__ void write(float* shared, Product* corner, Index ldc, Index rows, Index columns,
                                          bool aligned) const {
        constexpr int ROW = WARP_N + RUN_BYTES / sizeof(float), ACROSS = WARP_N / RUN;
        float* const strip = shared + threadIdx.x / 32 * (FRAGMENT * ROW);
        const int lane = threadIdx.x % 32, first = lane % ACROSS * RUN;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
                at[i][j].store(strip + j * FRAGMENT, ROW);
            __syncwarp();
#pragma unroll
            for (int line = lane / ACROSS; line < FRAGMENT; line += 32 / ACROSS) {
                const int row = i * FRAGMENT + line;
                float run[RUN];
                read_run<RUN / 2>(run, strip + line * ROW + first);
                read_run<RUN / 2>(run + RUN / 2, strip + line * ROW + first + RUN / 2);
                if (row < rows) write_run<RUN>(corner + row * ldc + first, run, columns - first, aligned);
            }
            __syncwarp();
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tensor_wmma(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
                Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch) {
    DYNAMIC_SHARED(shared);
    Element* const tiles = reinterpret_cast<Element*>(shared);
    const int warp = threadIdx.x / 32, warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool aligned_a = is_aligned<RUN>(a, lda, stride_a), aligned_b = is_aligned<RUN>(b, ldb, stride_b);
    const bool aligned_c = is_aligned<RUN>(c, ldc, stride_c);
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N && aligned_a && aligned_b;
    const Index whole = interior ? k - k % BLOCK_K : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        CourierA courier_a(a + item * stride_a + tile.row * row_step_a(lda), lda, rows, aligned_a);
        CourierB courier_b(b + item * stride_b + tile.column * column_step_b(ldb), ldb, columns, aligned_b);
        WarpSums sums;
        int vacant = 0, present = 0;  // stages of the ring: to be copied to next, to be multiplied next
        // The first iterations only copy, the last only multiply.
        for (Index depth = (1 - STAGES) * BLOCK_K; depth < k; depth += BLOCK_K) {
            const Index ahead = depth + (STAGES - 1) * BLOCK_K;
            if (depth >= 0) {
                wait_copies<STAGES - 2>();
                __syncthreads();  // the present tiles are there for all, and none reads the vacant ones any more
            }
            if (ahead < whole) {
                courier_a.template copy<false>(tiles + vacant * PAIR, BLOCK_K);
                courier_b.template copy<false>(tiles + vacant * PAIR + CourierA::ELEMENTS, BLOCK_K);
            } else if (ahead < k) {
                courier_a.template copy<true>(tiles + vacant * PAIR, k - ahead);
                courier_b.template copy<true>(tiles + vacant * PAIR + CourierA::ELEMENTS, k - ahead);
            }
            commit_copies();  // also of nothing, so that groups count tiles
            vacant = vacant + 1 == STAGES ? 0 : vacant + 1;
            if (depth >= 0) {
                sums.add(tiles + present * PAIR, warp_row, warp_column);
                present = present + 1 == STAGES ? 0 : present + 1;
            }
        }
        wait_copies<0>();
        __syncthreads();  // the tiles' place is free for the sums
        Product* const corner = c + item * stride_c + (tile.row + warp_row) * ldc + tile.column + warp_column;
        sums.write(reinterpret_cast<float*>(shared), corner, ldc, rows - warp_row, columns - warp_column, aligned_c);
        __syncthreads();  // and free again for the next product of the batch
    }
}
