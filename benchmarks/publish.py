"""Writes the results of this project's own runs that the package serves at /v1/published: a file in
`kernels/published/` for each benchmark recorded in a folder of `benchmarks/results/` without missing cases, named by
folder and preset.

python -m benchmarks.publish [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from analysis.curves import is_library
from analysis.publication import publish
from analysis.result_models import Results
from benchmarks.recorded import compact, files, is_results, name_of, read
from jobs.benchmarks.cases import expand
from jobs.benchmarks.presets import PRESETS
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.published import DIRECTORY, PUBLISHED
from kernels.published_records import PublishedRecord
from kernels.text_files import has_text, write_text

RESULTS = Path(__file__).resolve().parent / "results"
PADDED_TOO = (
    "At odd sizes the library has the operands as they are. At the next multiple of 64 it was measured too: that is "
    "what it does with operands padded with zeros."
)
# By the runs' original titles, which name kernels that the runs left out.
TRUE_TITLES = {
    "Every kernel at six sizes, three of them no power of two": PRESETS["grade"].summary,
    "Every kernel at 4096 and 4097": "Every rung of the ladder at 4096 and 4097",
}
MERGED = (
    "Each kernel was measured in a run of its own, with the library in each round; where several runs have the same "
    "case of the library, the first one's stands here. {count} cards of this model took part, so a share may be "
    "relative to a run on another card; fraction_of_cublas in the records is not."
)
PACKED = ".json.gz"
BESIDE_CUBLAS = "The fast kernels beside cuBLAS, type by type"


def publications() -> Iterator[tuple[str, str]]:
    """File name and content of each. A recorded `ceilings` has no products to show."""
    titles: Counter[str] = Counter()
    for path in sorted(files(RESULTS, "*/*"), key=_place):
        if not is_results(document := read(path)):
            continue  # the record of another program, or a study of many shapes
        results = without_misfits(Results.model_validate(document))
        if results.records and (results.complete or has_every_case(results)):
            name = f"{path.parent.name}_{name_of(path).replace('-', '_')}"
            yield f"{name}{PACKED}", text(publish(results, name, title=_title(results, titles)))
    for path in sorted(files(RESULTS, "*_vs_cublas"), reverse=True):  # the H200's first, as above
        results = beside_cublas(read(path))
        yield f"{name_of(path)}{PACKED}", text(publish(results, name_of(path), title=_title(results, titles)))


def without_misfits(results: Results) -> Results:
    """Without records of kernels that do not support the record's element type: a group of kernels once included such
    kernels, and their cases were skipped. A library's record is kept, because it shows that there is nothing to compare
    with."""
    kept = tuple(
        case for case in results.records if case.dtype in BY_NAME[case.kernel].accuracy or is_library(case.kernel)
    )
    return results.model_copy(update={"records": kept})


def _place(path: Path) -> tuple[bool, Path]:
    """The H200's come first, because all others are compared with them."""
    return path.parent.name != "h200", path


def _title(results: Results, given: Counter[str]) -> str:
    """A title that is unique in its list: if it occurred before, it includes the device and the number of the run
    there. `given`: how often each title occurred before."""
    title = truly_titled(results).job.title or results.job.id
    device = f"{title}, on an {results.device['name']}"
    given.update((title, device))
    if given[title] == 1:
        return title
    return device if given[device] == 1 else f"{title}: run {given[device]}"


def truly_titled(results: Results) -> Results:
    """The same results under a title that names only kernels in the run."""
    title = TRUE_TITLES.get(results.job.title or "", results.job.title)
    job, spec = (part.model_copy(update={"title": title}) for part in (results.job, results.spec))
    return results.model_copy(update={"job": job, "spec": spec})


def beside_cublas(document: Mapping[str, Any]) -> Results:
    """Kernels and library measured alternately, one benchmark for each kernel, merged into one: with rows of a padded
    pitch. If several benchmarks have a case, that of the first counts, which has the most rounds."""
    found = [Results.model_validate(one) for one in document.values() if is_results(one)]
    runs = [one for one in found if one.spec.data.layout == "padded" and any(is_library(r.kernel) for r in one.records)]
    records = {(one.kernel, one.case): one for run in reversed(runs) for one in reversed(run.records)}
    types = {one.dtype for one in records.values()}
    title = BESIDE_CUBLAS if len(types) > 1 else f"The fast {types.pop()} kernels beside cuBLAS"
    spec = runs[0].spec.model_copy(update={"title": title})
    job = runs[0].job.model_copy(update={"title": title, "finished_at": runs[-1].job.finished_at})
    cards = len({one.device.get("uuid") for one in runs})
    merged = (MERGED.format(count=cards),) if cards > 1 else ()
    parts = {"job": job, "spec": spec, "warnings": (PADDED_TOO, *merged), "records": tuple(reversed(records.values()))}
    return runs[0].model_copy(update=parts)


def text(document: Mapping[str, Any]) -> str:
    """A line for each field, and for each record."""
    fields = (
        f"{compact(name)}:{_rows(value) if name == 'records' else compact(value)}" for name, value in document.items()
    )
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _rows(records: Sequence[Mapping[str, Any]]) -> str:
    """Values that equal the default are left out."""
    defaults = {field.name: field.default for field in fields(PublishedRecord)}
    said = ({name: value for name, value in record.items() if value != defaults[name]} for record in records)
    return "[\n" + ",\n".join(map(compact, said)) + "\n]"


def has_every_case(results: Results) -> bool:
    """True also for a benchmark that was cancelled in its last round; what it publishes says so."""
    cases = expand(results.spec, DeviceInfo.model_validate(results.device))
    return {case.id for case in cases} == {one.case for one in results.records}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is outdated")
    checking: bool = parser.parse_args().check
    written = dict(publications())
    ours = {f"{one.name}{PACKED}" for one in PUBLISHED.values() if one.report is None}
    outdated = [name for name, text in written.items() if not has_text(DIRECTORY / name, text)]
    surplus = sorted(ours - written.keys())
    if checking and (outdated or surplus):
        sys.exit(f"not as the results make it: {', '.join((*outdated, *surplus))}; run `make recorded`")
    for name in outdated:
        write_text(DIRECTORY / name, written[name])
    for name in surplus:
        (DIRECTORY / name).unlink()


if __name__ == "__main__":
    main()
