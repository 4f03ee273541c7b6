"""Whether a measured case may be held for its library's equal."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.result_models import CaseResult
from kernels.catalog import BY_NAME
from kernels.selection.ranking import error_ratio


def over_library(case: CaseResult, errors: Mapping[str, float | None]) -> float | None:
    """Its error over the baseline's, where it makes float32 products of another type's; None for all others, and where
    either is unknown. `errors`: of all cases of its benchmark."""
    return error_ratio(case.error_vs_float64, errors.get(case.baseline or "")) if _is_tried(case) else None


def is_as_exact(case: CaseResult, errors: Mapping[str, float | None]) -> bool:
    """Of kernels, and configs of one, of which some are less exact than the library, those that are not; and all where
    the library's error is not known."""
    if not _is_tried(case) or errors.get(case.baseline or "") is None:
        return True
    ratio = over_library(case, errors)
    return ratio is not None and ratio <= 1.0


def _is_tried(case: CaseResult) -> bool:
    return BY_NAME[case.kernel].emulated_with is not None and case.accuracy == "fp32"
