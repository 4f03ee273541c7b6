"""Finds environment variables that look like a setting and are none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches

import structlog

from jobs.settings import Settings
from jobs.starting.settings_text import variable

PREFIX = variable("")
OF_CLIENTS = ("API_KEY", "URL")  # what the client and the command `matmul` read
# Of names that differ in a letter, or in their unit. Those that Kubernetes puts into pods beside a Service named
# `matmul-store`, such as MATMUL_STORE_PORT, are far from every setting.
CLOSE = 0.8

log = structlog.get_logger(__name__)


def misspelt(names: Iterable[str]) -> list[str]:
    """A sentence for each name of an environment variable that is close to a setting's and is no setting's."""
    settings = [each.upper() for each in Settings.model_fields]
    known = {*settings, *OF_CLIENTS}
    asked = sorted(each.upper().removeprefix(PREFIX) for each in names if each.upper().startswith(PREFIX))
    return [
        f"{PREFIX}{name} is no setting and is ignored; {PREFIX}{near[0]} is one."
        for name in asked
        if name not in known and (near := get_close_matches(name, settings, 1, CLOSE))
    ]


def warn_of_misspelt() -> None:
    """Called at a program's start. It starts all the same: the variable may be a setting of another version."""
    for sentence in misspelt(os.environ):
        log.warning("a setting may be misspelt", reason=sentence)
