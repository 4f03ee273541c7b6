"""Is the CUDA of this image whole? Looks for the kernels that its build compiled, compiles every other one, and loads
cuBLAS, as far as that goes without a GPU.

python cuda_check.py [KERNEL …], which the build compiled for ARCH
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from cupy_backends.cuda.libs import cublas, nvrtc

from jobs.settings import Settings
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from worker.cpu.device import usable_cores
from worker.cuda.ahead.programs import programs_ahead, traits_of
from worker.cuda.compile import KernelFiles, compile_program
from worker.cuda.sources import kernel_program

ARCH = "sm_90"  # compiling needs no such device

settings = Settings()
files = KernelFiles(settings.kernel_cache_dir, ARCH, settings.compiled_kernels_dir)
shipped = programs_ahead(traits_of(ARCH), sys.argv[1:]) if sys.argv[1:] else []
for program in shipped:
    assert files.read(program), f"{program.path.name} is not among the kernels that the build compiled"
programs = {
    kernel_program(kernel, kernel.resolve_config(), Problem(64, 64, 64, dtype))
    for kernel in CATALOG
    if isinstance(kernel, CudaKernel)
    for dtype in kernel.dtypes
}
missing = [program for program in programs if files.find(program) is None]
with ThreadPoolExecutor(usable_cores()) as pool:
    list(pool.map(lambda program: compile_program(program, ARCH), missing))
major, minor = nvrtc.getVersion()
print(f"{len(shipped)} programs came with the image; NVRTC {major}.{minor} compiled {len(missing)} more for {ARCH}")
print(f"{cublas.__name__} is loaded")
