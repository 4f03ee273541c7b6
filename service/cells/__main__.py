"""`python -m service.cells docker/cells/cells.toml > matmul.conf`: writes the nginx configuration for a list of
cells.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import InvalidSettings
from service.cells.nginx import nginx_configuration
from service.cells.plan import read_plan


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m service.cells", description=__doc__)
    parser.add_argument("cells", type=Path, help="list of cells, such as docker/cells/cells.toml")
    chosen = parser.parse_args(arguments)
    try:
        sys.stdout.write(nginx_configuration(read_plan(chosen.cells)))
    except InvalidSettings as error:
        sys.exit(f"service.cells: {error.detail}")


if __name__ == "__main__":
    main()
