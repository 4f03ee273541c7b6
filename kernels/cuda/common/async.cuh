// Copies from global to shared memory that no register takes part in, and that a thread does not wait for until it says
// so. Devices from 8.0 on have them (PTX `cp.async`); older ones copy at once, which means the same, only slower.
#pragma once

#ifndef EMULATED  // an emulation on the CPU brings its own functions
// Copies the first `bytes` (0 to BYTES, in whole elements) of BYTES (4, 8 or 16; both addresses are multiples of it),
// and writes zeros for the others, which are not read.
template <int BYTES>
__device__ __forceinline__ void copy_part_async(void* shared, const void* global, int bytes) {
#if __CUDA_ARCH__ >= 800
    const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(shared));
    if (BYTES == 16)  // past the first-level cache: the tile is shared by the block already
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(BYTES),
                     "r"(bytes));
#else
    unsigned char* const to = static_cast<unsigned char*>(shared);
    for (int i = 0; i < BYTES; ++i)
        to[i] = i < bytes ? static_cast<const unsigned char*>(global)[i] : 0;
#endif
}

// Copies BYTES, or writes as many zeros where `inside` is false.
template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool inside) {
#if __CUDA_ARCH__ >= 800
    copy_part_async<BYTES>(shared, global, inside ? BYTES : 0);
#else
    struct alignas(BYTES) Bytes {
        unsigned int words[BYTES / 4];
    };
    *static_cast<Bytes*>(shared) = inside ? *static_cast<const Bytes*>(global) : Bytes{};
#endif
}

// Ends a group: what this thread copied since the group before.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Waits until at most the PENDING latest of this thread's groups are not yet there. Other threads' copies need a
// barrier.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING));
#endif
}
#endif
