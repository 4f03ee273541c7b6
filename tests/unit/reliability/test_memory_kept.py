"""A long-lived process does not keep what it freed, however many jobs it sees."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

from jobs.matrices.file_source import FileNames

TUNED = """
import sys
from threading import Event
from jobs import memory_tuning

KEPT = 1500  # the interpreter keeps up to 2000 tuples of a size

memory_tuning.TIDY_EVERY_S = 0.01
stop = Event()
memory_tuning.tune_memory(stop)
before = sys.getallocatedblocks()
tuples = [tuple(range(1000 * i, 1000 * i + 13)) for i in range(KEPT)]
del tuples
for _ in range(3000):
    if sys.getallocatedblocks() - before < KEPT // 2:
        break
    Event().wait(0.01)
else:
    sys.exit("what was freed is kept")
stop.set()
"""


def test_what_the_interpreter_keeps_of_freed_objects_is_given_up() -> None:
    done = subprocess.run([sys.executable, "-c", TUNED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_of_files_are_full_soon() -> None:
    """Else what steady use fills for an hour looks like a leak, and hides one."""
    asked: list[str] = []

    def elements(matrix_id: str) -> Any:
        asked.append(matrix_id)
        return SimpleNamespace(data=f"{matrix_id}.file")

    names, ids = FileNames(cast(Any, SimpleNamespace(elements=elements))), [f"{number:064x}" for number in range(1200)]
    for matrix_id in (ids[0], *ids):
        assert names.opened(matrix_id, str) == f"{matrix_id}.file"
    assert asked == ids
    names.opened(ids[0], str)
    assert asked == [*ids, ids[0]]
