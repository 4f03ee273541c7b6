"""The request of `/ui/multiply` as a command and as a program."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pprint import pformat
from typing import Any

from jobs.formats.bit_floats import held_as_bits
from kernels.model.numerics import DTYPES
from service.bodies.matmul_multipart import MULTIPART
from service.bodies.options import MatmulOptions, parse_model
from service.dashboard.multiply.form import MultiplyForm, document_of, options_of
from service.http.negotiation import JSON, NPY, SAFETENSORS

PATH = "/v1/matmul"
_PRODUCTS = ("c", "product", "product_2", "product_3")  # one more than files that are sent
_PLAIN = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Preview:
    """Texts to be copied. If an API key is needed, they read it from MATMUL_API_KEY."""

    curl: str
    python: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The service's address."""

    url: str
    asks_for_key: bool


def preview(form: MultiplyForm, server: ServerAddress) -> Preview:
    """The preview of a form. Raises InvalidRequest and its subclasses for an invalid request."""
    options = options_of(form)
    parse_model(MatmulOptions, options)
    if form.source == "stored":
        form = replace(form, matrix_a=form.matrix_a or "ID_OF_A", matrix_b=form.matrix_b or "ID_OF_B")
    if form.source != "files":
        return _of_json(form, document_of(form), server)
    files = {"a": form.file_a or "a.npy", "b": form.file_b or "b.npy"} | ({"c": form.file_c} if form.file_c else {})
    if files["a"].endswith(".safetensors"):
        return _of_tensors(files["a"], options, server)
    return _of_files(files, options, server)


def _of_json(form: MultiplyForm, document: dict[str, Any], server: ServerAddress) -> Preview:
    is_npy = not any(held_as_bits(dtype.product) for dtype in DTYPES.values() if dtype.name == form.dtype)
    accept = NPY if is_npy else SAFETENSORS
    sent = f"-d {shlex.quote(json.dumps(document))}"
    curl = _curl(server, [_header("Content-Type", JSON), *_saved(accept, is_shown=form.source == "pasted"), sent])
    body = f"asked = {_literal(document)}\nbody = json.dumps(asked).encode()"
    return Preview(curl, _python(server, body, JSON, accept, imports=("json",)))


def _of_files(files: dict[str, str], options: dict[str, Any], server: ServerAddress) -> Preview:
    parts = [f"-F {shlex.quote(f'{name}=@{_file_name(path)}')}" for name, path in files.items()]
    if options:
        parts.append(f"-F {shlex.quote(f'options={json.dumps(options)};type={JSON}')}")
    lines = [
        'edge = b"--matmul-part"',
        "parts = {" + ", ".join(f'"{name}": open({path!r}, "rb").read()' for name, path in files.items()) + "}",
    ]
    if options:
        lines.append(f'parts["options"] = json.dumps({_literal(options)}).encode()')
    lines += [
        'body = b"".join(',
        "    edge + b'\\r\\nContent-Disposition: form-data; name=\"%s\"\\r\\n\\r\\n%s\\r\\n' % (name.encode(), part)",
        "    for name, part in parts.items()",
        ') + edge + b"--"',
    ]
    media_type = f"{MULTIPART}; boundary=matmul-part"
    imports = ("json",) if options else ()
    to = _product_file(NPY, files.values())
    python = _python(server, "\n".join(lines), media_type, NPY, imports=imports, to=to)
    return Preview(_curl(server, [*parts, *_saved(NPY, to=to)]), python)


def _of_tensors(path: str, options: dict[str, Any], server: ServerAddress) -> Preview:
    sent = f"--data-binary {shlex.quote(f'@{path}')}"
    to = _product_file(SAFETENSORS, [path])
    curl = _curl(server, [_header("Content-Type", SAFETENSORS), *_saved(SAFETENSORS, to=to), sent])
    python = _python(server, f'body = open({path!r}, "rb").read()', SAFETENSORS, SAFETENSORS, to=to)
    metadata = json.dumps({"options": json.dumps(options)})
    note = f"The options travel in the file's own metadata: {metadata}" if options else None
    return Preview(curl, python, note)


def _curl(server: ServerAddress, parts: Iterable[str]) -> str:
    key = ['-H "X-API-Key: $MATMUL_API_KEY"'] if server.asks_for_key else []
    return " \\\n  ".join([f"curl -sS {shlex.quote(server.url + PATH)}", *key, *parts])


def _header(name: str, value: str) -> str:
    return f"-H {shlex.quote(f'{name}: {value}')}"


def _saved(accept: str, *, is_shown: bool = False, to: str = "") -> Sequence[str]:
    """Whether the product is saved to a file; a small one is printed."""
    return () if is_shown else (_header("Accept", accept), f"-o {to or _product_file(accept)}")


def _product_file(accept: str, sent: Iterable[str] = ()) -> str:
    """A name that is none of the files that are sent: the product does not take the place of an operand."""
    suffix, taken = ".npy" if accept == NPY else ".safetensors", {*sent}
    return next(f"{stem}{suffix}" for stem in _PRODUCTS if f"{stem}{suffix}" not in taken)


def _file_name(path: str) -> str:
    """A file name escaped for curl's -F."""
    return path if _PLAIN.fullmatch(path) else '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(value: dict[str, Any]) -> str:
    return pformat(value, width=64, sort_dicts=False)


def _python(
    server: ServerAddress, body: str, media_type: str, accept: str, *, imports: Sequence[str] = (), to: str = ""
) -> str:
    """A Python program that uses only the standard library."""
    modules = sorted({*imports, *(("os",) if server.asks_for_key else ()), "urllib.request"})
    headers = [f'    "Content-Type": "{media_type}",', f'    "Accept": "{accept}",', '    "Prefer": "wait=60",']
    if server.asks_for_key:
        headers.append('    "X-API-Key": os.environ["MATMUL_API_KEY"],')
    lines = [
        f"import {', '.join(modules)}",
        "",
        body,
        "headers = {",
        *headers,
        "}",
        f"request = urllib.request.Request({server.url + PATH!r}, body, headers)",
        "with urllib.request.urlopen(request) as reply:",
        "    if reply.status == 202:",
        '        raise SystemExit("not done yet: ask again at " + reply.headers["Location"])',
        f'    open("{to or _product_file(accept)}", "wb").write(reply.read())',
    ]
    return "\n".join(lines)
