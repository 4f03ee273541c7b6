"""One process that fuzzes one target with atheris: `python -m tests.fuzz.child TARGET LIBFUZZER_ARGUMENTS…`."""

from __future__ import annotations

import logging
import sys

import atheris
import structlog

COVERED = ["service", "jobs", "analysis"]  # packages whose branches guide the mutations

with atheris.instrument_imports(include=COVERED, enable_loader_override=False):
    from tests.fuzz.table import TARGETS
    from tests.fuzz.target import takes


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    target = TARGETS[sys.argv[1]]

    def one(data: bytes) -> None:
        takes(target, data)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
