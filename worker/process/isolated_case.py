"""`python -m worker.process.isolated_case`: measures one case and ends. What to measure comes in on the first line of
the input, its result goes out on the output, logs go to the error output.
"""

from __future__ import annotations

import os
import sys
from threading import Thread

from jobs.errors import JobFailed
from jobs.logs import configure_logs
from jobs.settings import get_settings
from worker.benchmark.case_run import CaseRun, Result
from worker.benchmark.in_process import InProcess
from worker.benchmark.isolated import CASE_RUN, RESULT
from worker.process.start import make_runner

EXIT_LEFT_ALONE = 68


def main() -> int:
    """Measures one case. Ends at once if the parent is gone: nobody would read the result, and the device is needed."""
    case_run = CASE_RUN.validate_json(sys.stdin.buffer.readline())
    Thread(target=_end_with_parent, daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no part of the answer
    configure_logs(get_settings())
    result = _measure(case_run)
    with open(answer, "wb") as output:
        output.write(RESULT.dump_json(result))
    return 0


def _measure(case_run: CaseRun) -> Result:
    """A fault takes this process alone along, so it is a record and not the end of the benchmark."""
    try:
        runner = make_runner(get_settings())
        if (found := runner.device.name) != case_run.device.name:
            return case_run.without_figures(
                "launch_error", f"A fresh process finds {found}, not {case_run.device.name}."
            )
        runner.device = case_run.device  # with what its worker left out
        with InProcess(runner) as measurer:
            return measurer.measure(case_run, lambda: None)
    except JobFailed as failure:
        return case_run.without_figures("launch_error", failure.detail)


def _end_with_parent() -> None:
    """Ends this process when its input ends, that is, when the parent is gone. Reads without a buffer: the interpreter
    could not exit while a thread holds the buffer's lock."""
    while os.read(0, 1):
        pass
    os._exit(EXIT_LEFT_ALONE)


if __name__ == "__main__":
    sys.exit(main())
