// A launch that may begin while the one before it on its stream ends ("programmatic dependent launch", PTX ISA:
// griddepcontrol): its blocks start on multiprocessors that the other kernel's blocks leave, and do the work that does
// not depend on it. On devices without this feature, and unless it is requested, launches run one after the other.
#pragma once

#if !defined(EMULATED) && __CUDA_ARCH__ >= 900

// Allows the next launch to begin, once all blocks have called this or ended.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the launch before has ended, so that everything it wrote may be read.
__device__ __forceinline__ void wait_on_dependency() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

#else

__device__ __forceinline__ void launch_dependents() {}
__device__ __forceinline__ void wait_on_dependency() {}

#endif
