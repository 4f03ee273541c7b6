"""Published results for comparison: the measurements of the reports that the kernels come from, and recorded runs of
this project. One JSON file each in `published/`, this project's compressed; a file that breaks the schema is an error
when they are first looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernels.lazy_data import LazyMapping
from kernels.published_records import Publication
from kernels.strict_json import DataError, parse
from kernels.text_files import read_text

DIRECTORY = Path(__file__).parent / "published"


def read(path: Path) -> Publication:
    """Raises DataError for a file that breaks the schema, or holds another name than its own."""
    publication = parse(Publication, read_text(path), path.name)
    if publication.name != path.name.partition(".")[0]:
        raise DataError(f"{path.name} says that its name is {publication.name!r}.")
    return publication


def text_of(name: str) -> str:
    """The text of a publication's file."""
    return read_text(next(DIRECTORY.glob(f"{name}.json*")))


def _in_order(publications: Iterable[Publication]) -> Mapping[str, Publication]:
    """The reports by number, then this project's runs by name."""
    ordered = sorted(publications, key=lambda p: (p.report is None, p.report or "", p.name))
    return {publication.name: publication for publication in ordered}


PUBLISHED: Mapping[str, Publication] = LazyMapping(lambda: _in_order(map(read, DIRECTORY.glob("*.json*"))))
