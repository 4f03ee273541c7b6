// Few tiles, much k, little time: k is shared out twice, among the blocks of a cluster and among the threads of each.
//
// A small product is over before a large tile's pipeline has filled, so what counts is latency: every block has the
// first RING steps of its part of k on their way before it waits for any, and one launch does it all. Sums meet in
// shared memory, each block of a cluster reading its share of the tile out of all of them, always in the order of ranks
// and slices: the same operands give the same bits every time.
//
// A thread takes GROUP steps of k together (sides.cuh). Where no sums meet, copies go on from one product of a batch to
// the next without a pause; else sums meet where the stages were, and the next product's copies come after.
#include "cluster.cuh"
#include "sides.cuh"

constexpr int RING = 128;  // steps of k in shared memory
constexpr int STAGES = RING / BLOCK_K;
constexpr int PASSES = BLOCK_K / GROUP / SLICES;  // runs of k of a thread in a stage
constexpr bool MEET = SLICES * CLUSTER > 1;       // whether sums of several threads make an element
static_assert(BLOCK_K % (GROUP * SLICES) == 0, "each slice takes as many runs of a stage as every other");
static_assert(STAGES >= 2, "one stage is multiplied while another is on its way");

using SideA = Side<BLOCK_M, THREAD_M, A_ALONG_K>;
using SideB = Side<BLOCK_N, THREAD_N, B_ALONG_K>;
constexpr int PAIR = SideA::WORDS + SideB::WORDS;  // accumulators of a stage
constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, THREAD_M* THREAD_N, GROUP*(THREAD_M + THREAD_N));

// The copies of one block: stage after stage of its part of k, product after product.
struct Supply {
    SideA a;
    SideB b;
    const Element *corner_a, *corner_b;  // of the block's part, in the first matrix of the batch
    Index stride_a, stride_b, batch, depths;
    Accumulator *ring, *vacant;
    Index item, left;  // of the next stage: its product, and the steps from there on

    // Takes up what is next; commits also none, so that groups count stages.
    __device__ __forceinline__ void copy() {
        if (item < batch) {
            const int depth = left < BLOCK_K ? static_cast<int>(left) : BLOCK_K;
            a.copy(vacant, depth);
            b.copy(vacant + SideA::WORDS, depth);
            left -= BLOCK_K;
            if (left <= 0) begin(MEET ? batch : item + gridDim.z);
        }
        commit_copies();
        vacant = vacant == ring + (STAGES - 1) * PAIR ? ring : vacant + PAIR;
    }

    __device__ __forceinline__ void begin(Index next) {
        item = next;
        left = depths;
        a.begin(corner_a + item * stride_a);
        b.begin(corner_b + item * stride_b);
    }

    __device__ __forceinline__ void fill(Index first) {
        vacant = ring;
        begin(first);
        for (int stage = 0; stage < STAGES; ++stage)
            copy();
    }
};

struct Sums {
    Accumulator at[THREAD_M][THREAD_N] = {};

    // This thread's slice of a stage.
    __device__ __forceinline__ void add(const Accumulator* stage, const Supply& supply, int slice) {
#pragma unroll 4
        for (int pass = 0; pass < PASSES; ++pass) {
            Accumulator of_a[GROUP][THREAD_M], of_b[GROUP][THREAD_N];
            supply.a.read(of_a, stage, pass * SLICES + slice);
            supply.b.read(of_b, stage + SideA::WORDS, pass * SLICES + slice);
#pragma unroll
            for (int step = 0; step < GROUP; ++step)
                add_outer_product(at, of_a[step], of_b[step]);
        }
    }

    // `write` takes row and column within the tile, and the sums from there on: GROUP of them, or one.
    template <typename Write>
    __device__ __forceinline__ void each_run(const Supply& supply, Write write) const {
        constexpr int TOGETHER = B_ALONG_K ? 1 : GROUP;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i)
#pragma unroll
            for (int j = 0; j < THREAD_N; j += TOGETHER)
                write(supply.a.outer(i), supply.b.outer(j), at[i] + j);
    }
};

// Everything a block knows of C.
struct Target {
    Product* corner;  // of the tile in the first matrix of the batch
    Index ldc, rows, columns;
    bool aligned;

    template <int COUNT>
    __device__ __forceinline__ void write(Index from, int row, int column, const Accumulator* sums) const {
        if (row < rows)
            write_run<COUNT>(corner + from + row * ldc + column, sums, columns - column, COUNT > 1 && aligned);
    }
};

__device__ __forceinline__ void barrier_of_all() {
    if (CLUSTER > 1)
        cluster_barrier();
    else
        __syncthreads();
}

// Adds up what all threads of the cluster have of this block's share of the tile, and writes it. `meeting` holds a tile
// of sums for each slice.
__device__ __forceinline__ void meet(const Accumulator* meeting, const Target& target, Index from, int rank) {
    constexpr int RUNS = BLOCK_M * BLOCK_N / GROUP / CLUSTER;
    for (int run = threadIdx.x; run < RUNS; run += THREADS) {
        const int first = (rank * RUNS + run) * GROUP;
        Accumulator total[GROUP] = {};
#pragma unroll
        for (int other = 0; other < CLUSTER; ++other) {
            const Accumulator* const theirs = CLUSTER > 1 ? at_rank(meeting, other) : meeting;
#pragma unroll
            for (int slice = 0; slice < SLICES; ++slice) {
                Accumulator words[GROUP];
                read_run<GROUP>(words, theirs + slice * (BLOCK_M * BLOCK_N) + first);
#pragma unroll
                for (int i = 0; i < GROUP; ++i)
                    total[i] += words[i];
            }
        }
        target.write<GROUP>(from, first / BLOCK_N, first % BLOCK_N, total);
    }
}

#if CLUSTER > 1
#define OF_CLUSTER __cluster_dims__(CLUSTER, 1, 1)
#else
#define OF_CLUSTER
#endif

extern "C" __global__ void OF_CLUSTER __launch_bounds__(THREADS, BLOCKS)
    cluster_split_k(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                    Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
                    Index batch) {
    DYNAMIC_SHARED(shared);
    Accumulator* const ring = reinterpret_cast<Accumulator*>(shared);
    const ThreadTile place;
    // In 32 bits, as the grid is: a division in 64 takes longer than a small tile's multiply-adds.
    const unsigned int across = static_cast<unsigned int>((n + BLOCK_N - 1) / BLOCK_N);
    const unsigned int number = blockIdx.x / CLUSTER;
    const int rank = blockIdx.x % CLUSTER;
    const Tile tile = {static_cast<Index>(number / across) * BLOCK_M, static_cast<Index>(number % across) * BLOCK_N};
    const Index rows = m - tile.row, columns = n - tile.column;
    // Parts begin at multiples of BLOCK_K, and so at aligned elements.
    const Index part = (k + CLUSTER * BLOCK_K - 1) / (CLUSTER * BLOCK_K) * BLOCK_K, first = rank * part;
    const Index depths = first < k ? (k - first < part ? k - first : part) : 0;
    Supply supply = {SideA(lda, rows, place.row, is_aligned<GROUP>(a, lda, stride_a)),
                     SideB(ldb, columns, place.column, is_aligned<GROUP>(b, ldb, stride_b)),
                     a + tile.row * row_step_a(lda) + first * column_step_a(lda),
                     b + tile.column * column_step_b(ldb) + first * row_step_b(ldb),
                     stride_a,
                     stride_b,
                     depths > 0 ? batch : 0,
                     depths,
                     ring,
                     ring,
                     0,
                     0};
    const Target target = {c + tile.row * ldc + tile.column, ldc, rows, columns, is_aligned<GROUP>(c, ldc, stride_c)};

    bool filled = false, begun = false;
    Accumulator* present = ring;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        if (MEET || !filled) {
            supply.fill(item);
            present = ring;
            begun = false;
        }
        filled = true;
        Sums sums;
        for (Index depth = 0; depth < depths; depth += BLOCK_K) {
            if (begun)
                wait_copies<STAGES - 2>();
            else
                wait_copies<STAGES - 1>();
            __syncthreads();
            if (begun) supply.copy();  // to where the stage before was: all have multiplied it
            begun = true;
            sums.add(present, supply, place.slice);
            present = present == ring + (STAGES - 1) * PAIR ? ring : present + PAIR;
        }
        const Index from = item * stride_c;
        if (!MEET) {
            sums.each_run(supply, [&](int row, int column, const Accumulator* run) {
                target.write<B_ALONG_K ? 1 : GROUP>(from, row, column, run);
            });
            continue;
        }
        __syncthreads();  // all have multiplied the last stage, and no copy is on its way
        Accumulator* const own = ring + place.slice * (BLOCK_M * BLOCK_N);
        sums.each_run(supply, [&](int row, int column, const Accumulator* run) {
            Run<Accumulator, B_ALONG_K ? 1 : GROUP> words;
            for (int i = 0; i < (B_ALONG_K ? 1 : GROUP); ++i)
                words.at[i] = run[i];
            *reinterpret_cast<Run<Accumulator, B_ALONG_K ? 1 : GROUP>*>(own + row * BLOCK_N + column) = words;
        });
        barrier_of_all();
        meet(ring, target, from, rank);
        barrier_of_all();  // nobody returns, or copies the next product's stages, while others read
    }
}
