// The tensor cores' part of the product. A producer thread copies tiles of remainders into a ring of stages, one
// modulus after the other; two warpgroups multiply 64 rows of the block's tile each.
#pragma once

#include "hopper_int8_ring.cuh"
#include "residue_layout.cuh"

constexpr int B_TILES = BLOCK_N / LINES;
constexpr int STAGE_BYTES = (1 + B_TILES) * TILE_BYTES;
constexpr int STAGES = BLOCK_N == 256 ? 4 : 6;
constexpr int BARRIERS_OFFSET = STAGES * STAGE_BYTES;
constexpr int NOTES = 8;  // of pieces of work, more than a producer is ahead: it has asked for STAGES stages more
static_assert(NOTES >= STAGES + 2, "no note is overwritten before all have read it");

// What the producer tells consumers of a piece of work: it computes this, as it has time to spare.
struct alignas(16) Note {
    Index results;  // where remainders go, in the workspace; NOWHERE where no row of the tile lies in C
    int modulus;    // NONE where there is no further piece

    static constexpr int NOWHERE = -1, NONE = -1;
};

constexpr int NOTES_OFFSET = BARRIERS_OFFSET + STAGES * 2 * 8;
constexpr int KEPT_OFFSET = NOTES_OFFSET + NOTES * sizeof(Note);  // of remainders of complex products' first planes
constexpr int SUMS = BLOCK_N / 2;                                 // of a thread
constexpr int PARTS = DEPTH / INSTRUCTION_DEPTH;                  // of a stage
constexpr int CHUNK = 511;  // tiles along k after which sums are reduced: they stay below 2^30
static_assert((CHUNK * DEPTH + DEPTH - INSTRUCTION_DEPTH) * 128ll * 128 + 256 < 1ll << 30,
              "remainders of sums are right");

typedef PipelineState<STAGES> StageState;

struct Ring {
    unsigned int base;

    __device__ __forceinline__ unsigned int a(int stage) const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned int b(int stage) const { return a(stage) + TILE_BYTES; }
    __device__ __forceinline__ unsigned int full(int stage) const { return base + BARRIERS_OFFSET + stage * 8; }
    __device__ __forceinline__ unsigned int empty(int stage) const { return full(STAGES + stage); }
};

// ---- the producer ----
// Copies all steps of one modulus. `b`: the first of `count` tiles of B, `apart` bytes from one to the next. Each block
// of a cluster copies a part of B, for all of its blocks.
__device__ __forceinline__ void bring(const Ring& ring, StageState& place, const unsigned char* a,
                                      const unsigned char* b, Index apart, int count, int steps, int rank) {
    constexpr int PART = TILE_BYTES / CLUSTER;
    for (int step = 0; step < steps; ++step, place.advance()) {
        const unsigned int full = ring.full(place.stage);
        wait_barrier(ring.empty(place.stage), place.parity ^ 1);
        arrive_expecting(full, (1 + count) * TILE_BYTES);
        load_run(ring.a(place.stage), a + static_cast<Index>(step) * TILE_BYTES, full, TILE_BYTES);
        for (int tile = 0; tile < count; ++tile) {
            const unsigned char* const from = b + tile * apart + static_cast<Index>(step) * TILE_BYTES + rank * PART;
            const unsigned int to = ring.b(place.stage) + tile * TILE_BYTES + rank * PART;
            if (CLUSTER > 1)
                load_run_for((1 << CLUSTER) - 1, to, from, full, PART);
            else
                load_run(to, from, full, PART);
        }
    }
}

// After the last piece of work: a stage without bytes, with a note that says so.
__device__ __forceinline__ void end(const Ring& ring, const StageState& place, Note& note) {
    wait_barrier(ring.empty(place.stage), place.parity ^ 1);
    note = {Note::NOWHERE, Note::NONE};
    arrive(ring.full(place.stage));
}

// ---- a consumer ----
// The descriptors of a stage's operands.
struct StageOperands {
    unsigned long long a, b;

    __device__ __forceinline__ StageOperands(const Ring& ring, int stage, int consumer)
        : a(tile_descriptor(ring.a(stage) + consumer * (TILE_BYTES / CONSUMERS), TILE_BYTES)),
          b(tile_descriptor(ring.b(stage), TILE_BYTES)) {}

    __device__ __forceinline__ void add(int (&sums)[SUMS], int part) const {
        Mma<BLOCK_N>::add(sums, offset_descriptor(a, part * INSTRUCTION_DEPTH),
                          offset_descriptor(b, part * INSTRUCTION_DEPTH));
    }
};

// Multiplies `steps` whole stages and then, where `rest` is not 0, that many instructions of one more stage: its others
// would multiply zeros.
__device__ __forceinline__ void multiply(const Ring& ring, StageState& place, int consumer, int steps, int rest,
                                         int (&sums)[SUMS]) {
    int before = -1;
    const int half = warp_uniform(consumer);
    for (int step = 0; step < steps; ++step, place.advance()) {
        wait_barrier(ring.full(place.stage), place.parity);
        const StageOperands operands(ring, warp_uniform(place.stage), half);
        wgmma_fence();
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            operands.add(sums, part);
        wgmma_commit_group();
        wgmma_wait_group<1>();  // the stage before
        if (before >= 0) release(ring, before);
        before = place.stage;
    }
    wgmma_wait_group<0>();
    fence_accumulators(sums);
    if (before >= 0) release(ring, before);
    if (rest == 0) return;
    wait_barrier(ring.full(place.stage), place.parity);
    const StageOperands operands(ring, warp_uniform(place.stage), half);
#pragma unroll 1
    for (int part = 0; part < rest; ++part) {
        wgmma_fence();
        operands.add(sums, part);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        fence_accumulators(sums);
    }
    release(ring, place.stage);
    place.advance();
}
