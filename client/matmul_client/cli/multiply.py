"""`matmul multiply`."""

from __future__ import annotations

import sys
from contextlib import suppress
from io import BytesIO
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import click

from matmul_client.cli.output import OutputFile, print_json, write_whole
from matmul_client.cli.settings import INTERRUPTED, Settings, cancelled, with_service

EPILOG = """\b
Examples:
  matmul multiply a.npy b.npy -o c.npy
  matmul multiply a.npy b.npy --kernel warp_tiled --accuracy fp32 --json
  matmul multiply a.npy b.npy --tolerance 1e-6 -o c.npy
  matmul multiply a.npy b.npy --fp8-blocks --output-dtype bfloat16 -o c.npy
  matmul multiply tokens.npy experts.npy --group-sizes 3,0,5 -o c.npy
  matmul multiply a.npy b.npy --add c.npy --alpha 0.5 --beta 2 -o d.npy
"""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Factor(click.ParamType[complex]):
    """A number, or a complex one, as 1-2i or 1-2j."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        try:
            return complex(text[:-1] + "j") if text[-1:] in ("i", "j") else float(text)
        except ValueError:
            self.fail(f"{value} is not a number, such as 0.5 or 1-2i.", param, ctx)


class Counts(click.ParamType[list[int]]):
    """Whole numbers, as 3,0,5."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return [int(each) for each in str(value).split(",")]
        except ValueError:
            self.fail(f"{value} is not a list of whole numbers, such as 3,0,5.", param, ctx)


@click.command(epilog=EPILOG)
@click.argument("a", type=FILE)
@click.argument("b", type=FILE)
@click.option("-o", "--output", type=OutputFile(), help="File to write the product to.")
@click.option("--kernel", help="A name from `matmul kernels`; by default the service chooses.")
@click.option("--accuracy", help="Error class of every element: fp64, fp32, tf32, bf16, fp16, fp8, exact.")
@click.option("--tolerance", type=float, help="Instead of --accuracy: a proven bound on each element's error.")
@click.option(
    "--tolerance-kind",
    type=click.Choice(["componentwise", "normwise"]),
    help="What the tolerance is relative to: an element's own terms (the default), or norms.",
)
@click.option("--reproducible", is_flag=True, help="The same bits on every device.")
@click.option("--transpose-a", is_flag=True, help="Multiply with A transposed.")
@click.option("--transpose-b", is_flag=True, help="Multiply with B transposed.")
@click.option("--conjugate-a", is_flag=True, help="Multiply with the complex conjugate of A.")
@click.option("--conjugate-b", is_flag=True, help="Multiply with the complex conjugate of B.")
@click.option("--alpha", type=Factor(), help="Factor of A·B; for complex products also as 1-2i.")
@click.option("--beta", type=Factor(), help="Factor of the matrix that --add names.")
@click.option("--add", "c", type=FILE, help="File with a matrix C that is added.")
@click.option("--bias", type=FILE, help="File with a bias: n or 1×n numbers for every row, or m×1 for every column.")
@click.option(
    "--activation",
    type=click.Choice(["relu", "gelu", "gelu_tanh", "silu"]),
    help="Function applied to every element of the sum.",
)
@click.option(
    "--fp8-blocks",
    is_flag=True,
    help="Send operands as 8-bit floats with block scales: 128 elements along k of A, 128×128 of B.",
)
@click.option(
    "--group-sizes",
    type=Counts(),
    help="Grouped product: how many rows of A are multiplied by each matrix of the batch B, such as 3,0,5.",
)
@click.option("--output-dtype", help="Element type of the product, such as float32 for float16 operands.")
@with_service
def multiply(settings: Settings, a: Path, b: Path, output: Path | None, **options: Any) -> None:
    """Multiply two .npy files. Without -o the product is printed."""
    import numpy as np

    from matmul_client.core.errors import DeadlineExceeded, MatmulError, Unreachable
    from matmul_client.core.http import CLEAN_UP_S

    given = {name: value for name, value in options.items() if value is not None and value is not False}
    given |= {name: _read(given[name]) for name in ("c", "bias") if name in given}
    operands = _read(a), _read(b)
    if given.pop("fp8_blocks", False):
        operands, scales = _quantized(*operands, transposed=given.get("transpose_a", False))
        given |= scales
    with settings.client() as client:
        job = client.submit(*operands, **given)
        try:
            record = job.wait()  # before the product, which would be lost if this were asked for in vain
            product = job.result()
        except KeyboardInterrupt:
            click.echo(cancelled(job, timeout=CLEAN_UP_S, done="The product was cancelled."), err=True)
            sys.exit(INTERRUPTED)
        except (DeadlineExceeded, Unreachable):
            with suppress(MatmulError):  # the first error is the one to tell
                job.cancel(timeout=CLEAN_UP_S)
            raise
    if output is not None:
        write_whole(output, lambda file: np.save(file, _in_npy(product)))
    if settings.as_json:
        print_json({"job": record, "output": output} if output else {"job": record, "c": _lists(product)})
        return
    if output is None:
        click.echo(str(product))
    click.echo(_summary(record, output), err=output is None or not output.is_file())  # /dev/stdout may be a pipe


def _quantized(a: Any, b: Any, *, transposed: bool) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Values and scales, as DeepGEMM has activations and weights; `transposed`: A, which then runs along k in its
    columns."""
    from matmul_client import per_block_cast_to_fp8, per_token_cast_to_fp8

    of_a, scale_a = per_token_cast_to_fp8(a, axis=-2 if transposed else -1)
    of_b, scale_b = per_block_cast_to_fp8(b)
    return (of_a, of_b), {"scale_a": scale_a, "scale_b": scale_b}


def _read(path: Path) -> Any:
    """Mapped, not read: its bytes go from the file to the connection. A pipe is read. Raises BadParameter."""
    import numpy as np

    try:
        is_file = path.is_file()
        source = path if is_file else BytesIO(path.read_bytes())
        array = np.load(source, mmap_mode="r" if is_file else None, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        array = None
    if not isinstance(array, np.ndarray):
        if array is not None:
            array.close()  # an archive of several
        raise click.BadParameter(f"{path} is not an .npy file of numbers, as numpy.save writes it.")
    return array


def _in_npy(product: Any) -> Any:
    """Where .npy has no such type, as bfloat16, in float32, which holds the same numbers: numpy would write bytes that
    nothing can read."""
    return product.astype("float32") if product.dtype.kind == "V" else product


def _lists(product: Any) -> Any:
    """The product as nested lists, as in the service's JSON: complex elements are pairs, and what JSON has no number
    for is a string."""
    if product.dtype.kind == "c":
        product = product.view(product.real.dtype).reshape(*product.shape, 2)
    return _finite(product.tolist())


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _summary(record: dict[str, Any], output: Path | None) -> str:
    sizes = "×".join(map(str, record["product"]["shape"]))
    speed = f"{record['gflops']:.4g} GFLOPS" if record["gflops"] else "no speed"
    checked = "verified" if record["verification"]["passed"] else "not verified"
    where = f" in {output}" if output else ""
    where += ", as float32, since .npy has no bfloat16" if output and record["product"]["dtype"] == "bfloat16" else ""
    if bound := record.get("error_bound"):
        checked += f", error within {bound['value']:.3g} ({bound['kind']})"
    return f"{sizes} {record['product']['dtype']}{where}: {record['kernel']} on {record['device']}, {speed}, {checked}."
