"""The application itself."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from jobs.settings import Settings
from service import app


def test_a_checkout_that_was_not_installed_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(_name: str) -> str:
        raise PackageNotFoundError

    assert app.create_app(Settings()).version[0].isdigit()
    monkeypatch.setattr(app, "version", not_installed)
    assert app.create_app(Settings()).version == "0+unknown"
