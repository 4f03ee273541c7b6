"""`python -m service`: the API. On SIGTERM or SIGINT it finishes the answers in progress and exits. A single process
answers by itself; with several, this one only supervises the others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from jobs.starting.imports import kept_imports

with kept_imports():
    import structlog

    from jobs.errors import InvalidSettings
    from jobs.logs import configure_logs
    from jobs.matrices.factory import make_matrix_store
    from jobs.redis.layout import claim_layout
    from jobs.redis.replication import warn_of_missing_replicas
    from jobs.settings import Settings
    from jobs.starting.misspelt import warn_of_misspelt
    from jobs.starting.options import add_settings, apply_settings, cannot_start, make_parser
    from jobs.starting.wrong_settings import checked_settings
    from service.audit import check_file
    from service.http.security import key_ring
    from service.local.api import ApiProcesses, process_count
    from service.local.supervisor import Supervisor
    from service.server.addresses import SHUTDOWN_S, bind

STOP_TIMEOUT_S = SHUTDOWN_S + 5.0
OPTIONS = {"host": "address to bind", "port": "port to bind", "api_processes": "processes that answer"}
EXAMPLES = """\
  python -m service
  MATMUL_REDIS_URL=redis://head-node:6379/0 python -m service --port 9000
"""


def check(settings: Settings) -> None:
    """Raises InvalidSettings where no process could serve with them: said once, and before the API is imported."""
    key_ring(settings)
    check_file(settings)
    make_matrix_store(settings)


def serve_alone(settings: Settings) -> None:
    """Serves until a signal arrives. Raises InvalidSettings, OSError."""
    with kept_imports():  # where other processes answer, this one does not need the API
        from service.server.main import serve
    serve(settings, bind(settings))


def keep_serving(settings: Settings) -> None:
    """Serves with several processes until a signal arrives. Raises InvalidSettings, OSError."""
    claim_layout(settings)
    log = structlog.get_logger()
    with TemporaryDirectory(prefix="matmul-metrics-") as metrics:
        api = ApiProcesses(settings, Path(metrics))
        parts = api.parts(os.environ, names_lines=False)
        supervisor = Supervisor(
            [parts], stop_timeout_s=STOP_TIMEOUT_S, say=lambda name, line: log.error(line, part=name)
        )
        try:
            supervisor.run(Event())
        finally:
            api.close()
            supervisor.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("python -m service", "The API. It needs a Redis; `python -m worker` multiplies.", EXAMPLES)
    add_settings(parser, OPTIONS)
    apply_settings(parser.parse_args(arguments), OPTIONS)
    try:
        settings = checked_settings()
        configure_logs(settings)
        warn_of_misspelt()
        warn_of_missing_replicas(settings)
        check(settings)
        if process_count(settings) > 1:
            keep_serving(settings)
        else:
            serve_alone(settings)
    except (InvalidSettings, OSError) as error:
        cannot_start("matmul-service", error)


if __name__ == "__main__":
    main()
