"""Products that libraries compute: the baselines."""

from __future__ import annotations

from kernels.model.entry.config import Parameter
from kernels.model.groups import Grouped
from kernels.model.kernel import Kernel, LibraryKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import COMPLEX_ACCURACY, OWN_ACCURACY, AccuracyName, DTypeName
from kernels.model.scales import any_config

HOPPER = (9, 0)
FLOAT8 = (8, 9)  # the first compute capability whose tensor cores take 8-bit floats
TUNED_TYPES: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "int8")
GROUPED_TYPES: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64")  # rows begin anywhere
PAD = Parameter(
    name="pad",
    values=(1, 8, 16, 32, 64),
    default=64,
    summary="sizes may be padded with zeros to multiples of it; 1 leaves them as they are",
    compiled=False,
)

CPU: tuple[Kernel, ...] = (
    LibraryKernel(
        name="cpu_blas",
        summary="Multi-core BLAS on the CPU, through NumPy.",
        idea="The baseline without a GPU. NumPy hands float32, float64 and complex products to the BLAS it was "
        "built with. Floats of 16 and 8 bits are widened to float32; 16-bit ones are rounded once at the end; integers "
        "are summed exactly. 8-bit operands with block scales are multiplied 128 steps of k at a time, and those sums "
        "by both scales. Groups of rows are multiplied one after the other.",
        origin="NumPy and its BLAS; the CPU column of reports 000 and 002.",
        device_class="cpu",
        library="NumPy BLAS",
        accuracy={**OWN_ACCURACY, "float8_e4m3": "fp32", **COMPLEX_ACCURACY},
        triangles=("float32", "float64"),
        scales=any_config,
        groups=Grouped((*OWN_ACCURACY, "float8_e4m3", *COMPLEX_ACCURACY)),
    ),
)

CUBLAS: tuple[Kernel, ...] = (
    LibraryKernel(
        name="cublas",
        summary="NVIDIA's library at the operands' own precision.",
        idea="The baseline: cuBLAS picks among hundreds of prebuilt kernels. float32 is not lowered to TF32; 16-bit "
        "floats accumulate in float32; int8 goes through its integer path. 8-bit floats go through cublasLt, operands "
        "made K-major first, and their partial sums are promoted to float32 at intervals. With block scales they are "
        "multiplied by these first and go through the float32 path, on any GPU; `cublas_fp8_blocks` is the library's "
        "own product of such operands. It is called once for each group of rows.",
        origin="cuBLAS through CuPy; the library column of report 003.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={
            **{name: cls for name, cls in OWN_ACCURACY.items() if name != "int32"},
            "float8_e4m3": "fp8",
            **COMPLEX_ACCURACY,
        },
        # At some shapes it adds parts of k of 16-bit products up in 16 bits, whatever its math mode says.
        arithmetic={"float16": "unproven", "bfloat16": "unproven", "float64": "tensor", "float8_e4m3": "tensor"},
        dtype_compute_capability={"float8_e4m3": FLOAT8},
        scales=any_config,
        groups=Grouped(GROUPED_TYPES),
    ),
    LibraryKernel(
        name="cublas_tuned",
        summary="cuBLAS at its best: the fastest of what it proposes, on sizes padded with zeros where that is faster.",
        idea="cuBLAS's own choice is not always its fastest kernel, and it has only slow ones for sizes that are not "
        "multiples of 8. The first product of a shape tries eight ways that cublasLt proposes for the sizes as they "
        "are, and eight for sizes padded with zeros. The fastest is kept for the next. Padding costs no copy: operands "
        "lie at a pitch, with room beside each row and below the last. Partial sums of 16-bit products stay in "
        "float32. int8 operands are made K-major first, where they are not.",
        origin="cuBLAS (cublasLt) by ctypes; the zero padding of PyTorch's Inductor (pad_mm).",
        device_class="gpu",
        library="cuBLAS",
        is_tuned=True,
        parameters=(PAD,),
        accuracy={name: OWN_ACCURACY[name] for name in TUNED_TYPES},
        arithmetic={"float16": "tensor", "bfloat16": "tensor", "float64": "tensor"},
    ),
    LibraryKernel(
        name="cublas_tf32",
        summary="cuBLAS with float32 operands rounded to TF32 on their way into the tensor cores.",
        idea="The compute mode CUBLAS_COMPUTE_32F_FAST_TF32: 11 significant bits of each operand with all of float32's "
        "exponents, products summed in float32. Tensor cores multiply them several times as fast as CUDA cores "
        "multiply float32. It is never chosen unless the caller asks for the accuracy `tf32` or `bf16`, or for it by "
        "name.",
        origin="cuBLAS through CuPy; a sibling of the mixed-precision mode of report 003.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={"float32": "tf32"},
        arithmetic={"float32": "tensor"},
        min_compute_capability=(8, 0),
        groups=Grouped(("float32",)),
    ),
    LibraryKernel(
        name="cublas_tf32_tuned",
        summary="`cublas_tf32` at its best: the fastest of what cublasLt proposes, on padded sizes too.",
        idea="`cublas_tuned` with float32 operands rounded to TF32.",
        origin="cuBLAS (cublasLt) by ctypes.",
        device_class="gpu",
        library="cuBLAS",
        is_tuned=True,
        parameters=(PAD,),
        accuracy={"float32": "tf32"},
        arithmetic={"float32": "tensor"},
        min_compute_capability=(8, 0),
    ),
    LibraryKernel(
        name="cublas_bf16",
        summary="cuBLAS with float32 operands rounded to bfloat16 on their way into the tensor cores.",
        idea="The compute mode CUBLAS_COMPUTE_32F_FAST_16BF, report 003's mixed precision: 8 significant bits of each "
        "operand with all of float32's exponents, products summed in float32. Tensor cores multiply 16-bit numbers "
        "twice as fast as TF32, which cuBLAS may choose instead. It is never chosen unless the caller asks for the "
        "accuracy `bf16`, or for it by name.",
        origin="cuBLAS through CuPy; the mixed-precision column of report 003 (30,924 GFLOPS, 2.5 times its FP32).",
        device_class="gpu",
        library="cuBLAS",
        accuracy={"float32": "bf16"},
        arithmetic={"float32": "tensor"},
        min_compute_capability=(8, 0),
    ),
    LibraryKernel(
        name="cublas_fp16",
        summary="cuBLAS with float32 operands rounded to float16 on their way into the tensor cores.",
        idea="The compute mode CUBLAS_COMPUTE_32F_FAST_16F: 11 significant bits as in TF32, at the speed of bfloat16, "
        "but with float16's exponents. cuBLAS does not scale: unless it chooses TF32 instead, elements beyond 65504 "
        "become infinite, those below 2^-14 lose bits, and those below 2^-25 vanish. The accuracy `fp16` says so, and "
        "the check allows the loss; a product that operands beyond 65504 spoil fails with `operand_out_of_range`. It "
        "is never chosen unless the caller asks for `fp16`, or for it by name.",
        origin="cuBLAS through CuPy; a sibling of the mixed-precision mode of report 003.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={"float32": "fp16"},
        arithmetic={"float32": "tensor"},
        min_compute_capability=(7, 0),
    ),
    LibraryKernel(
        name="cublas_fp8_fast",
        summary="cuBLAS for 8-bit floats with sums that stay in the tensor cores.",
        idea="`cublas` with CUBLASLT_MATMUL_DESC_FAST_ACCUM. Hopper's tensor cores keep about 14 bits of a sum of "
        "8-bit products and truncate the rest. Without the promotion to float32 that `cublas` pays for, that error "
        "grows with k, most of all for terms of one sign. Later tensor cores are said to sum in float32 anyway.",
        origin="cuBLAS (cublasLt) by ctypes; PyTorch's `use_fast_accum`.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={"float8_e4m3": "fp8"},
        arithmetic={"float8_e4m3": "tensor"},
        min_compute_capability=FLOAT8,
    ),
    LibraryKernel(
        name="cublas_fp8_blocks",
        summary="cuBLAS's own product of 8-bit floats with block scales: the fastest of what cublasLt proposes.",
        idea="cublasLt has such products on Hopper since CUDA 12.9: a scale for each row of A and 128 steps of k, and "
        "for each column of B or 128 of them (CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F and BLK128x128_32F). Operands "
        "are made K-major first. Partial sums end with each 128 steps of k. The first product of a shape tries eight "
        "ways that cublasLt proposes, and the fastest is kept for the next. Another library version or device says in "
        "a sentence that it has none.",
        origin="cuBLAS (cublasLt) by ctypes; PyTorch's `scaled_mm` with block scales.",
        device_class="gpu",
        library="cuBLAS",
        accuracy={"float8_e4m3": "fp8"},
        arithmetic={"float8_e4m3": "tensor"},
        min_compute_capability=HOPPER,
        architecture_specific=True,
        scales=any_config,
        needs_scales=True,
    ),
)

HOST_TYPES: tuple[DTypeName, ...] = ("float32", "float64")
MP_TYPES: tuple[DTypeName, ...] = ("float16", "bfloat16", *HOST_TYPES)
FROM_HOST: tuple[Kernel, ...] = (
    HostLibraryKernel(
        name="cublas_xt",
        summary="NVIDIA's library for products of matrices in the host's memory, on all GPUs of the worker.",
        idea="cuBLASXt cuts the product into square tiles, deals them out to the GPUs in turn, and streams what each "
        "tile needs from the host while the last is computed. So the matrices may be larger than a GPU. The library "
        "multiplies in one call, which cannot be stopped. After it the worker checks the product in tiles on all GPUs, "
        "as it checks those it computes in tiles itself. It is never chosen unless a request names it.",
        origin="cuBLASXt (in cuBLAS) by ctypes.",
        device_class="gpu",
        library="cuBLASXt",
        copies=True,
        parameters=(
            Parameter(
                name="block",
                values=(1024, 2048, 4096, 8192, 16384),
                default=8192,
                summary="rows and columns of the library's tiles",
                compiled=False,
            ),
        ),
        accuracy={name: OWN_ACCURACY[name] for name in HOST_TYPES},
        arithmetic=dict.fromkeys(HOST_TYPES, "unproven"),
    ),
)

CUBLASMP = HostLibraryKernel(
    name="cublasmp",
    summary="NVIDIA's library for matrices that lie in parts on several GPUs.",
    idea="Each GPU of the worker holds some rows of A and some columns of B and of C. cuBLASMp gathers all of A on "
    "each GPU over NVLink, in memory that is registered with NCCL, and multiplies one part while the next is on its "
    "way. Where GPUs cannot write to each other's memory, it gathers A first. Its parts, the whole of A and 100 MiB "
    "must fit on each GPU. Sizes are padded with zeros to equal parts. The product is one library call, which cannot "
    "be cancelled; if one GPU fails in it, the worker's child ends and the job is queued again. Afterwards the worker "
    "checks the product in tiles, on all its GPUs. `auto` never takes it: a caller asks for it by name.",
    origin="cuBLASMp by ctypes; a thread for each GPU of one process.",
    device_class="gpu",
    library="cuBLASMp",
    min_gpus=2,
    needs="cublasmp",
    install="Install the extra `cublasmp` (`pip install '.[cublasmp]'`), which brings release 0.10 or newer, and start "
    "the worker again.",
    accuracy={name: OWN_ACCURACY[name] for name in MP_TYPES},
    arithmetic=dict.fromkeys(MP_TYPES, "unproven"),
    dtype_compute_capability={"bfloat16": (8, 0)},
)

SHORTER_FLOATS: dict[DTypeName, AccuracyName] = {
    **{name: OWN_ACCURACY[name] for name in ("float16", "bfloat16", "float32")},
    "float8_e4m3": "fp32",
}
MORE_EXACT: tuple[Kernel, ...] = (
    LibraryKernel(
        name="cpu_float64",
        summary="Floats of up to 32 bits multiplied and summed in float64 on the CPU, and rounded once.",
        idea="Operands are widened block by block. Their products are exact in float64, and sums are off by at most "
        "k·2^-53 of their terms, so what is left is the one rounding at the end. It takes two to three times as long "
        "as `cpu_blas` takes for float32. It is never chosen unless the caller asks for a `tolerance` that no faster "
        "kernel meets, or for it by name.",
        origin="NumPy and its BLAS (dgemm).",
        device_class="cpu",
        library="NumPy BLAS",
        accuracy=SHORTER_FLOATS,
        arithmetic=dict.fromkeys(SHORTER_FLOATS, "wide"),
    ),
    LibraryKernel(
        name="cpu_exact",
        summary="Correctly rounded on the CPU: each element is its exact sum, rounded once.",
        idea="Operands are cut into slices of 21 bits, counted from the largest element of each row of A and column of "
        "B. Products of slices are exact in float64, by BLAS, and are added up as whole numbers. So the product does "
        "not depend on the order of summation, the number of threads, the sizes of blocks or the device: it has the "
        "same bits everywhere. Slices are taken from the highest on until all that is left out can change no rounding. "
        "It is never chosen unless the caller asks for `reproducible`, for a `tolerance` that no other kernel meets, "
        "or for it by name.",
        origin="Ozaki's error-free transformation (K. Ozaki and others, Numer. Algorithms 59, 2012).",
        device_class="cpu",
        library="NumPy BLAS",
        accuracy={**SHORTER_FLOATS, "float64": "fp64"},
        arithmetic=dict.fromkeys((*SHORTER_FLOATS, "float64"), "rounded_once"),
    ),
)
