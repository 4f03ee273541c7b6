"""Element types under the protocol's names. It has none for 8-bit floats: they travel as bits, in UINT8. It has none
for complex numbers either, and no substitute: use /v1 for complex products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.errors import UnsupportedDType
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, DTypeName

BITS = "UINT8"
NO_COMPLEX = "the Open Inference Protocol has no complex numbers; send such products to POST /v1/matmul."
EIGHT_BIT_FLOAT: Final = "float8_e4m3"
_DTYPES: Mapping[str, DTypeName] = {
    "FP32": "float32",
    "FP64": "float64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "INT32": "int32",
}
_NAMES: Mapping[DTypeName, str] = {EIGHT_BIT_FLOAT: BITS, **{dtype: name for name, dtype in _DTYPES.items()}}


def datatype_of(dtype: DTypeName) -> str:
    """The protocol's name of an element type. Raises UnsupportedDType if it has none."""
    if dtype not in _NAMES:
        raise UnsupportedDType(f"The product is {dtype}: {NO_COMPLEX}")
    return _NAMES[dtype]


def dtype_of(datatype: str, asked: DTypeName | None, tensor: str) -> DTypeName:
    """The element type of a tensor; `asked` is the request's parameter `dtype`. Raises UnsupportedDType."""
    if datatype == BITS and asked == EIGHT_BIT_FLOAT:
        return EIGHT_BIT_FLOAT
    if datatype.upper().startswith("COMPLEX") or (asked is not None and DTYPES[asked].is_complex):
        raise UnsupportedDType(f"{tensor}: {NO_COMPLEX}", field=tensor)
    if datatype not in _DTYPES:
        raise UnsupportedDType(
            f"{tensor} has the datatype {datatype[:20]!a}; send {', '.join(_DTYPES)}, or {EIGHT_BIT_FLOAT} as "
            f'{BITS} with the parameter "dtype": "{EIGHT_BIT_FLOAT}".',
            field=tensor,
        )
    return _DTYPES[datatype]


def datatypes_of(kernel: Kernel | None) -> tuple[str, str]:
    """The datatype of operands and of the product in a model's metadata, which can give only one each. None stands for
    all kernels.
    """
    dtypes = tuple(DTYPES) if kernel is None else kernel.dtypes
    dtype = "float32" if "float32" in dtypes else dtypes[0]
    return datatype_of(dtype), datatype_of(DTYPES[dtype].product)
