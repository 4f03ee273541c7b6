"""Writes analysis/typical_speeds.json, by which benchmarks are estimated, from a recorded run of the catalogue:
`python -m scripts.typical_speeds`. With --check nothing is written, and the exit status is 1 if it would change.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from analysis.estimate import TYPICAL_SPEEDS

RECORDED = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "h200_catalogue.json"


def typical_speeds(recorded: dict[str, Any]) -> str:
    """GFLOPS by kernel, element type and N, with the device's roofs to scale them by."""
    gflops: dict[str, dict[str, dict[str, float]]] = {}
    for record in recorded["records"]:
        of_kernel = gflops.setdefault(record["kernel"], {})
        of_kernel.setdefault(record["dtype"], {})[str(record["n"])] = round(record["gflops"], 1)
    device = recorded["device"]
    document = {
        "source": f"benchmarks/results/{RECORDED.name}, {recorded['environment']['recorded_at'][:10]}",
        "device": device["name"],
        "multiprocessors": device["multiprocessors"],
        "peak_gflops": device["theoretical"]["gflops"],
        "gflops": gflops,
    }
    return json.dumps(document, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.typical_speeds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is out of date")
    text = typical_speeds(json.loads(RECORDED.read_text("utf-8")))
    if parser.parse_args().check:
        sys.exit(0 if TYPICAL_SPEEDS.read_text("utf-8") == text else 1)
    TYPICAL_SPEEDS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
