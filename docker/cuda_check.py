"""Is the CUDA of this image whole? Compiles every kernel and loads cuBLAS, as far as that goes without a GPU."""

from cupy_backends.cuda.libs import cublas, nvrtc

from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from worker.cuda.compile import compile_program
from worker.cuda.sources import kernel_program

ARCH = "sm_90"  # compiling needs no such device

programs = [
    kernel_program(kernel, kernel.resolve_config(), Problem(64, 64, 64, dtype))
    for kernel in CATALOG
    if isinstance(kernel, CudaKernel)
    for dtype in kernel.dtypes
]
for program in programs:
    compile_program(program, ARCH)
major, minor = nvrtc.getVersion()
print(f"NVRTC {major}.{minor} compiled {len(programs)} programs for {ARCH}; {cublas.__name__} is loaded")
