"""A product as a heat map: its elements averaged over a bounded number of cells, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

import numpy as np

from jobs.errors import MatrixDamaged, MatrixNotFound
from jobs.formats.bit_floats import widen
from jobs.formats.elements import Array
from jobs.matrices.digest import PART, part_count
from jobs.models import Job, ProductInfo, product_id
from kernels.model.numerics import DTYPES, DTypeName
from service.context import Context
from service.http.damage import damage_reported
from service.submit.replies import product_elements

CELLS = 24  # along each side, at most
SAMPLED = 24  # elements sampled per cell along each side: all of a small product, some of a large one
READ_BYTES = 64 << 20  # largest matrix that is read if the store cannot map it
OF_MAGNITUDES = " Of complex elements it is their magnitude that is shown."
SIDE = 10  # of a cell, in the drawing's units


@dataclass(frozen=True, slots=True)
class Cell:
    """The mean of some rows and columns; None if one of their elements is not finite."""

    value: float | None
    share: float  # of the largest magnitude among all cells, 0 to 1
    where: str


@dataclass(frozen=True, slots=True)
class ProductMap:
    """Rows of cells, and the scale: from -largest to largest."""

    rows: Sequence[Sequence[Cell]]
    largest: float
    note: str

    @property
    def width(self) -> int:
        return SIDE * len(self.rows[0])

    @property
    def height(self) -> int:
        return SIDE * len(self.rows)


def map_of(context: Context, job: Job, owner: str) -> ProductMap | None:
    """The map of a job's product; None if there is no product, or it has expired, or is damaged. Raises
    StoreUnavailable.
    """
    product = job.record.product
    if product is None:
        return None
    if job.product_in_record:
        return _map_of_packed(context, job, product)
    if context.settings.store != "file" and product.bytes > READ_BYTES:
        return None
    name = product_id(job.id, job.record.attempt)
    try:
        context.store.info(name, owner=owner)
        with damage_reported(context, name), context.store.open(name, product.dtype, product.shape) as stored:
            first = _first(stored.elements)
            made = mapped(first, partial(_numbers, dtype=product.dtype))
            stored.verify_parts(_parts_sampled(first, product.bytes))
            return made
    except (MatrixNotFound, MatrixDamaged):
        return None


def _map_of_packed(context: Context, job: Job, product: ProductInfo) -> ProductMap | None:
    """The product is in the job's record."""
    try:
        elements = product_elements(job).load(context)
    except (MatrixNotFound, MatrixDamaged):
        return None
    return mapped(_first(elements), partial(_numbers, dtype=product.dtype))


def _numbers(elements: Array, dtype: DTypeName) -> Array:
    """The numbers to show for stored elements: for complex ones their magnitudes."""
    return np.abs(elements) if DTYPES[dtype].is_complex else widen(elements, dtype)


def _first(elements: Array) -> Array:
    """The only product, or the first of a batch."""
    first: Array = elements[0] if elements.ndim == 3 else elements
    return first


def mapped(array: Array, read: Callable[[Array], Array] = np.asarray) -> ProductMap:
    """The map of m×n elements; `read` converts stored elements to numbers."""
    edges = [_edges(extent) for extent in array.shape]
    means = _means(array, edges, read)
    sizes = np.abs(means[np.isfinite(means)])
    largest = float(sizes.max()) if sizes.size else 0.0
    rows = [
        [Cell(*_scaled(float(means[i, j]), largest), _where(edges, i, j)) for j in range(means.shape[1])]
        for i in range(means.shape[0])
    ]
    return ProductMap(rows, largest, _note(edges) + OF_MAGNITUDES * np.iscomplexobj(array))


def _edges(extent: int) -> Array:
    """Where cells begin and end along one axis."""
    return np.linspace(0, extent, min(extent, CELLS) + 1).astype(np.int64)


def _parts_sampled(first: Array, size: int) -> Array:
    """The parts (`jobs/matrices/digest.py`) of a matrix of `size` bytes that its map reads; `first` is what is mapped
    of it."""
    rows, columns = (np.concatenate(axis) for axis in _places([_edges(extent) for extent in first.shape]))
    positions = (rows[:, np.newaxis] * first.shape[1] + columns) * first.itemsize
    return np.unique(np.minimum(positions // PART, part_count(size) - 1))


def _places(edges: Sequence[Array]) -> list[list[Array]]:
    """The rows (or columns) sampled for each cell."""
    return [[_sample(edge[i], edge[i + 1]) for i in range(len(edge) - 1)] for edge in edges]


def _means(array: Array, edges: Sequence[Array], read: Callable[[Array], Array]) -> Array:
    places = _places(edges)
    picked = read(array[np.ix_(*(np.concatenate(axis) for axis in places))]).astype(np.float64)
    starts, counts = [], []
    for axis in places:
        sizes = np.array([len(cell) for cell in axis])
        counts.append(sizes)
        starts.append(np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.reduceat(np.add.reduceat(picked, starts[0], axis=0), starts[1], axis=1)
    means: Array = sums / np.outer(*counts)
    return means


def _sample(start: int, stop: int) -> Array:
    return np.unique(np.linspace(start, stop - 1, min(stop - start, SAMPLED)).astype(np.int64))


def _scaled(value: float, largest: float) -> tuple[float | None, float]:
    if not isfinite(value):
        return None, 1.0
    return value, abs(value) / largest if largest else 0.0


def _where(edges: Sequence[Array], i: int, j: int) -> str:
    axes = zip(("row", "column"), edges, (i, j), strict=True)
    spans = ((name, edge[place], edge[place + 1] - 1) for name, edge, place in axes)
    return ", ".join(
        f"{name} {first}" if first == last else f"{name}s {first} to {last}" for name, first, last in spans
    )


def _note(edges: Sequence[Array]) -> str:
    longest = max(int(np.diff(edge).max()) for edge in edges)
    if longest == 1:
        return "Each cell is an element."
    if longest <= SAMPLED:
        return "Each cell is the mean of its elements."
    return f"Each cell is the mean of at most {SAMPLED} × {SAMPLED} of its elements, evenly spread."
