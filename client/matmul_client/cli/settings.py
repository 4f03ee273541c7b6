"""What every command takes: where the service is, who asks, and how the answer is shown."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from matmul_client.client import Client

F = TypeVar("F", bound=Callable[..., Any])
KNOWN = ("url", "api_key", "timeout")
JOB_FAILED, USAGE, UNREACHABLE, REFUSED, SERVICE_FAILED, INTERRUPTED = 1, 2, 3, 4, 5, 130


@dataclass(frozen=True)
class Settings:
    """Of one run of the command."""

    url: str | None
    api_key: str | None
    timeout: float
    as_json: bool

    def client(self) -> Client:
        from matmul_client.client import Client

        return Client(self.url, self.api_key, timeout=self.timeout)


def config_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "matmul" / "config.toml"


def configured() -> Mapping[str, Any]:
    """What the configuration file says. Raises UsageError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = config_path()
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}.") from None
    if unknown := sorted(found.keys() - {*KNOWN}):
        raise click.UsageError(f"{path} has {', '.join(unknown)}; it may have {', '.join(KNOWN)}.")
    return found


def with_service(command: F) -> F:
    """Gives the command its `Settings`, and tells errors as one sentence and an exit status."""

    @click.option("--url", metavar="URL", help="Where the service is.")
    @click.option("--key", metavar="KEY", help="The API key; better in MATMUL_API_KEY, where others do not see it.")
    @click.option("--timeout", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Deadline of each call.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too (on standard error).")
    @functools.wraps(command)
    def run(*, url: str | None, key: str | None, timeout: float | None, as_json: bool, **others: Any) -> Any:
        file = configured()
        settings = Settings(
            url or os.environ.get("MATMUL_URL") or file.get("url"),
            key or os.environ.get("MATMUL_API_KEY") or file.get("api_key"),
            timeout or float(file.get("timeout", 300.0)),
            as_json,
        )
        from matmul_client.core.errors import MatmulError

        try:
            return command(settings, **others)
        except MatmulError as error:
            fail(error, as_json)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    return run  # type: ignore[return-value]  # it takes what the options give


def fail(error: Exception, as_json: bool) -> NoReturn:
    """Tells an error of the client's and ends."""
    members = ("code", "field", "request_id", "job_id")
    told = {"error": str(error), **{name: getattr(error, name, None) for name in members}}
    if as_json:
        click.echo(json.dumps(told), err=True)
    else:
        quote = f" (request {told['request_id']})" if told["request_id"] else ""
        click.secho(f"{error}{quote}", fg="red", err=True)
    sys.exit(status_of(error))


def status_of(error: Exception) -> int:
    from matmul_client.core import errors

    table: tuple[tuple[type[Exception], int], ...] = (
        (errors.JobFailed, JOB_FAILED),
        (errors.JobCancelled, JOB_FAILED),
        (errors.InvalidOperand, USAGE),
        (errors.Unreachable, UNREACHABLE),
        (errors.DeadlineExceeded, UNREACHABLE),
        (errors.ServiceFailed, SERVICE_FAILED),
        (errors.ServerError, REFUSED),
    )
    return next((status for kind, status in table if isinstance(error, kind)), USAGE)
