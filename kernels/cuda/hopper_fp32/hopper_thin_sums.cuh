// Included by hopper_fp32.cu: the sums of a thin tile (hopper_thin.cuh): lines of one operand by a few vectors of the
// other. A thread has four lines and a warp some steps of each stage, a quarter of the instructions that a line for
// each thread would take; the warps' sums are added at the tile's end.
#pragma once

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ float read_one(unsigned int shared) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(shared));
    return value;
}

__device__ __forceinline__ void write_one(unsigned int shared, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(value) : "memory");
}
#endif

constexpr int LINES = 4, RUN = 4;  // lines of a thread; floats that it reads or writes at once
constexpr int PARTIAL_BYTES = BOX * 4;
static_assert(MAX_VECTORS % RUN == 0, "read by fours");
static_assert(WARPS * MAX_VECTORS * PARTIAL_BYTES <= WARPS * OUT_BOXES * OUT_BYTES, "where boxes of C leave from");

// Few rows and many columns where it is wide, else the other way round.
struct ThinTile {
    bool wide;
    int row, column, vectors;  // of C, where it begins; how many

    __device__ __forceinline__ ThinTile(const Tiles& tiles, const Sizes& sizes, const Corner& corner)
        : wide(corner.down == tiles.down),
          row(corner.down * BLOCK_M),
          column(corner.across * BLOCK_N),
          vectors(wide ? sizes.m - row : sizes.n - column) {}

    __device__ __forceinline__ int boxes() const { return wide ? B_BOXES : A_BOXES; }
    // Whose lines a warp has, and the first of its steps of a stage.
    __device__ __forceinline__ int box_of(int warp) const { return warp / (WARPS / boxes()); }
    __device__ __forceinline__ int step_of(int warp) const {
        return warp % (WARPS / boxes()) * (BLOCK_K / WARPS * boxes());
    }
};

// sums(v, i) += vector v · line i of four, over some steps.
template <int STEPS, int VECTORS>
__device__ __forceinline__ void add_lines(unsigned int lines, unsigned int vectors, float (&sums)[MAX_VECTORS][LINES]) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        float line[LINES], factors[VECTORS];
        read_four(line, lines + step * ROW_BYTES);
        if constexpr (VECTORS == 1)
            factors[0] = read_one(vectors + step * VECTORS_BYTES);
        else
#pragma unroll
            for (int v = 0; v < VECTORS; v += RUN)
                read_four(factors + v, vectors + step * VECTORS_BYTES + v * 4);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v)
#pragma unroll
            for (int i = 0; i < LINES; ++i)
                sums[v][i] = fmaf(factors[v], line[i], sums[v][i]);
    }
}

template <int STEPS>
__device__ __forceinline__ void add_steps(int count, unsigned int lines, unsigned int vectors,
                                          float (&sums)[MAX_VECTORS][LINES]) {
    if (count == 1)
        add_lines<STEPS, 1>(lines, vectors, sums);
    else
        add_lines<STEPS, MAX_VECTORS>(lines, vectors, sums);
}

// Adds up what warps have of the same lines, in their order; each thread then has one line.
__device__ __forceinline__ void add_warps(const Shared& at, const ThinTile& tile, int warp, int lane,
                                          const float (&sums)[MAX_VECTORS][LINES], float (&line)[MAX_VECTORS]) {
    const unsigned int partials = at.base + OUT_OFFSET;
#pragma unroll
    for (int v = 0; v < MAX_VECTORS; ++v)
        write_four(partials + (warp * MAX_VECTORS + v) * PARTIAL_BYTES + lane * 16, sums[v]);
    __syncthreads();
    const int of_box = WARPS / tile.boxes(), box = threadIdx.x / BOX;
#pragma unroll
    for (int v = 0; v < MAX_VECTORS; ++v) {
        line[v] = 0;
        for (int each = 0; box < tile.boxes() && each < of_box; ++each)
            line[v] +=
                read_one(partials + ((box * of_box + each) * MAX_VECTORS + v) * PARTIAL_BYTES + threadIdx.x % BOX * 4);
    }
    __syncthreads();
}

// A warp's 32 lines, in boxes of 16×32; what a box holds past C is not stored.
__device__ __forceinline__ void store_lines(const Shared& at, const TensorMap& map, const Sizes& sizes, int item,
                                            const ThinTile& tile, int warp, int lane,
                                            const float (&line)[MAX_VECTORS]) {
    const unsigned int out = at.base + OUT_OFFSET + warp * OUT_BOXES * OUT_BYTES;
    const int row = tile.row + (tile.wide ? 0 : warp * 32), column = tile.column + (tile.wide ? warp * 32 : 0);
    if (warp * 32 >= tile.boxes() * BOX || row >= sizes.m || column >= sizes.n) return;
#pragma unroll
    for (int v = 0; v < MAX_VECTORS; v += RUN)
        if (tile.wide) {
#pragma unroll
            for (int i = v; i < v + RUN; ++i)
                write_one(out + i * SWIZZLE_BYTES + (lane / 4 ^ i) * 16 + lane % 4 * 4, line[i]);
        } else {
            write_four(out + lane * SWIZZLE_BYTES + (v / RUN ^ lane % 8) * 16, line + v);
        }
    fence_for_copies();
    __syncwarp();
    if (lane == 0) {
        store_box(out, map, column, row, item);
        if (!tile.wide && row + OUT_ROWS < sizes.m) store_box(out + OUT_BYTES, map, column, row + OUT_ROWS, item);
    }
    commit_stores();
    wait_stores_read<0>();
}
