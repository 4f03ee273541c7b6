"""Every setting is documented, with what it defaults to."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.setting_groups.cells import CellSettings
from jobs.setting_groups.object_store import ObjectStoreSettings
from jobs.settings import Settings
from jobs.starting.settings_text import GROUPS, by_group, grouped

OPERATIONS = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_setting_is_in_the_operations_page(name: str) -> None:
    field = Settings.model_fields[name]
    assert field.description, f"{name} has no description"
    rows = [line for line in OPERATIONS.splitlines() if line.startswith(f"| `MATMUL_{name.upper()}` |")]
    assert len(rows) == 1
    assert field.description in rows[0]


def test_the_same_are_listed_by_group_on_the_command_line() -> None:
    assert GROUPS.keys() <= Settings.model_fields.keys()
    listed = by_group().splitlines()
    assert [line[:-1] for line in listed if line.endswith(":") and line[0] != " "] == list(GROUPS.values())
    assert grouped()["the object store"].keys() == ObjectStoreSettings.model_fields.keys()
    assert grouped()["cells"].keys() == CellSettings.model_fields.keys()
    for name in Settings.model_fields:
        assert any(line.startswith(f"  MATMUL_{name.upper()}=") for line in listed), name
