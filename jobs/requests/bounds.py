"""Error bounds of products, in addition to accuracy classes, in requests and records."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jobs.base import Strict
from kernels.selection.demands import ToleranceKind

Tolerance = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class ErrorBound(Strict):
    """A proven bound on the error of every element of a product, for these operands."""

    kind: ToleranceKind = Field(
        description="What errors are in proportion to. `componentwise`: an element's own terms, |C − A·B| ≤ "
        "value·(|A|·|B|). `normwise`: the norms of the longest row of A and column of B, |C − A·B| ≤ value·‖A‖·‖B‖. "
        "With alpha, beta and C the same of |alpha|·|A|·|B| + |beta|·|C|."
    )
    value: float = Field(description="The bound, in the worst case; 0 for integers.", examples=[2.4e-4])
