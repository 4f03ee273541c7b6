"""Published results as HTTP shows them, from the files that ship with the package."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from pydantic import Field

from jobs.base import Strict
from jobs.errors import NotFound
from kernels.published import PUBLISHED, text_of
from kernels.published_records import Citation, Publication


class PublishedItem(Strict):
    """An entry of the list of published results."""

    name: str = Field(description="Name in the path.", examples=["t4_register_tile_2025"])
    title: str = Field(description="What was measured, in one line.")
    report: str | None = Field(description="Number by which the catalogue's `origin` names it.", examples=["000"])
    device: str | None = Field(description="Model name; null where the source does not say.", examples=["NVIDIA T4"])
    records: int = Field(description="How many records it has.", examples=[88])
    citation: Citation = Field(description="Whose results these are.")


class PublishedList(Strict):
    """Published results."""

    published: tuple[PublishedItem, ...] = Field(description="The reports by number, then this project's own runs.")


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document that does not change while the process lives."""

    body: bytes
    etag: str


def _document(body: bytes) -> Document:
    return Document(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _item(publication: Publication) -> PublishedItem:
    return PublishedItem(
        name=publication.name,
        title=publication.title,
        report=publication.report,
        device=publication.device.name,
        records=len(publication.records),
        citation=publication.citation,
    )


@cache
def listed() -> Document:
    return _document(PublishedList(published=tuple(map(_item, PUBLISHED.values()))).model_dump_json().encode())


def find(name: str) -> Document:
    """The file of that name. Raises NotFound."""
    if name not in PUBLISHED:
        raise NotFound(f"There are no published results of that name; there are: {', '.join(PUBLISHED)}.", field="name")
    return _found(name)


@cache
def _found(name: str) -> Document:
    return _document(text_of(name).encode())
