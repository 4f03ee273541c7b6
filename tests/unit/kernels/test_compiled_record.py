"""The record of what the compiler says of programs that tests ask about: whole, and true for a sample of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields

from tests.support.kernels.compiled import RECORD, Figures, compile_now, key_of, recorded
from tests.support.programs import programs

SAMPLE = 6  # that the keys choose: another one after each change


def test_it_has_what_tests_ask_for_and_nothing_else() -> None:
    assert {key_of(*each) for each in programs()} == set(recorded()), "run `make kernel-resources`"
    assert json.loads(RECORD.read_text("utf-8"))["columns"] == [field.name for field in fields(Figures)]


def test_a_sample_comes_out_as_recorded() -> None:
    by_key = {key_of(*each): each for each in programs()}
    sample = sorted(by_key, key=lambda key: hashlib.sha256(key.encode()).digest())[:SAMPLE]
    assert compile_now(by_key[key] for key in sample) == [recorded()[key] for key in sample]
