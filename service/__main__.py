"""`python -m service`: the API in one process. It ends on SIGTERM or SIGINT, once answers under way are sent."""

from __future__ import annotations

import resource
import sys

from pydantic import ValidationError

from jobs.errors import InvalidSettings
from jobs.logs import configure_logs
from jobs.settings import get_settings
from service.server.main import make_server


def _allow_connections() -> None:
    """As many open files as the system lets this process have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    try:
        settings = get_settings()
        configure_logs(settings)
        server = make_server(settings)
    except (InvalidSettings, ValidationError, OSError) as error:
        sys.exit(f"matmul-service cannot start: {error}")
    _allow_connections()
    server.run()


if __name__ == "__main__":
    main()
