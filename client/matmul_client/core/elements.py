"""Converts arrays: numpy, anything with `__dlpack__`, and the types of ml_dtypes.

The service names element types as numpy and ml_dtypes do, except `float8_e4m3`, which is ml_dtypes' `float8_e4m3fn`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from matmul_client.core.errors import InvalidOperand, ServiceFailed, foreign_reply
from matmul_client.core.wire import Buffer, Reply

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any  # numpy is loaded by what needs it: importing the client, or listing jobs, does not wait for it

_NUMPY = ("float16", "float32", "float64", "int8", "int32", "complex64", "complex128")
_BITS: Mapping[str, str] = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn"}  # here, and in ml_dtypes
_TORCH_BITS: Mapping[str, str] = {"torch.bfloat16": "int16", "torch.float8_e4m3fn": "uint8"}
_NAMES: Mapping[str, str] = {**{name: name for name in _NUMPY}, **{theirs: ours for ours, theirs in _BITS.items()}}
TYPES = ", ".join([*_NUMPY, *_BITS.values()])
_SIZES = re.compile(r"[0-9]{1,18}(,[0-9]{1,18}){1,2}")  # rows and columns, perhaps after a batch
_LARGE_BYTES = 1 << 16


def to_array(value: Any, name: str) -> Array:
    """`value` as a dense, little-endian array on the host, copied only where it is not one. Raises InvalidOperand.

    Its integers may still be of a type that the service does not have: `numbers.one_type` is for that.
    """
    return dense(seen(value, name))


def seen(value: Any, name: str) -> Array:
    """`value` as an array of two or three axes on the host, as it lies there. Raises InvalidOperand."""
    import numpy as np

    array = _on_host(value, name)
    if _service_name(array.dtype) is None and not is_foreign(array):
        raise InvalidOperand(f"{name} is of {array.dtype.name}; convert it to one of {TYPES}.")
    if name == "bias" and array.ndim == 1:
        array = array[np.newaxis]  # a row
    if array.ndim not in (2, 3):
        column = f"; {name}[:, None] is a column" if array.ndim == 1 and isinstance(value, np.ndarray) else ""
        raise InvalidOperand(
            f"{name} is {array.ndim}-D; an operand has rows and columns, and may have a batch axis{column}."
        )
    return array


def dense(array: Array) -> Array:
    """Row by row and little-endian; copied only where it is not."""
    import numpy as np

    dtype = array.dtype if array.dtype.byteorder != ">" else array.dtype.newbyteorder("<")
    return np.ascontiguousarray(array, dtype=dtype)


def is_foreign(array: Array) -> bool:
    """Whether it has integers of a type that the service does not have."""
    return array.dtype.kind in "biu" and array.dtype.name not in ("int8", "int32")


def _on_host(value: Any, name: str) -> Array:
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        raise InvalidOperand(f"{name} is a masked array, which a product knows nothing of; fill it, as by filled(0).")
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        if isinstance(value, list | tuple):
            try:
                return np.asarray(value)
            except ValueError:
                raise InvalidOperand(
                    f"{name} has rows of different lengths, or elements that are no numbers."
                ) from None
        raise InvalidOperand(f"{name} is a {type(value).__name__}; give an array of numpy, or one with __dlpack__.")
    detached = value.detach() if hasattr(value, "detach") else value  # a torch tensor that is differentiated
    bits = _TORCH_BITS.get(str(getattr(detached, "dtype", "")))
    try:
        if bits is not None:  # DLPack has these types and numpy has not
            dtype = str(detached.dtype).rpartition(".")[2]
            return _from_dlpack(detached.view(getattr(sys.modules["torch"], bits))).view(_ml_dtype(dtype))
        return _from_dlpack(detached)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InvalidOperand):
            raise
        why = " ".join(str(error).split()).rstrip(".")
        raise InvalidOperand(f"{name} cannot be read by DLPack: {why}; give an array of numpy made of it.") from error


def _from_dlpack(value: Any) -> Array:
    """Copies an array from a GPU with its own library's function: CuPy's `get`, torch's `cpu`."""
    import numpy as np

    is_on_host = value.__dlpack_device__()[0] in (1, 3, 13)  # memory of the CPU, or pinned by CUDA; or managed
    if not is_on_host and hasattr(value, "get"):
        return np.asarray(value.get())
    return np.from_dlpack(value if is_on_host or not hasattr(value, "cpu") else value.cpu())


def _ml_dtype(name: str) -> np.dtype[Any]:
    import numpy as np

    try:
        import ml_dtypes
    except ImportError:
        raise InvalidOperand(f"{name} needs one more package: pip install ml-dtypes.") from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def dtype_name(array: Array) -> str:
    """The service's name of an array's element type."""
    return _service_name(array.dtype) or ""


@lru_cache(maxsize=32)
def _service_name(dtype: np.dtype[Any]) -> str | None:
    return _NAMES.get(dtype.name)  # numpy puts a name together each time


def elements(array: Array) -> Buffer:
    """The bytes of a dense array, not copied."""
    return array.reshape(-1).view("u1").data  # numpy exports no buffer of ml_dtypes' types


def content_hash(array: Array) -> hashlib._Hash:
    """Begun with element type and shape; with the elements it is the id under which the service stores the matrix."""
    return hashlib.sha256(f"{dtype_name(array)}:{'x'.join(map(str, array.shape))}\n".encode())


def array_of(reply: Reply) -> Array:
    """The matrix in an octet-stream reply. Raises ServiceFailed where it is not what its headers say."""
    import numpy as np

    name, sizes = reply.headers.get("x-matmul-dtype", ""), reply.headers.get("x-matmul-shape", "")
    if not name or not _SIZES.fullmatch(sizes) or reply.headers.get("content-encoding", "identity") != "identity":
        raise foreign_reply(reply.status)
    if name not in _NUMPY and name not in _BITS:
        raise ServiceFailed(f"The service sent elements of a type that this client does not know: {name!r}.")
    dtype = np.dtype(name) if name in _NUMPY else _ml_dtype(_BITS[name])
    shape = tuple(map(int, sizes.split(",")))
    if len(reply.body) != prod(shape) * dtype.itemsize:
        raise ServiceFailed(f"The service sent {len(reply.body)} bytes for a {name} matrix of {sizes}.")
    array: Array = np.frombuffer(reply.body, dtype).reshape(shape)
    return array if array.flags.writeable else array.copy()


class BodyReader:
    """Puts a reply's body together: a large one in memory that is made once, so that it is copied once."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0
        declared = int(headers.get("content-length", "0"))
        self._whole = memory(declared) if declared >= _LARGE_BYTES else None

    def feed(self, piece: bytes) -> None:
        if self._whole is None:
            self._pieces.append(piece)
        else:
            self._whole[self._bytes : self._bytes + len(piece)] = piece
        self._bytes += len(piece)

    def body(self) -> Buffer:
        return b"".join(self._pieces) if self._whole is None else self._whole[: self._bytes]


def memory(size: int) -> memoryview:
    """A buffer of that size, not filled with zeros first, as a bytearray would be. Raises ServiceFailed."""
    import numpy as np

    try:
        return np.empty(size, np.uint8).data
    except (MemoryError, ValueError):
        raise ServiceFailed(f"The reply is said to have {size} bytes, more than there is memory for here.") from None
