"""`matmul kernels` and `matmul devices`."""

from __future__ import annotations

import click

from matmul_client.cli.output import console, print_json, show
from matmul_client.cli.settings import Settings, with_service


@click.command(epilog="\b\nExamples:\n  matmul kernels\n  matmul kernels warp_tiled --json")
@click.argument("name", required=False)
@with_service
def kernels(settings: Settings, name: str | None) -> None:
    """List the kernels, or show one with its tile parameters."""
    with settings.client() as client:
        found = client.kernel(name) if name else client.kernels()
    if settings.as_json:
        print_json(found)
    elif isinstance(found, dict):
        console().print(found["summary"], found["idea"], sep="\n", markup=False)
        if found.get("unserved"):  # of services that say so
            console().print(f"Not served now: {found['unserved']}", markup=False)
        if found["parameters"]:
            show(found["parameters"], ("name", "default", "values", "summary"))
    else:
        rows = [{**kernel, "live": "yes" if kernel["served_by"] else "no"} for kernel in found]
        show(rows, ("name", "device_class", "live", "summary"))


@click.command(epilog="\b\nExamples:\n  matmul devices\n  matmul devices --json")
@with_service
def devices(settings: Settings) -> None:
    """List the live workers and their devices."""
    with settings.client() as client:
        found = client.devices()
    if settings.as_json:
        print_json(found)
        return
    rows = [{**worker, "device": worker["device"]["name"], "kernels": len(worker["kernels"])} for worker in found]
    show(rows, ("id", "device", "state", "queue", "kernels", "job"))
