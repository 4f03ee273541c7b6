"""Whether a measured case is accurate enough to compare with the library's."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.result_models import CaseResult
from kernels.catalog import BY_NAME
from kernels.selection.ranking import error_ratio


def over_library(case: CaseResult, errors: Mapping[str, float | None]) -> float | None:
    """Its error over the baseline's, if it makes float32 products from another type's; None for all others, and if
    either error is unknown. `errors`: the errors of all cases of its benchmark."""
    return error_ratio(case.error_vs_float64, errors.get(case.baseline or "")) if _is_tried(case) else None


def is_as_exact(case: CaseResult, errors: Mapping[str, float | None]) -> bool:
    """False only for a kernel, or a config, that makes float32 products from another type's and has a larger error than
    the library. True if the library's error is unknown."""
    if not _is_tried(case) or errors.get(case.baseline or "") is None:
        return True
    ratio = over_library(case, errors)
    return ratio is not None and ratio <= 1.0


def _is_tried(case: CaseResult) -> bool:
    return BY_NAME[case.kernel].emulated_with is not None and case.accuracy == "fp32"
