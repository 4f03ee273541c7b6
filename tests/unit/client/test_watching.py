"""Ctrl-C at a benchmark that is watched."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console
from rich.live import Live

from matmul_client.cli import watching
from matmul_client.cli.settings import Settings
from matmul_client.handles import Benchmark


class Interrupted(Live):
    """Shows itself, and then Ctrl-C comes before it has started."""

    def start(self, refresh: bool = False) -> None:
        super().start(refresh)
        raise KeyboardInterrupt


class Run:
    id = "job_1"


def test_one_that_comes_while_the_view_starts_ends_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    def terminal(**_: Any) -> Console:
        return Console(file=StringIO(), force_terminal=True)

    monkeypatch.setattr(watching, "Console", terminal)
    monkeypatch.setattr(watching, "Live", Interrupted)
    before = sys.stderr
    with pytest.raises(KeyboardInterrupt):
        watching._follow(cast(Benchmark, Run()), cast(Settings, None))
    assert sys.stderr is before, "what is asked now would stay in the view's hands"
