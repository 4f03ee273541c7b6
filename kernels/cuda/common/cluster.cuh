// Thread block clusters (compute capability 9.0 and up): blocks that start together, and read each other's shared
// memory. As the PTX ISA describes them: barrier.cluster, mapa.
#pragma once

#ifndef EMULATED  // an emulation on the CPU brings its own functions
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// For all threads of all blocks; shared memory written before it is seen after it.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The same place of shared memory in block `rank` of the cluster. That block may not return before it was read.
template <typename Value>
__device__ __forceinline__ const Value* at_rank(const Value* shared, int rank) {
    unsigned long long there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<const Value*>(there);
}
#endif
