"""The groups and their help."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from matmul_client.cli.bench import bench
from matmul_client.cli.checkout import keys, up
from matmul_client.cli.completion import completion
from matmul_client.cli.lists import devices, kernels
from matmul_client.cli.multiply import multiply
from matmul_client.cli.report import report
from matmul_client.cli.settings import INTERRUPTED, fail, service_options
from matmul_client.cli.work import jobs
from matmul_client.version import __version__

EPILOG = """\b
Examples:
  matmul multiply a.npy b.npy -o c.npy
  matmul bench run ladder --plot ladder.svg
  matmul jobs --state running --json
\b
Where the service is: --url, or MATMUL_URL, or url in the configuration file
(~/.config/matmul/config.toml, or in $XDG_CONFIG_HOME), or
http://127.0.0.1:8000. The API key: --key, MATMUL_API_KEY, or api_key there.
These options may stand before or after the command's name.
\b
Exit status: 0 done; 1 the job failed or was cancelled, or a benchmark is
slower (compare --check); 2 a wrong command line or file; 3 no answer from the
service in time; 4 the service refused the request; 5 it failed; 130 Ctrl-C.
"""


JSON = "matmul_client.json"


class Program(click.Group):
    """Errors of the command line are JSON too where it has --json, though the command that takes it has not begun."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = "--json" in args
        with _told(as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[JSON] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _told(ctx.meta[JSON]):
            return super().invoke(ctx)


@contextmanager
def _told(as_json: bool) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if as_json and not isinstance(error, click.exceptions.NoArgsIsHelpError):
            fail(error, as_json)
        raise
    except KeyboardInterrupt:  # which click would take for a failed job
        sys.exit(INTERRUPTED)


@click.group(
    cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="matmul-client %(version)s")
@service_options
def matmul(**_: object) -> None:
    """Multiply matrices and measure kernels on a matmul service."""


for command in (multiply, bench, jobs, kernels, devices, report, keys, up, completion):
    matmul.add_command(command)
