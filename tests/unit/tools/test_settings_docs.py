"""Every setting is documented, with what it defaults to."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.settings import Settings

OPERATIONS = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_setting_is_in_the_operations_page(name: str) -> None:
    field = Settings.model_fields[name]
    assert field.description, f"{name} has no description"
    rows = [line for line in OPERATIONS.splitlines() if line.startswith(f"| `MATMUL_{name.upper()}` |")]
    assert len(rows) == 1
    assert field.description in rows[0]
