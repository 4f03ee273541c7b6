"""Whether a measured case may be held for its library's equal."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.result_models import CaseResult
from kernels.catalog import BY_NAME


def over_library(case: CaseResult, errors: Mapping[str, float | None]) -> float | None:
    """Its error over the baseline's, where it makes float32 products of another type's; None for all others, and where
    either is unknown. `errors`: of all cases of its benchmark."""
    library = errors.get(case.baseline or "")
    if BY_NAME[case.kernel].made_of is None or case.accuracy != "fp32" or not library:
        return None
    return None if case.error_vs_float64 is None else case.error_vs_float64 / library


def is_as_exact(case: CaseResult, errors: Mapping[str, float | None]) -> bool:
    """Of kernels, and configs of one, of which some are less exact than the library, those that are not."""
    ratio = over_library(case, errors)
    return ratio is None or ratio <= 1.0
