// A launch that may begin while the one before it on its stream ends ("programmatic dependent launch", PTX ISA:
// griddepcontrol): its blocks take multiprocessors as those of the other leave them, and what needs nothing of the
// other is done meanwhile. On a device without that, and where nobody asked for it, launches follow each other as ever.
#pragma once

#if !defined(EMULATED) && __CUDA_ARCH__ >= 900

// This block does not mind: once all have said so, or ended, the next launch begins.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;"); }

// Until the launch before has ended, and all it wrote may be read.
__device__ __forceinline__ void wait_on_dependency() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

#else

__device__ __forceinline__ void launch_dependents() {}
__device__ __forceinline__ void wait_on_dependency() {}

#endif
