"""The JSON of an inference request, read and checked: all of it but the elements, which may be in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jobs.errors import InvalidMatrix, InvalidRequest, MalformedBody, MatmulError
from jobs.formats.parser import MatrixHeader, check_shape
from jobs.requests.operands import OPERANDS
from service.bodies.options import MatmulOptions, parse_model
from service.bodies.reader import NEEDED, json_object
from service.inference.body import InferBody, Input, InRegion
from service.inference.datatypes import BITS, dtype_of
from service.inference.models import Model

LENGTH_HEADER = "Inference-Header-Content-Length"
KEPT_BYTES, KEPT_HEADS = 1024, 64  # longest JSON before raw elements that is kept once it is read; as many texts
_NOT_OFFERED = {
    "sequence_id": "Sequences are not offered: each product stands alone, so leave sequence_id out.",
    "sequence_start": "Sequences are not offered: each product stands alone, so leave sequence_start out.",
    "sequence_end": "Sequences are not offered: each product stands alone, so leave sequence_end out.",
    "classification": "A product has no classes; leave classification out.",
}


@dataclass(frozen=True, slots=True)
class InferHead:
    """The contents of the JSON. Each input's elements are in one place: in the JSON, in shared memory, or after the
    JSON."""

    body: InferBody
    options: MatmulOptions
    in_json: tuple[tuple[MatrixHeader, list[Any]], ...]
    in_regions: tuple[tuple[MatrixHeader, InRegion], ...]
    behind: tuple[MatrixHeader, ...]  # in this order


def read_head(text: bytes, model: Model, *, is_alone: bool) -> InferHead:
    """`is_alone`: the caller did not announce raw elements after the JSON. What is read depends on nothing else, and
    clients send the same JSON before each pair of matrices of the same shapes, so the latest short ones are kept.
    Raises MalformedBody, InvalidRequest and its subclasses.
    """
    read = _read if is_alone or len(text) > KEPT_BYTES else _kept
    return read(text, model, is_alone)


def _read(text: bytes, model: Model, is_alone: bool) -> InferHead:
    document = json_object(text)
    _check_offered(document)
    data = _taken_data(document)
    body = parse_model(InferBody, document)
    options = model.options(body.parameters.options)
    if len(body.outputs) > 1:
        raise InvalidRequest("There is one output, C; name it once.", field="outputs")
    _check_names([tensor.name for tensor in body.inputs])
    inputs = [(tensor, _header(tensor, options)) for tensor in body.inputs]
    for (tensor, header), elements in zip(inputs, data, strict=True):
        _check_source(tensor, header, elements, is_alone=is_alone)
    return InferHead(
        body,
        options,
        in_json=tuple((header, given) for (_, header), given in zip(inputs, data, strict=True) if given is not None),
        in_regions=tuple((header, tensor.parameters) for tensor, header in inputs if tensor.parameters.is_in_region),
        behind=tuple(header for tensor, header in inputs if tensor.parameters.binary_data_size is not None),
    )


_kept = lru_cache(KEPT_HEADS)(_read)


def named(name: str, step: Callable[[], Any]) -> Any:
    """The result of `step`; its errors name the tensor."""
    try:
        return step()
    except MatmulError as error:
        if error.field is None:
            error.field, error.detail = name, f"{name}: {error.detail}"
        raise


def _check_offered(document: dict[str, Any]) -> None:
    """Refuses features of the protocol that this server lacks, with a specific message."""
    outputs = document.get("outputs")
    places = [document, *(outputs if isinstance(outputs, list) else ())]
    for place in places:
        parameters = place.get("parameters") if isinstance(place, dict) else None
        for name in parameters if isinstance(parameters, dict) else ():
            if name in _NOT_OFFERED:
                raise InvalidRequest(_NOT_OFFERED[name], field=f"parameters.{name}")


def _taken_data(document: dict[str, Any]) -> list[Any]:
    """Removes the elements from each input and returns them; None if it has none."""
    inputs = document.get("inputs")
    return (
        [tensor.pop("data", None) if isinstance(tensor, dict) else None for tensor in inputs or ()]
        if isinstance(inputs, list)
        else []
    )


def _check_names(names: Sequence[str]) -> None:
    for name in map(str.upper, OPERANDS):
        if names.count(name) > 1:
            raise InvalidRequest(f"The input {name} comes twice.", field="inputs")
    for name in map(str.upper, NEEDED):
        if name not in names:
            raise InvalidRequest(f"The input {name} is missing; a product needs A and B.", field="inputs")


def _header(tensor: Input, options: MatmulOptions) -> MatrixHeader:
    dtype = dtype_of(tensor.datatype, options.dtype, tensor.name)
    return MatrixHeader(dtype, named(tensor.name, lambda: check_shape(dtype, tensor.shape)), tensor.name)


def _check_source(tensor: Input, header: MatrixHeader, elements: Any, *, is_alone: bool) -> None:
    """Checks that elements are given in exactly one place, and are as many as the shape requires."""
    name, size = tensor.name, tensor.parameters.binary_data_size
    if (size is not None) + (elements is not None) + tensor.parameters.is_in_region != 1:
        raise InvalidRequest(
            f"{name} needs one of data and the parameters binary_data_size and shared_memory_region.", field=name
        )
    if tensor.parameters.is_in_region:
        size = tensor.parameters.shared_memory_byte_size
    elif size is not None and is_alone:
        raise MalformedBody(
            f"{name} has a binary_data_size, but {LENGTH_HEADER} does not say where the JSON ends.",
            field=LENGTH_HEADER,
        )
    if size is not None and size != header.bytes:
        raise InvalidMatrix(
            f"{name} has {size} bytes, but its shape and datatype make {header.bytes}.",
            field=name,
        )
    if elements is not None and not isinstance(elements, list):
        raise InvalidMatrix(f"{name}: data must be a list of numbers.", field=name)
    if elements is not None and tensor.datatype == BITS:
        raise InvalidMatrix(f"{name} holds 8-bit floats as bits; send them as binary data.", field=name)
