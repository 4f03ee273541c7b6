"""`python -m service.server.member`: one of several API processes. Its parent passes it the shared resources; see
`service/local/api.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from jobs.starting.imports import kept_imports

with kept_imports():
    from jobs.errors import InvalidSettings
    from jobs.logs import configure_logs
    from jobs.starting.options import cannot_start
    from jobs.starting.wrong_settings import checked_settings
    from service.api_process.share import Share
    from service.server.accepting import ConnectionCounts
    from service.server.addresses import Addresses
    from service.server.main import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m service.server.member", description=__doc__)
    parser.add_argument("--listen", required=True, help="descriptors of the bound sockets, separated by commas")
    parser.add_argument("--counts", type=int, required=True, help="descriptor of the memory of connection counts")
    parser.add_argument("--index", type=int, required=True, help="which of the processes this is, from 0")
    parser.add_argument("--processes", type=int, required=True, help="how many there are")
    parser.add_argument("--metrics", type=Path, required=True, help="directory of what they count for /metrics")
    asked = parser.parse_args()
    try:
        settings = checked_settings()
        configure_logs(settings)
        addresses = Addresses.inherited(map(int, asked.listen.split(",")))
        counts = ConnectionCounts.inherited(asked.counts, asked.index)
        serve(settings, addresses, counts, Share(asked.index, asked.processes, asked.metrics))
    except (InvalidSettings, OSError) as error:
        cannot_start("matmul-service", error)


if __name__ == "__main__":
    main()
