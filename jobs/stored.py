"""Reads stored models, which another version of the service may have written. Callers' input is parsed strictly
(`jobs.base.Strict`), and so is the first try here, which suffices for rows of this version. A row that does not fit is
parsed again: unknown fields are then ignored, and an unknown name (of a kernel, or a member of an enumeration) stays a
string. Scripts change a job field by field, so ignored fields stay stored.
"""

from __future__ import annotations

from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from jobs.base import Strict, UnknownRequest
from jobs.errors import JobFailed, MatmulError

Model = TypeVar("Model", bound=Strict)


class RecordUnreadable(MatmulError):
    """This job was recorded by a version of the service that this one cannot read; ask again after the upgrade."""

    type = "record_unreadable"
    retry_after_s = 30


class NotUnderstood(JobFailed):
    """No live worker's version knows all that this job asks for; upgrade the workers, then retry the job."""

    type = "not_understood"


def read(model: type[Model], text: str | bytes) -> Model:
    """Parses a stored model from JSON. Raises pydantic.ValidationError if even the tolerant reading fails."""
    try:
        return model.model_validate_json(text)
    except ValidationError:
        tolerant_model: type[Model] = tolerant(model)
        return tolerant_model.model_validate_json(text, extra="ignore")


def read_known(model: type[Model], text: str | bytes) -> Model:
    """Parses a stored model with only known names: for data that is computed with, not merely shown. A field that
    cannot be read becomes None if that is its default. Raises pydantic.ValidationError if another field cannot be read.
    """
    try:
        return model.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        odd = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
    optional = {name for name in odd & model.model_fields.keys() if model.model_fields[name].get_default() is None}
    return model.model_validate(
        {name: value for name, value in _object(text).items() if name not in optional}, extra="ignore"
    )


def read_parts(model: type[Model], text: str | bytes) -> Model:
    """Parses as much of a stored model as possible. Fields that are missing or cannot be read get their default, or
    None: for models any of whose fields may be unknown.
    """
    try:
        return read(model, text)
    except ValidationError:
        kept = _object(text)
    tolerant_model: type[Model] = tolerant(model)
    parts = {name: _part(field, kept.get(name)) for name, field in tolerant_model.model_fields.items()}
    return cast(Model, tolerant_model.model_construct(**parts))


def unknown_request(text: str | bytes) -> UnknownRequest:
    """The whole recorded request, uninterpreted; empty if it is not a JSON object."""
    return UnknownRequest(**_object(text))


@lru_cache
def tolerant(model: type[Model]) -> type[Model]:
    """A subclass that accepts any string where the model accepts certain ones, and checks no bounds; its instances
    replace the model's. The caller ignores unknown fields when it validates (`extra`), since nested models may have
    them too.
    """
    fields: dict[str, Any] = {name: (_relaxed_field(info), _default(info)) for name, info in model.model_fields.items()}
    return cast(type[Model], create_model(model.__name__, __base__=model, __module__=__name__, **fields))


def _relaxed_field(info: FieldInfo) -> Any:
    whole = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return _relaxed(whole)


def _default(info: FieldInfo) -> Any:
    if info.is_required():
        return Field()
    return Field(info.default) if info.default_factory is None else Field(default_factory=info.default_factory)


def _relaxed(hint: Any) -> Any:
    """The type without restrictions that a newer version may have extended. Discriminators of unions are kept."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Strict):
        return tolerant(hint)
    if origin is Literal:
        return Union[(hint, *{type(value) for value in arguments})]
    if origin is Annotated:
        kept = [each for each in hint.__metadata__ if isinstance(each, Discriminator | Tag)]
        inner = _relaxed(arguments[0])
        return Annotated[(inner, *kept)] if kept else inner
    if origin in (Union, UnionType):
        return Union[tuple(map(_relaxed, arguments))]  # noqa: UP007
    if origin in (tuple, dict):
        return origin[tuple(each if each is ... else _relaxed(each) for each in arguments)]
    return hint


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        found = from_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _part(field: FieldInfo, value: Any) -> Any:
    """The field's value, or its default if the value is not valid."""
    try:
        return TypeAdapter(_relaxed_field(field)).validate_python(value, extra="ignore")
    except ValidationError:
        return None if field.is_required() else field.get_default(call_default_factory=True)
