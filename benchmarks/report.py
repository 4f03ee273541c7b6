"""Writes docs/report_grade_h200.pdf: the report of the recorded `grade` run on an H200, such as one hands in.

python -m benchmarks.report [--out docs/report_grade_h200.pdf]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from analysis.report.options import ReportOptions
from analysis.report.render import pdf_report
from analysis.report.subject import Subject, of_results
from analysis.result_models import Results
from benchmarks.publish import truly_titled
from benchmarks.recorded import read

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "benchmarks" / "results" / "h200" / "grade.jsonl.gz"
OUT = ROOT / "docs" / "report_grade_h200.pdf"
OPTIONS = ReportOptions(
    title="The ladder of float32 kernels beside cuBLAS on an NVIDIA H200",
    author="matmul-service",
    question="Which kernel is fastest at each of six sizes, how near does it come to cuBLAS, and what do sizes cost "
    "that are no power of two?",
    text="Matrix multiplication is taught as a ladder: each rung of it changes how threads reach their operands, from "
    "a thread that reads everything from device memory to warps that share tiles in registers. This report measures "
    "the rungs that multiply float32 on the units for float32, beside the library that every GPU has.\n\n"
    "Three of the sizes are powers of two. The other three lie one beside: there a tile more is needed, or the last "
    "one is not full, and rows are less well aligned.",
)


def subject() -> Subject:
    return of_results(truly_titled(Results.model_validate(read(RECORD))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    out.write_bytes(pdf_report(subject(), OPTIONS))


if __name__ == "__main__":
    main()
