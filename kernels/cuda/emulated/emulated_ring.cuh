// The tensor cores' part of an emulated product. A producer thread copies planes of digits into a ring of slots, each
// with a plane of A's and the same digit of B's; two warpgroups multiply 64 rows of the block's tile each.
//
// Products of digits i and j go to the sum of i + j, an exact int32. Six products are those of three digits with i + j
// < 3: three sums, all in registers. For i + j < 4 two more products are needed (or one of them), or four with a fourth
// digit, and a fourth sum, for which there are no registers: k is then gone over twice, first for the sums of 2 and 3,
// which are merged, then for 0 and 1.
#pragma once

#include "emulated_layout.cuh"
#include "hopper_int8_ring.cuh"
#include "hopper_schedule.cuh"

constexpr int PLACES = 12;
constexpr int PLACE_BYTES = 2 * PLANE;
constexpr int SETS = 3;          // of sums
constexpr int SUMS = LINES / 2;  // of a set, in a thread
constexpr int PAIRS = SUMS / 2;  // of neighbours
constexpr int CHUNK = 508;       // steps of DEPTH after which no int32 of four products can have overflowed
static_assert(4ll * 128 * 128 * CHUNK * DEPTH < (1ll << 31), "sums are exact");

typedef PipelineState<PLACES> StageState;

struct Ring {
    unsigned int base, barriers;

    __device__ __forceinline__ unsigned int a(int place) const { return base + place * PLACE_BYTES; }
    __device__ __forceinline__ unsigned int b(int place) const { return a(place) + PLANE; }
    __device__ __forceinline__ unsigned int full(int place) const { return barriers + place * 8; }
    __device__ __forceinline__ unsigned int empty(int place) const { return full(PLACES + place); }
};

// ---- the producer ----
// Copies all COUNT digits of each step. `a` and `b`: tiles of the first step. Each block of a cluster copies a part of
// B, for all of its blocks.
template <int COUNT>
__device__ __forceinline__ void bring(const Ring& ring, StageState& place, const unsigned char* a,
                                      const unsigned char* b, int steps, int rank) {
    constexpr int PART = PLANE / CLUSTER;
    for (int step = 0; step < steps; ++step)
        for (int digit = 0; digit < COUNT; ++digit, place.advance()) {
            const int from = (step * DIGITS + digit) * PLANE;
            const unsigned int full = ring.full(place.stage);
            wait_barrier(ring.empty(place.stage), place.parity ^ 1);
            arrive_expecting(full, PLACE_BYTES);
            load_run(ring.a(place.stage), a + from, full, PLANE);
            if (CLUSTER > 1)
                load_run_for((1 << CLUSTER) - 1, ring.b(place.stage) + rank * PART, b + from + rank * PART, full, PART);
            else
                load_run(ring.b(place.stage), b + from, full, PLANE);
        }
}

// ---- a consumer ----
// A plane, from 16 · `chunk` bytes of shared memory on, as a matrix instruction reads it: 64-byte swizzle, so eight
// lines of 64 bytes are one unit.
__device__ __forceinline__ unsigned long long plane_descriptor(unsigned int chunk) {
    const unsigned long long swizzle_64 = 2ull << 62;
    return swizzle_64 | static_cast<unsigned long long>(8 * DEPTH >> 4) << 32 | 1ull << 16 | chunk;
}

// Both parts of a tile of digits: `a` and `b` are chunks of shared memory.
__device__ __forceinline__ void multiply_planes(int (&sums)[SUMS], unsigned int a, unsigned int b) {
#pragma unroll
    for (int part = 0; part < DEPTH / INSTRUCTION_DEPTH; ++part)
        Mma<LINES>::add(sums, plane_descriptor(a + part * (INSTRUCTION_DEPTH >> 4)),
                        plane_descriptor(b + part * (INSTRUCTION_DEPTH >> 4)));
}

// Sums of products whose digits add up to FIRST to LAST, of COUNT digits; the sum of s goes to set s % SETS.
// Without BOTH that of LAST has one of two products alone.
template <int COUNT, int FIRST, int LAST, bool BOTH = true>
__device__ __forceinline__ void multiply(const Ring& ring, StageState& place, int consumer, int steps,
                                         int (&sets)[SETS][SUMS]) {
    StageState done = place;
    for (int step = 0; step < steps; ++step) {
        unsigned int a[COUNT], b[COUNT];
        wgmma_fence();
#pragma unroll
        for (int digit = 0; digit < COUNT; ++digit, place.advance()) {
            wait_barrier(ring.full(place.stage), place.parity);
            a[digit] = (ring.a(place.stage) + consumer * (PLANE / CONSUMERS)) >> 4;
            b[digit] = ring.b(place.stage) >> 4;
#pragma unroll
            for (int other = 0; other <= digit; ++other) {
                const int sum = digit + other;
                if (sum < FIRST || sum > LAST) continue;
                multiply_planes(sets[sum % SETS], a[digit], b[other]);
                if (other < digit && (BOTH || sum < LAST)) multiply_planes(sets[sum % SETS], a[other], b[digit]);
            }
        }
        wgmma_commit_group();
        wgmma_wait_group<1>();  // the step before
        if (step > 0)
#pragma unroll
            for (int digit = 0; digit < COUNT; ++digit, done.advance())
                release(ring, done.stage);
    }
    wgmma_wait_group<0>();
#pragma unroll
    for (int digit = 0; digit < COUNT; ++digit, done.advance())
        release(ring, done.stage);
}

// After the first of two passes over k: adds the sum of 3, in set 0, to that of 2, rounded to its unit. Sets 0 and 1
// are then free.
__device__ __forceinline__ void put_together(int (&sets)[SETS][SUMS]) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
        sets[2][i] += (sets[0][i] + 128) >> 8;
        sets[0][i] = 0;
    }
}

// The unit of a line's digits: its sums are multiplied by this.
__device__ __forceinline__ double unit_of(unsigned int peak) {
    return __hiloint2double((1023 + line_exponent(peak) - 15) << 20, 0) * (4.0 / (4 + line_quarters(peak)));
}

// Where a warpgroup's sums go, and what scales them. In shared memory: registers are for the sums.
struct Target {
    float* corner;  // C's element at the first of the warpgroup's rows and the tile's first column
    Index pitch;
    int rows, columns;                                     // that lie in C
    int aligned;                                           // pairs of neighbours can be written at once
    double rows_of[LINES / CONSUMERS], columns_of[LINES];  // units
};

static_assert(sizeof(Target) == 1568, "as the catalogue's entry has it");

// A barrier of one consumer's warps.
__device__ __forceinline__ void consumer_barrier(int consumer) {
    asm volatile("bar.sync %0, %1;" ::"r"(consumer + 2), "n"(WARPGROUP) : "memory");
}

// Σ set_s · 256^(2 - s) is exact in float64, and its product with the unit as good as that: it is rounded once.
__device__ __forceinline__ float scaled(double unit, long long sum) {
    const double magic = 6755399441055744.0;  // 1.5·2^52, whose last place is 1
    const double exact = __longlong_as_double(__double_as_longlong(magic) + sum) - magic;
    return static_cast<float>(exact * unit);
}

// Of an element and its neighbour on the right, the two sums at 2 · `pair`.
__device__ __forceinline__ longlong2 sums_of(const int (&sets)[SETS][SUMS], int pair) {
    long long both[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int at = 2 * pair + i;
        both[i] =
            (static_cast<long long>(sets[0][at]) << 16) + (static_cast<long long>(sets[1][at]) << 8) + sets[2][at];
    }
    return {both[0], both[1]};
}

// Each thread has two rows, and of each 8 columns two. `sums_at`: a pair's sums. `more`: C has sums of k before.
template <int UNROLLED, class SumsAt>
__device__ __forceinline__ void store(const Target& to, SumsAt sums_at, bool more) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll UNROLLED
    for (int run = 0; run < LINES / 8; ++run) {
        const int column = run * 8 + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first + half * 8;
            const double unit = to.rows_of[row];
            const longlong2 sums = sums_at(run * 2 + half);
            float low = scaled(unit * to.columns_of[column], sums.x);
            float high = scaled(unit * to.columns_of[column + 1], sums.y);
            if (row >= to.rows || column >= to.columns) continue;
            float* const at = to.corner + row * to.pitch + column;
            const bool pair = column + 1 < to.columns;
            if (more) low += at[0];
            if (more && pair) high += at[1];
            if (to.aligned && pair) {
                *reinterpret_cast<float2*>(at) = make_float2(low, high);
            } else {
                at[0] = low;
                if (pair) at[1] = high;
            }
        }
    }
}
