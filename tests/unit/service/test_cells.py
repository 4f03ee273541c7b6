"""Lists of cells, and how work is shared out among them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from jobs.errors import InvalidSettings
from jobs.models import job_of_product, new_id, product_id
from jobs.settings import Settings
from service.cells.nginx import nginx_configuration
from service.cells.plan import BUCKETS, Cell, CellPlan, read_plan

EXAMPLE = Path(__file__).parents[3] / "docker" / "cells" / "cells.toml"


def plan_of(count: int, **more: str) -> CellPlan:
    cells = [{"cell": f"{i:03x}", "servers": [f"10.0.0.{i}:8000"]} for i in range(count)]
    return CellPlan.model_validate({"cells": cells, **more}, strict=False)


def owners(plan: CellPlan) -> list[str]:
    return [name for name, count in plan.buckets() for _ in range(count)]


def test_every_bucket_is_a_cells_and_shares_are_even() -> None:
    tally = Counter(owners(plan_of(8)))
    assert tally.total() == BUCKETS and len(tally) == 8
    assert max(tally.values()) < 1.5 * BUCKETS / 8


def test_a_cell_more_moves_only_its_own_share() -> None:
    before, after = owners(plan_of(8)), owners(plan_of(9))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"008"} and len(moved) < 1.5 * BUCKETS / 9


def test_a_cell_without_a_share_is_refused() -> None:
    with pytest.raises(ValueError, match="no share"):
        plan_of(1000)


def test_the_example_is_a_list_and_wrong_ones_are_sentences(tmp_path: Path) -> None:
    assert len(read_plan(EXAMPLE).cells) == 2
    wrong = {
        "cells = []": "cells",
        '[[cells]]\ncell = "1"\nservers = ["a:1"]': "cell",
        '[[cells]]\ncell = "001"\nservers = ["a; deny all:1"]': "host:port",
        '[[cells]]\ncell = "001"\nservers = ["a:1"]\n[[cells]]\ncell = "001"\nservers = ["b:1"]': "same number",
        "cells": "cannot be read",
    }
    for text, said in wrong.items():
        (tmp_path / "cells.toml").write_text(text)
        with pytest.raises(InvalidSettings, match=said):
            read_plan(tmp_path / "cells.toml")


def test_least_connections_has_to_be_asked_for() -> None:
    assert "cell_any" not in nginx_configuration(plan_of(3))
    text = nginx_configuration(plan_of(3, new_work="least_connections"))
    assert "upstream cell_any" in text and '"" cell_any;' in text


def test_ids_begin_with_their_cell_and_are_ids_as_before() -> None:
    settings = Settings.model_validate({"cell": "01f"})
    job = new_id("job", settings.cell_digits)
    assert job.startswith("job_01f") and len(job) == len(new_id("job")) == 36
    assert job_of_product(product_id(job, 2)) == (job, 2)
    assert Settings().cell_digits == "" and Settings.model_validate({"cell": "fff"}).cell == 4095
    with pytest.raises(ValueError, match="cell"):
        Settings.model_validate({"cell": "1000"})
    assert Cell(cell="01f", servers=("a:1",)).cell == settings.cell_digits
