"""nginx in front of cells, where it is installed."""

from __future__ import annotations

import os

import pytest

from tools.nginx import nginx_binary


def needs_nginx() -> None:
    """Skips where there is none; fails there in continuous integration."""
    if nginx_binary() is None:
        if os.environ.get("CI"):
            pytest.fail("nginx is not installed")
        pytest.skip("nginx is not installed")
