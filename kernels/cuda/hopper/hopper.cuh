// Hopper's own instructions (PTX for `sm_90a`), one function each: barriers that count bytes, bulk tensor copies, the
// fences of warpgroup matrix instructions, registers handed from one warpgroup to another. No element type is
// known here. As the PTX ISA describes them: mbarrier, cp.async.bulk.tensor, wgmma, setmaxnreg, stmatrix.
//
// Shared memory goes by its 32-bit address (`shared_address`).
#pragma once
#include "cluster.cuh"

constexpr int WARPGROUP = 128;      // threads that issue a matrix instruction together
constexpr int SWIZZLE_BYTES = 128;  // of a row of a tile: its 16-byte chunks are permuted by the row's number modulo 8
constexpr int SWIZZLE_ATOM = 1024;  // bytes of 8 such rows, and so how tiles are aligned

#ifndef EMULATED  // an emulation on the CPU brings its own words
// What the driver's cuTensorMapEncodeTiled wrote: where a matrix lies, its sizes and pitches, and the box to be copied.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

// ---- barriers: a phase ends when all arrivals and all expected bytes are there; the parity tells phases apart ----
__device__ __forceinline__ void init_barrier(unsigned int barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes barriers that one thread initialised known to the copy engine and to the cluster, before a block or cluster
// barrier.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(unsigned int barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// At the same barrier of block `rank` of the cluster. Nothing that this thread wrote has to be seen there, so its order
// is that of its own block: a release to the whole cluster would wait for memory at each stage.
__device__ __forceinline__ void arrive_at_rank(unsigned int barrier, int rank) {
    unsigned int there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(rank));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// One arrival, and so many bytes that copies will bring.
__device__ __forceinline__ void arrive_expecting(unsigned int barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ bool has_ended(unsigned int barrier, unsigned int parity) {
    unsigned int ended;
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
    return ended;
}

#endif

// For the end of the phase of this parity. A new barrier is in phase 0, and counts the phase before as ended.
__device__ __forceinline__ void wait_barrier(unsigned int barrier, unsigned int parity) {
    while (!has_ended(barrier, parity)) {
    }
}

// A place in a ring of stages, with the parity of its phase.
template <int LENGTH>
struct PipelineState {
    int stage = 0;
    unsigned int parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == LENGTH) {
            stage = 0;
            parity ^= 1;
        }
    }
};

#ifndef EMULATED
// ---- bulk tensor copies of one box; x is the contiguous direction. What lies outside the matrix arrives as zeros and
// counts among the bytes; on the way back it is not written. ----
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void load_box(unsigned int shared, const TensorMap& map, unsigned int barrier, int x, int y,
                                         int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
            "r"(shared),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// To the same place of every block whose bit in `ranks` is set; each one's own barrier counts the bytes.
__device__ __forceinline__ void load_box_for(unsigned short ranks, unsigned int shared, const TensorMap& map,
                                             unsigned int barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ranks)
        : "memory");
}

// Ends with `commit_stores`. Before it: `fence_for_copies` in every thread that wrote the box, and a barrier of these.
__device__ __forceinline__ void store_box(unsigned int shared, const TensorMap& map, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(shared),
                 "l"(&map), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until all but the PENDING latest groups of this thread's stores have read shared memory, which may then be rewritten.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Orders what this thread wrote to shared memory before what the copy engine or the tensor cores read there.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- four floats of one thread, at a multiple of 16 bytes ----
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

#define DYNAMIC_TILES(name) extern __shared__ __align__(1024) unsigned char name[]

// ---- matrix instructions of a warpgroup: asynchronous, in groups ----
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// A tile in shared memory as a matrix instruction reads it, 128-byte swizzle. Its rows of 128 bytes lie one after
// another. `wide_bytes`: from one run of 128 bytes to the next where an operand lies across k and is wider than one.
__device__ __forceinline__ unsigned long long tile_descriptor(unsigned int shared, int wide_bytes) {
    const unsigned long long swizzle_128 = 1ull << 62;
    return swizzle_128 | static_cast<unsigned long long>(SWIZZLE_ATOM >> 4) << 32 |
           static_cast<unsigned long long>(wide_bytes >> 4) << 16 | (shared & 0x3FFFF) >> 4;
}

// A descriptor's tile begins so many bytes later.
__device__ __forceinline__ unsigned long long offset_descriptor(unsigned long long descriptor, int bytes) {
    return descriptor + static_cast<unsigned long long>(bytes >> 4);
}

// ---- registers: a kernel starts with the same number for every thread, and warpgroups then give and take ----
template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ---- four 8×8 matrices of 16-bit elements from a warp's registers to shared memory: lane 8i + r gives the address of
// row r of matrix i ----
__device__ __forceinline__ void store_matrices(unsigned int shared, const unsigned int (&pairs)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(pairs[0]),
                 "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}
#endif
