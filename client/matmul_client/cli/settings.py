"""Options of every command: the service's address, the API key, and the output format."""

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
    from matmul_client.handles import Job

F = TypeVar("F", bound=Callable[..., Any])
MIN_TIMEOUT_S = 0.1
KNOWN: Mapping[str, tuple[type, ...]] = {"url": (str,), "api_key": (str,), "timeout": (int, float)}
JOB_FAILED, USAGE, UNREACHABLE, REFUSED, SERVICE_FAILED, INTERRUPTED = 1, 2, 3, 4, 5, 130


@dataclass(frozen=True)
class Settings:
    """The settings of one run of the command."""

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
    """The settings in the configuration file. Raises UsageError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        path = config_path()
    except RuntimeError:  # a user without a home, as in a container
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}.") from None
    if unknown := sorted(found.keys() - {*KNOWN}):
        raise click.UsageError(f"{path} has {', '.join(unknown)}; it may have {', '.join(KNOWN)}.")
    for name, value in found.items():
        if type(value) not in KNOWN[name]:
            kind = "a text in quotes" if KNOWN[name] == (str,) else "a number of seconds"
            raise click.UsageError(f"{path} has {name} = {value!r}; it must be {kind}.")
    return found


def service_options(command: F) -> F:
    """Options of the program and of each of its commands, so they may be given before or after a command's name."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON; errors too, on standard error."),
        click.option(
            "--timeout", type=click.FloatRange(min=MIN_TIMEOUT_S), metavar="SECONDS", help="Deadline of each call."
        ),
        click.option("--key", metavar="KEY", help="The API key. In MATMUL_API_KEY it is hidden from other users."),
        click.option("--url", metavar="URL", help="Address of the service."),
    ):
        command = option(command)
    return command


def _given(name: str) -> Any:
    """An option of the command that runs, or of the nearest one that it belongs to."""
    context: click.Context | None = click.get_current_context()
    while context is not None:
        if value := context.params.get(name):
            return value
        context = context.parent
    return None


def with_service(command: F) -> F:
    """Passes `Settings` to the command, and reports errors as one sentence and an exit status."""

    @service_options
    @functools.wraps(command)
    def run(**others: Any) -> Any:
        own = {name: value for name, value in others.items() if name not in ("url", "key", "timeout", "as_json")}
        as_json = bool(_given("as_json"))
        from matmul_client.core.errors import MatmulError

        try:
            return command(_settings(as_json), **own)
        except MatmulError as error:
            fail(error, as_json)
        except BrokenPipeError:
            raise  # whoever reads has enough, as `head`; click then ends quietly
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            fail(click.UsageError(f"{what}{error.strerror or error}."), as_json)

    return run  # type: ignore[return-value]  # it takes what the options give


def _settings(as_json: bool) -> Settings:
    file = configured()
    timeout = _given("timeout") or float(file.get("timeout", 300.0))
    if not timeout >= MIN_TIMEOUT_S:  # nor is NaN
        raise click.UsageError(f"The timeout is {timeout:g} s; it must be {MIN_TIMEOUT_S:g} s or more.")
    return Settings(
        _given("url") or os.environ.get("MATMUL_URL") or file.get("url"),
        _given("key") or os.environ.get("MATMUL_API_KEY") or file.get("api_key"),
        timeout,
        as_json,
    )


def fail(error: Exception, as_json: bool) -> NoReturn:
    """Reports an error of the client and exits."""
    members = ("code", "field", "request_id", "job_id")
    sentence = error.format_message() if isinstance(error, click.ClickException) else str(error)
    problem = {"error": sentence, **{name: getattr(error, name, None) for name in members}}
    if as_json:
        click.echo(json.dumps(problem), err=True)
    else:
        quote = f" (request {problem['request_id']})" if problem["request_id"] else ""
        click.secho(f"{sentence}{quote}", fg="red", err=True)
    sys.exit(status_of(error))


def cancelled(job: Job, *, timeout: float, done: str) -> str:
    """Cancels a job and returns a sentence about the result: `done` if it was cancelled."""
    from matmul_client.core.errors import Conflict, MatmulError

    try:
        job.cancel(timeout=timeout)
    except Conflict:
        return "It had just ended."
    except MatmulError as error:
        return f"It could not be cancelled, and may go on: {error} Later: matmul jobs cancel {job.id}"
    return done


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
