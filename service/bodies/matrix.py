"""Body readers for POST and PUT /v1/matrices, one for each media type. Each reads one matrix."""

from __future__ import annotations

import re

from pydantic import Field
from starlette.requests import Request

from jobs.base import Strict
from jobs.errors import InvalidMatrix, InvalidRequest, UnsupportedDType
from jobs.formats.npy import NpyParser
from jobs.formats.parser import MatrixHeader, MatrixParser, OctetParser, OpenSink
from jobs.formats.safetensors import SafetensorsParser
from jobs.matrices.random import check_random, generate_chunks
from jobs.requests.operands import RandomSpec
from kernels.model.numerics import DTYPES, DTypeName
from service.bodies.body import Body
from service.bodies.nested_lists import read_lists
from service.bodies.number_types import USUAL, type_that_holds
from service.bodies.options import Nested, parse_model
from service.bodies.piece import Piece
from service.bodies.reader import OpenUpload, Reader, WholeReader, filled, json_object
from service.bodies.uploads import Upload
from service.context import Context
from service.http.listed import sole
from service.http.negotiation import JSON, NPY, OCTETS, SAFETENSORS

ACCEPTED_TYPES = (NPY, SAFETENSORS, OCTETS, JSON)
IN_QUERY = ("dtype", "shape")  # of raw elements, if not in X-Matmul-Dtype and X-Matmul-Shape


class MatrixUpload(Strict):
    """A matrix in JSON: either `random` or `data`."""

    random: RandomSpec | None = Field(None, description="How to make it from a seed.")
    data: Nested | None = Field(
        None, description="Rows of numbers, or a list of such matrices.", examples=[[[1.0, 2.0], [3.0, 4.0]]]
    )
    dtype: DTypeName | None = Field(
        None,
        description="Element type of `data`, and of `random` where it names none; float32 by default, or float64 where "
        "`data` has integers that float32 does not hold exactly.",
        examples=["float32"],
    )


class FileReader(Reader[Upload]):
    """Reads a matrix with one of the strict parsers."""

    def __init__(self, open_upload: OpenUpload) -> None:
        self._open = open_upload
        self._upload: Upload | None = None
        self.parser: MatrixParser

    def take(self, header: MatrixHeader) -> Upload:
        self._upload = self._open(header)
        return self._upload

    def feed(self, data: Piece) -> None:
        self.parser.feed(data)

    def finish(self) -> Upload:
        self.parser.finish()
        assert self._upload is not None
        return self._upload

    def close(self) -> None:
        self.parser.close()


class JsonMatrixReader(WholeReader[Upload]):
    """`{"random": {…}}` or `{"data": [[…]], "dtype": …}`."""

    def finish(self) -> Upload:
        body = self._body
        document = json_object(body)
        data = document.pop("data", None)  # a stricter and faster parser checks its elements
        upload = parse_model(MatrixUpload, document)
        if (data is None) == (upload.random is None):
            raise InvalidRequest("Give either data or random.", field="data")
        if upload.random is not None:
            return self._random(upload.random, upload.random.dtype or upload.dtype or USUAL)
        if not isinstance(data, list):
            raise InvalidMatrix("data must be a list of rows of numbers.", field="data")
        numbers = read_lists({"data": data}, body, upload.dtype)["data"]
        dtype = upload.dtype or type_that_holds([numbers])
        return filled(self._open, numbers.stored(dtype), dtype)

    def _random(self, spec: RandomSpec, dtype: DTypeName) -> Upload:
        check_random(spec, dtype)
        upload = self._open(MatrixHeader(dtype, spec.shape))
        for chunk in generate_chunks(spec, dtype):
            upload.write(chunk)
        return upload


def matrix_reader(
    request: Request, media_type: str, body: Body, open_upload: OpenUpload, context: Context
) -> Reader[Upload]:
    """The reader for `media_type`, one of ACCEPTED_TYPES. Raises InvalidRequest and its subclasses."""
    if media_type != OCTETS and (name := next((name for name in IN_QUERY if name in request.query_params), None)):
        raise InvalidRequest(
            f"The query's {name} is for {OCTETS}; a body of {media_type} has its own, so leave it out.", field=name
        )
    if media_type == JSON:
        return JsonMatrixReader(open_upload)
    reader = FileReader(open_upload)
    reader.parser = _parser(request, media_type, body, reader.take, context)
    return reader


def _parser(request: Request, media_type: str, body: Body, open_sink: OpenSink, context: Context) -> MatrixParser:
    length = body.declared_bytes
    if media_type == NPY:
        return NpyParser(open_sink, body_bytes=length, staging_dir=context.staging_dir)
    if media_type == SAFETENSORS:
        return SafetensorsParser(open_sink, body_bytes=length, staging_dir=context.staging_dir)
    header = _octet_header(request)
    try:
        return OctetParser(header, open_sink, body_bytes=length)
    except InvalidMatrix as error:
        error.field = "X-Matmul-Shape"
        raise


def _told(request: Request, name: str) -> str:
    """What the header, or the query, says of raw elements; empty if neither does. Raises InvalidRequest."""
    header = f"X-Matmul-{name.capitalize()}"
    in_header, in_query = sole(request, header), request.query_params.get(name)
    if in_header and in_query and in_header != in_query:
        raise InvalidRequest(f"{header} and the query's {name} differ; send one of them.", field=header)
    return in_header or in_query or ""


def _octet_header(request: Request) -> MatrixHeader:
    """Type and shape of raw elements, which headers or the query must give."""
    dtype, shape = (_told(request, name) for name in IN_QUERY)
    if dtype not in DTYPES:
        raise UnsupportedDType(
            f"X-Matmul-Dtype (or the query's dtype) must be one of {', '.join(DTYPES)}.", field="X-Matmul-Dtype"
        )
    sizes = re.fullmatch(r"\d{1,19}(?:[,x]\d{1,19}){0,7}", shape.replace(" ", ""), re.ASCII)
    if sizes is None:
        raise InvalidMatrix("X-Matmul-Shape (or the query's shape) must be sizes such as 3,4.", field="X-Matmul-Shape")
    return MatrixHeader(dtype, tuple(map(int, re.split("[,x]", sizes[0]))))
