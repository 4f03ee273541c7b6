"""What the docs say of measured long products."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure.interleaved.deep import MEASURED
from benchmarks.tables.interleaved.deep import deep
from kernels.catalog import BY_NAME

ROW = {"kernel": "hopper_bf16", "m": 1000, "n": 2000, "k": 10_000, "samples": 11}
TUNED = ROW | {"ms": {"in_step": 0.05, "apart": 0.1, "cublas": 0.08, "cublas_tuned": 0.04}}
BY_DEFAULT = ROW | {"kernel": "hopper_tf32", "ms": {"in_step": 0.1, "apart": 0.05, "cublas_tf32": 0.2}}


def test_the_gain_is_over_the_same_kernel_and_the_ratio_over_the_faster_of_the_library_s_ways(tmp_path: Path) -> None:
    about = {"device": "NVIDIA H100", "environment": {"recorded_at": "2026-11-27T03:58:00+00:00"}}
    path = tmp_path / "h100_deep.json"
    path.write_text(json.dumps(about | {"rows": [TUNED, BY_DEFAULT]}))
    head, told, table = deep(path)
    assert head == "## Long products, on an NVIDIA H100" and "2026-11-27" in told
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert cells == [
        ["`hopper_bf16`", "1,000 × 2,000", "10,000", "800", "400", "2.00", "500", "1,000", "0.80"],
        ["`hopper_tf32`", "1,000 × 2,000", "10,000", "400", "800", "0.50", "200", "", "2.00"],
    ]


def test_every_kernel_and_library_that_is_measured_takes_the_type() -> None:
    for each in MEASURED:
        assert len(each.shapes) == len(set(each.shapes))
        assert all(each.dtype in BY_NAME[name].dtypes for name in (each.kernel, *each.libraries))
