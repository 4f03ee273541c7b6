// Included by hopper_fp64.cu, whose sizes and places in shared memory it uses: what a warp multiplies of a stage, and
// how its sums leave it.
//
// B is the first operand of an instruction, and so 16 of its columns; eight rows of A are the second. Steps of k and
// rows are dealt out to lanes such that all reads are 16 bytes wide and free of bank conflicts in swizzled boxes.
#pragma once

constexpr int GROUPS = WARP_M / 8, SLABS = WARP_N / SQUARE, STEPS = BLOCK_K / STEP;
constexpr int ITEMS = STEPS * GROUPS;  // of a stage: each group of rows at each step
static_assert(ITEMS % 2 == 0, "groups of rows take turns in two sets of registers");
static_assert(GROUPS > 1, "what is read ahead is of this step or the next");

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void read_two(double& first, double& second, unsigned int shared) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(first), "=d"(second) : "r"(shared) : "memory");
}
__device__ __forceinline__ void write_two(unsigned int shared, double first, double second) {
    asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(shared), "d"(first), "d"(second) : "memory");
}
#endif

struct WarpProduct {
    double sums[GROUPS][SLABS][4] = {};  // of rows t and t + 4 of a group, columns 2g and 2g + 1 of a slab
    double rows[2][SLOTS];
    Slab columns[2][SLABS];
    int from_a[2], from_b[2];  // within a stage: by the steps' half of a box; by the slot

    __device__ __forceinline__ WarpProduct(int first_row, int first_column, int lane) {
        const int g = lane / 4, t = lane % 4, row = g % 2 * 4 + g / 2;
        const int of_row = (first_row + row) * SWIZZLE_BYTES, of_box = A_BYTES + first_column / BOX * B_BOX_BYTES;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            from_a[i] = kept(of_row + ((t + i * 4) ^ row) * 16);
            from_b[i] = kept(of_box + (2 * t + i) * SWIZZLE_BYTES + (g ^ (2 * t + i)) * 16);
        }
    }

    // Rows of an item, and where a step begins with it, all columns. The items after a stage's last are the first of
    // the next.
    __device__ __forceinline__ void read(unsigned int stage, int item) {
        const int unit = item % ITEMS / GROUPS * 2, group = item % GROUPS;  // unit: of 8 steps
        if (group == 0)
#pragma unroll
            for (int j = 0; j < SLABS; ++j)
#pragma unroll
                for (int slot = 0; slot < SLOTS; ++slot) {
                    Slab& slab = columns[item / GROUPS % 2][j];
                    const int from = from_b[slot % 2] + j * B_BOX_BYTES + (unit + slot / 2) * GROUP_BYTES;
                    read_two(slab.at[0][slot], slab.at[1][slot], stage + from);
                }
        double (&its)[SLOTS] = rows[item % 2];
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot += 2) {
            const int now = unit + slot / 2, from = from_a[now % 2] + now / 2 * A_BOX_BYTES + group * GROUP_BYTES;
            read_two(its[slot], its[slot + 1], stage + from);
        }
    }

    __device__ __forceinline__ void multiply(int item) {
#pragma unroll
        for (int j = 0; j < SLABS; ++j)
            multiply_on_tensor_core(sums[item % GROUPS][j], columns[item / GROUPS % 2][j], rows[item % 2]);
    }

    // At least one stage.
    __device__ __forceinline__ void multiply_stages(const Shared& at, Place& place, int count, bool is_first_lane) {
        wait_barrier(at.full(place.stage), place.parity);
        unsigned int stage = at.stage(place.stage);
        read(stage, 0);
#pragma unroll 1
        for (int left = count; left > 0; --left) {
            const unsigned int empty = at.empty(place.stage);
#pragma unroll
            for (int item = 0; item < ITEMS; ++item) {
                if (item == ITEMS - 1) {
                    place.advance();
                    if (left > 1) wait_barrier(at.full(place.stage), place.parity);
                    stage = at.stage(place.stage);
                }
#ifdef EMULATED  // behind the last stage others read what is never used
                if (left > 1 || item + 1 < ITEMS)
#endif
                    read(stage, item + 1);
                multiply(item);
            }
            if (is_first_lane) arrive(empty);  // what all lanes read of the stage has come, as it is multiplied
        }
    }

    __device__ __forceinline__ void store(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                          const Corner& corner, int warp) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int first_row = corner.row + row_of(warp), first_column = corner.column + column_of(warp);
        const unsigned int out = at.base + OUT_OFFSET + warp * OUT_BOXES * GROUP_BYTES;
#pragma unroll
        for (int box = 0; box < GROUPS * SLABS; ++box) {
            const int i = box / SLABS, j = box % SLABS, row = first_row + i * 8, column = first_column + j * SQUARE;
            if (row < sizes.m && column < sizes.n) {
                const unsigned int shared = out + box % OUT_BOXES * GROUP_BYTES;
                wait_stores_read<OUT_BOXES - 1>();
                __syncwarp();
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int line = t + half * 4;
                    write_two(shared + line * SWIZZLE_BYTES + (g ^ line) * 16, sums[i][j][half], sums[i][j][2 + half]);
                }
                fence_for_copies();
                __syncwarp();
                if (lane == 0) store_box(shared, map, column, row, corner.item);
            }
            commit_stores();  // also of none: groups tell by their number which box is free
        }
    }
};
