"""The options of a product request, and errors that name a wrong field."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast

import orjson
from pydantic import BaseModel, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from jobs.base import Strict
from jobs.errors import InvalidRequest, MalformedBody, MatmulError, UnknownKernel, UnsupportedDType
from jobs.formats.factors import Factor
from jobs.kernel_choice import KernelChoice
from jobs.models import VerifyName
from jobs.requests.bounds import Tolerance
from jobs.requests.operands import INPUTS, SCALES, RandomSpec
from kernels.model.activations import ActivationName
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName
from kernels.model.outputs import multiplied_as
from kernels.model.scales import SCALE_DTYPE
from kernels.selection.demands import ToleranceKind
from service.problems import shown

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
KERNEL_FIELDS = frozenset({"kernel", "kernels", "baseline"})
DTYPE_FIELDS = frozenset({"dtype", "dtypes"})
MAX_INTEGER = 2.0**63  # larger ones come as floats out of JSON
SHARED_CHARACTERS, SHARED_OPTIONS = 1024, 32  # options of equal text are one object: up to this length; as many texts
MAX_OPTIONS_BYTES, MAX_MISTAKES = 64 << 10, 2000  # of all options; looked through for the one to report, a KiB each
MAX_DERIVED = 512  # what is kept with options at most, of 1.2 KiB each

NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_ROWS: dict[str, Any] = {"type": "array", "items": {"type": "array", "items": NUMBER}}
_PAIR = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
_ROWS_OF_PAIRS: dict[str, Any] = {"type": "array", "items": {"type": "array", "items": _PAIR}}
_MATRICES = [_ROWS, {"type": "array", "items": _ROWS}, _ROWS_OF_PAIRS, {"type": "array", "items": _ROWS_OF_PAIRS}]
# Nested lists as the manual describes them. Their elements are checked by `bodies/nested_lists.py`, not by pydantic.
Nested = Annotated[list[Any], WithJsonSchema({"title": "Nested lists", "anyOf": _MATRICES})]

GroupSize = Annotated[int, Field(ge=0, lt=2**31)]


class MatmulOptions(Strict):
    """How to multiply. Every field may be left out."""

    __slots__ = ("_derived",)  # no field, so that no copy takes it along

    kernel: KernelChoice = Field(
        "auto", description="Kernel to run, one of GET /v1/kernels; `auto` chooses by what was measured."
    )
    config: dict[str, int] = Field(
        default_factory=dict,
        description="Tile parameters of the named kernel, such as `block_m`; what is left out takes its default.",
        examples=[{"block_m": 8, "block_n": 32}],
    )
    dtype: DTypeName | None = Field(
        None,
        description="Element type of nested lists, and of random operands without one of their own; float32 by "
        "default, or float64 if nested lists have integers that float32 might not represent or multiply exactly. "
        "Integers for which float64 does not suffice either are refused. For stored or binary operands leave it out, "
        "or repeat theirs.",
        examples=["float32"],
    )
    accuracy: AccuracyName | None = Field(
        None,
        description="Error class the product must meet: `fp8`, `bf16`, `fp16`, `tf32`, `fp32`, `fp64`, or `exact` for "
        "integers; `fp32_normwise` is float32's error relative to the largest rows and columns. The default is the "
        "class of the named kernel, or of the element type.",
        examples=["fp32"],
    )
    tolerance: Tolerance | None = Field(
        None,
        description="Instead of `accuracy`: use the fastest kernel whose error on these operands is proven to be "
        "within it, for every element, in the worst case. The record's `error_bound` is the proven bound. 0 is for "
        "integers.",
        examples=[1e-6],
    )
    tolerance_kind: ToleranceKind | None = Field(
        None,
        description="What `tolerance` is relative to. `componentwise`, the default: an element's own terms, |C − A·B| "
        "≤ tolerance·(|A|·|B|). `normwise`: the Euclidean norms of the longest row of A and column of B, |C − A·B| ≤ "
        "tolerance·‖A‖·‖B‖.",
        examples=["componentwise"],
    )
    reproducible: bool = Field(
        False,
        description="Return the same bits on every device, with every kernel, config and number of threads, alone or "
        "in a batch: integers are exact, and each float is its exact sum, rounded once.",
    )
    transpose_a: bool = Field(False, description="Multiply with A transposed: A is then k×m.")
    transpose_b: bool = Field(False, description="Multiply with B transposed: B is then n×k.")
    conjugate_a: bool = Field(
        False,
        description="Multiply with the complex conjugate of A; with `transpose_a`, its conjugate transpose, BLAS's "
        "`C`. Real operands do not change.",
    )
    conjugate_b: bool = Field(False, description="Multiply with the complex conjugate of B.")
    alpha: Factor = Field(
        1.0,
        description="Factor of A·B. For integer products a whole number; for complex ones also a pair, `[re, im]`.",
        examples=[1.0],
    )
    beta: Factor | None = Field(
        None,
        description="Factor of C, which is then required; 1 by default. With 0, C is not read. Same values as `alpha`.",
        examples=[1.0],
    )
    activation: ActivationName | None = Field(
        None,
        description="Function applied to every element of alpha·A·B + beta·C + bias, for real floats: `relu`; `gelu`, "
        "x·Φ(x) with the error function; `gelu_tanh`, its approximation by tanh; `silu`, x/(1 + e^-x).",
        examples=["gelu"],
    )
    output_dtype: DTypeName | None = Field(
        None,
        description="Element type of the product, if not the usual one: `float32` for float16 and bfloat16 operands, "
        "which are then multiplied as float32; `float16` or `bfloat16` for float32, float64 and float8 operands; "
        "`float32` for float64.",
        examples=["float32"],
    )
    group_sizes: tuple[GroupSize, ...] | None = Field(
        None,
        description="A grouped product: g numbers that add up to m; any may be 0. B is then g×k×n. The first "
        "`group_sizes[0]` rows of A (m×k) are multiplied by the first matrix of B, the next `group_sizes[1]` by the "
        "second, and so on. The product is m×n.",
        examples=[[3, 0, 5]],
    )
    verify: VerifyName = Field(
        "freivalds",
        description="`freivalds` checks the product against its operands in O(n²), and fails the job where it is "
        "wrong; `off` does not check.",
    )

    def derived(self, key: Hashable, derive: Callable[[], T]) -> T:
        """What `derive` returns, which must depend on nothing but these options and `key`. It is kept with the options,
        for most requests have the options and shapes of an earlier one. What it raises is not kept.
        """
        try:  # not by way of pydantic, which looks for names that are not there for long
            kept: dict[Hashable, object] = object.__getattribute__(self, "_derived")
        except AttributeError:
            kept = {}
            object.__setattr__(self, "_derived", kept)
        try:
            return cast(T, kept[key])
        except KeyError:
            if len(kept) >= MAX_DERIVED:
                kept.clear()
            made = kept[key] = derive()
            return made

    def dtype_of(self, operand: str) -> DTypeName:
        """The element type of the named operand if it has none of its own. C and the bias have the product's type."""
        if operand in SCALES:
            return SCALE_DTYPE
        dtype = self.dtype or "float32"
        return dtype if operand in ("a", "b") else DTYPES[multiplied_as(dtype, self.output_dtype)].product


NO_OPTIONS = MatmulOptions()


class MatrixRef(Strict):
    """A stored matrix."""

    matrix: str = Field(
        description="Id that POST /v1/matrices gave, or the id of a product (`c_…`).",
        examples=["cf33700563fa0a8f8d3e9c616969986b6e3015b2e6fe7260cc35c5199045214e"],
    )


class JobRef(Strict):
    """The product of a job, which may still be queued or running."""

    job: str = Field(
        description="Id of a product's job. The product is computed once that job has succeeded; if it does not, "
        "this job fails as `operand_failed`.",
        examples=["job_0123456789abcdef0123456789abcdef"],
    )


class RandomOperand(Strict):
    """A matrix made from a seed, by the worker: nothing is sent."""

    random: RandomSpec = Field(description="Shape, seed and distribution.")


def parse_options(document: dict[str, Any]) -> MatmulOptions:
    """As `parse_model`. Options of the same text are the same object, as far as texts are short."""
    if not document:
        return NO_OPTIONS
    text = encoded(document)
    return _shared_options(text) if len(text) <= SHARED_CHARACTERS else parse_model(MatmulOptions, document)


@lru_cache(SHARED_OPTIONS)
def _shared_options(text: bytes) -> MatmulOptions:
    return parse_model_json(MatmulOptions, text)


def parse_model(
    model: type[M], value: Any, at: str = "", *, kinds: frozenset[str] = frozenset(), max_bytes: int = MAX_OPTIONS_BYTES
) -> M:
    """Parses `value`, a part of a JSON document, as a `model`. `at` is its path, for error messages; `kinds` are
    pydantic's names for the alternatives of the model's unions, which do not occur in documents. `max_bytes`: the
    longest text that is parsed, because pydantic's notes on a wrong one take many times its size. Raises
    MalformedBody, InvalidRequest, UnknownKernel, UnsupportedDType.
    """
    text = encoded(value, at)
    if isinstance(value, dict) and (unknown := next((name for name in value if name not in model.model_fields), None)):
        field = f"{at}{'.' if at else ''}{shown(unknown)}"
        raise InvalidRequest(_no_field(field, model), field=field)
    if len(text) > max_bytes:
        told = f"{at or 'The body without elements'} has {len(text)} bytes; {max_bytes} are the most read here."
        raise InvalidRequest(told, field=at or None)
    return parse_model_json(model, text, at, kinds=kinds)


def encoded(value: Any, at: str = "") -> bytes:
    """Encodes `value`, a part of a JSON document, as JSON again. Raises MalformedBody if that is impossible: the parser
    accepts deeper lists, larger integers and lone surrogates than can be written.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        raise MalformedBody(
            f"{at or 'The body'} is nested too deeply, or has an integer past 64 bits or half a character (a lone "
            "surrogate); leave it out.",
            field=at or None,
        ) from None


def parse_model_json(model: type[M], text: bytes, at: str = "", *, kinds: frozenset[str] = frozenset()) -> M:
    """Parses JSON text strictly: 1 is not "1", and true is no number. (Only JSON may then give lists for tuples.)"""
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise options_error(error, model, at, kinds) from None


def options_error(
    error: ValidationError, model: type[BaseModel], at: str, kinds: frozenset[str] = frozenset()
) -> MatmulError:
    """Translates a pydantic error. If a field is unknown, which may be why another is missing, that one is reported;
    otherwise the first.
    """
    if (mistakes := error.error_count()) > MAX_MISTAKES:
        return InvalidRequest(f"{at or 'The body'} has {mistakes} mistakes, too many to name one.", field=at or None)
    complaints = error.errors(include_url=False)
    unknown = (each for each in complaints if each["type"] == "extra_forbidden" and len(each["loc"]) == 1)
    first = next(unknown, complaints[0])
    place = _place(first["loc"], kinds)
    field = ".".join([*([at] if at else []), *map(shown, place)])
    sentence = _sentence(first, field, model)
    name = next((part for part in reversed(place) if isinstance(part, str)), "")
    if name in KERNEL_FIELDS and first["type"] == "value_error":
        return UnknownKernel(sentence, field=field)
    if name in DTYPE_FIELDS and first["type"] == "literal_error":
        return UnsupportedDType(sentence, field=field)
    return InvalidRequest(sentence, field=field or None)


def _place(parts: Sequence[int | str], kinds: frozenset[str]) -> list[int | str]:
    """The path in the document, without the union alternatives that pydantic names after an item or field."""
    before: Sequence[int | str] = ("", *parts[:-1])
    return [part for part, last in zip(parts, before, strict=False) if part not in kinds or last in kinds or last == ""]


def _sentence(complaint: ErrorDetails, field: str, model: type[BaseModel]) -> str:
    context = complaint.get("ctx", {})
    match complaint["type"]:
        case "extra_forbidden":
            return _no_field(field, model if len(complaint["loc"]) == 1 else None)
        case "missing":
            return f"{field} is missing."
        case "literal_error":
            return f"{field} must be {context['expected']}."
        case "value_error":
            error = f"{context['error']}."
            return f"{field}: {error}" if field else error[:1].upper() + error[1:]
        case "too_short":
            return f"{field} must have at least {context['min_length']} of them, not {context['actual_length']}."
        case "too_long":
            return f"{field} may have at most {context['max_length']} of them, not {context['actual_length']}."
        case "int_type" if type(complaint["input"]) is float and abs(complaint["input"]) >= MAX_INTEGER:
            return f"{field} is {complaint['input']:g}, which is too large."
        case "json_invalid":
            return f"{field or 'The options'} is not JSON: {context['error']}."
    return f"{field or 'The value'}: {complaint['msg'][0].lower()}{complaint['msg'][1:]}."


def _no_field(field: str, model: type[BaseModel] | None) -> str:
    """`model`: whose field it would be, to name those there are."""
    names = [*(INPUTS if model is MatmulOptions else ()), *model.model_fields] if model else []
    return f"There is no field {field}{'; there are: ' if names else ''}{', '.join(names)}."
