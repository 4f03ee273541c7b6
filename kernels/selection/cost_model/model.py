"""A model of how long products take in a kernel on a device: coefficients of `terms.py`, fitted to a table's rows.

The fit minimises relative errors and is robust against outliers; no coefficient is negative. Each config then gets
coefficients of its own, near those of all configs unless its rows say otherwise. The residual at each row is kept:
residuals of similar products are similar, and `forecast.py` takes them into account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, Kernel, LibraryKernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.selection.cost_model.configs import as_measured
from kernels.selection.cost_model.library import OF_LIBRARY, WORK
from kernels.selection.cost_model.terms import PASSES, WAVES, Config, Terms, terms_of
from kernels.selection.tuned import Entry, Floats, RankedRow, TableRow, TunedTable

USUAL_ERROR = 0.1  # of the logarithm of a time: rows with larger errors count less and less
ROUNDS = 5  # of reweighting
# How many rows each prior counts for: that a product takes as long as its operations, and that a config is like the
# others. The latter counts for more where a config has few rows: if it has ten, for three.
OF_WORK, OF_OTHERS, OF_OTHERS_BY_ROWS = 0.01, 0.3, 30.0
KNOWN_TO_TERMS = ("edge",)  # parameters whose effect the terms know
MIN_EXPECTED = 1e-3  # of what is expected, in the time that was measured
MIN_OF_OTHERS = 0.1  # share in what is expected at a row
MIN_ROWS = 24  # for a model of its own
MIN_ROWS_OF_EMULATED = 3  # for emulated kernels, whose times do not resemble a library's at all
OWN = "its own"  # in the place of a library
Places = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
_Row = tuple[TableRow, TileConfig]  # with the full config


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients, and how far they may be off: the inverse of the normal equations' matrix."""

    coefficients: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True)
class CostModel:
    """The expected times of a kernel's products."""

    kernel: Kernel  # whose terms it has
    multiprocessors: int
    of_any: Fit
    of_config: dict[Config, Fit]
    errors: dict[TableRow, float]  # of rows that it is fitted to: logarithms of their times over what is expected

    def log_us(self, config: TileConfig, problem: Problem) -> tuple[float, float]:
        """The logarithm of the expected time in microseconds, and its variance. `config` must be complete."""
        terms = terms_of(self.kernel, config, problem, self.multiprocessors)
        fit = self.of_config.get(_model_key(config, terms), self.of_any)
        given = np.array(terms)
        us = max(float(fit.coefficients @ given), MIN_EXPECTED)
        relative = given / us
        return log(us), USUAL_ERROR**2 * float(relative @ fit.covariance @ relative)


def cost_model_of(table: TunedTable, dtype: DTypeName, kernel: Kernel, library: Kernel | None) -> CostModel:
    """The kernel's model, fitted once. A kernel that was measured at few shapes gets the library's; a library that was
    gets one by which time is proportional to operations."""
    own = _own_model(table, dtype, kernel)
    if own is not None:
        return own
    key = dtype, kernel.name, library.name if library is not None else None
    if key not in table.cost_models:
        like = _by_work(table) if library is None or library is kernel else cost_model_of(table, dtype, library, None)
        table.cost_models[key] = _like(like, tuple(_rows(table, dtype, kernel)))
    found: CostModel = table.cost_models[key]
    return found


def _own_model(table: TunedTable, dtype: DTypeName, kernel: Kernel) -> CostModel | None:
    """The model fitted to the kernel's own rows; None if it was measured at few shapes."""
    key = dtype, kernel.name, OWN
    if key not in table.cost_models:
        rows = tuple(_rows(table, dtype, kernel))
        enough = MIN_ROWS if kernel.emulated_with is None else MIN_ROWS_OF_EMULATED
        table.cost_models[key] = _fitted(table, kernel, rows) if len(rows) >= enough else None
    found: CostModel | None = table.cost_models[key]
    return found


def _by_work(table: TunedTable) -> CostModel:
    """A model by which time is proportional to operations."""
    coefficients = np.zeros(OF_LIBRARY)
    coefficients[WORK] = 1.0
    fit = Fit(coefficients, np.zeros((OF_LIBRARY,) * 2))
    return CostModel(BY_NAME["cublas"], table.multiprocessors or 0, fit, {}, {})


def _like(model: CostModel, rows: Sequence[_Row]) -> CostModel:
    """The model of another kernel, with the coefficients of this one and the residuals at its own rows."""
    errors = {at: _log_us(at.row, at.entry) - model.log_us(NO_CONFIG, at.entry.problem)[0] for at, _ in rows}
    return replace(model, errors=errors)


def _model_key(config: TileConfig, terms: Terms) -> Config:
    """The key of a config's own coefficients. A launch without passes counts as another config."""
    parameters = ((name, value) for name, value in config.items() if name not in KNOWN_TO_TERMS)
    return *parameters, ("passes", int(any(terms[-PASSES:])))


def log_us_of(row: RankedRow, entry: Entry) -> float:
    """The logarithm of the measured time in microseconds."""
    return log(entry.problem.flops / row.gflops * 1e-3)


def at_its_best(row: RankedRow, entry: Entry) -> RankedRow:
    """The row; for a library's tuned entry, the default choice's if that was faster: it tries that too, but a trial by
    few launches, as was recorded, may have kept something slower."""
    if not _is_tuned(row):
        return row
    accuracy = BY_NAME[row.kernel].accuracy[entry.dtype]
    return max(
        (row, *(each for each in entry.ranking if _is_default(each, entry, accuracy))), key=lambda one: one.gflops
    )


def _log_us(row: RankedRow, entry: Entry) -> float:
    return log_us_of(at_its_best(row, entry), entry)


def _is_tuned(row: RankedRow) -> bool:
    kernel = BY_NAME[row.kernel]
    return isinstance(kernel, LibraryKernel) and kernel.is_tuned


def _is_default(row: RankedRow, entry: Entry, accuracy: AccuracyName) -> bool:
    """Whether it is the library's default choice in that class."""
    kernel = BY_NAME[row.kernel]
    return isinstance(kernel, LibraryKernel) and not kernel.is_tuned and kernel.accuracy.get(entry.dtype) == accuracy


def _fitted(table: TunedTable, kernel: Kernel, rows: Sequence[_Row]) -> CostModel:
    count = table.multiprocessors or 0
    terms = np.array([terms_of(kernel, config, at.entry.problem, count) for at, config in rows])
    times = np.exp([_log_us(at.row, at.entry) for at, _ in rows])
    together: dict[Config, list[int]] = defaultdict(list)
    for number, (_, config) in enumerate(rows):
        together[_model_key(config, terms[number])].append(number)
    model = CostModel(kernel, count, _fit(terms, times, _of_work(terms, kernel), OF_WORK)[0], {}, {})
    for key, at in together.items():
        others = max(OF_OTHERS, OF_OTHERS_BY_ROWS / len(at))
        model.of_config[key], errors = _fit(terms[at], times[at], model.of_any.coefficients, others)
        model.errors.update(zip((rows[each][0] for each in at), errors.tolist(), strict=True))
    return model


def _rows(table: TunedTable, dtype: DTypeName, kernel: Kernel) -> Iterator[_Row]:
    for entry in table.by_dtype[dtype][0]:
        for at in entry.ranked if kernel.emulated_with is None else entry.tried:
            if at.row.kernel != kernel.name:
                continue
            if (config := as_measured(kernel, at.row.config, entry.problem, table.traits)) is not None:
                yield at, config


def _of_work(terms: Floats, kernel: Kernel) -> Floats:
    """Coefficients by which a product takes as long as its waves, or a library's as its operations."""
    found = np.zeros(terms.shape[1])
    found[WAVES if isinstance(kernel, CudaKernel) else WORK] = 1.0
    return found


def _fit(terms: Floats, times: Floats, likely: Floats, counts: float) -> tuple[Fit, Floats]:
    """Coefficients that are not negative, near the likely ones, which count as so many rows; and logarithms of times
    over what would be expected without the row itself."""
    relative = terms / times[:, np.newaxis]
    likely = likely / np.median(relative @ likely)
    size = (relative**2).mean(axis=0)
    used: Places = np.flatnonzero(size)
    weights = np.ones(len(times))
    for _ in range(ROUNDS):
        weighted = relative * weights[:, np.newaxis]
        system = weighted.T @ relative + counts * np.diag(size)
        used, coefficients = _not_negative(system, weighted.sum(axis=0) + counts * size * likely, used)
        errors = -np.log(np.maximum(relative @ coefficients, MIN_EXPECTED))
        weights = 1 / (1 + (errors / USUAL_ERROR) ** 2)
    covariance = np.zeros_like(system)
    covariance[np.ix_(used, used)] = np.linalg.inv(system[np.ix_(used, used)])
    own = ((weighted @ covariance) * relative).sum(axis=1)
    return Fit(coefficients, covariance), errors / np.maximum(1 - own, MIN_OF_OTHERS)


def _not_negative(system: Floats, right: Floats, used: Places) -> tuple[Places, Floats]:
    """Solves the normal equations for these coefficients; what comes out negative is left out, the worst first."""
    found, size = np.zeros(len(right)), np.sqrt(np.diag(system))
    while len(used):
        solved = np.linalg.solve(system[np.ix_(used, used)], right[used])
        worst = int(np.argmin(solved * size[used]))
        if solved[worst] >= 0:
            found[used] = solved
            break
        used = np.delete(used, worst)
    return used, found
