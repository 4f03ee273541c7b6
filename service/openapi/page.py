"""The manual as an HTML page without scripts, rendered from the OpenAPI document."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: .5rem 0 1rem; }
h1, h2, h3, p, li { overflow-wrap: anywhere; } td * { overflow-wrap: normal; } td:last-child { min-width: 12rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
h2 { margin-top: 3rem; border-bottom: 2px solid var(--line); } h3 { margin-top: 2rem; }
.method { font-weight: 700; text-transform: uppercase; }
""".strip()
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"

Piece = dict[str, Any]


def page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>{body}</body></html>'
    )


def manual_page(document: Piece) -> str:
    """The whole OpenAPI document as an HTML page."""
    info = document["info"]
    contents = "".join(
        f'<li><a href="#{operation["operationId"]}"><code>{method.upper()} {escape(path)}</code></a> '
        f"{_inline(operation['summary'])}</li>"
        for path, method, operation in _operations(document)
    )
    parts = [
        '<p><a href="/">To the dashboard</a></p>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        _prose(info["description"]),
        f"<ul>{contents}</ul>",
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>{_prose(tag['description'])}")
        parts += [_operation(*each) for each in _operations(document) if tag["name"] in each[2]["tags"]]
    parts.append("<h2>schemas</h2>")
    parts += [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return page(f"{info['title']}: manual", "".join(parts))


def _operations(document: Piece) -> Iterator[tuple[str, str, Piece]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def _operation(path: str, method: str, operation: Piece) -> str:
    parts = [
        f'<h3 id="{operation["operationId"]}"><span class="method">{method}</span> <code>{escape(path)}</code></h3>',
        f"<p><strong>{_inline(operation['summary'])}.</strong></p>{_prose(operation['description'])}",
        _parameters(operation.get("parameters", [])),
        _body(operation.get("requestBody", {})),
        _responses(operation["responses"]),
    ]
    return "".join(parts)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose `rows` are already HTML; empty without rows."""
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>" if lines else ""


def _parameters(parameters: list[Piece]) -> str:
    rows = (
        [f"<code>{escape(p['name'])}</code>", p["in"], _type(p["schema"]), _inline(p.get("description", ""))]
        for p in parameters
    )
    return _table(("parameter", "in", "type", "meaning"), rows)


def _body(body: Piece) -> str:
    if not body:
        return ""
    parts = [f"<h4>Body</h4>{_prose(body['description'])}"]
    for media_type, content in body["content"].items():
        parts.append(f"<p><code>{escape(media_type)}</code>: {_type(content['schema'])}</p>")
        for example in content.get("examples", {}).values():
            parts.append(f"<pre>{escape(json.dumps(example['value']))}</pre>")
    return "".join(parts)


def _responses(responses: Piece) -> str:
    rows = []
    for status, response in responses.items():
        types = "<br>".join(
            f"<code>{escape(name)}</code>: {_type(content['schema'])}"
            for name, content in response.get("content", {}).items()
        )
        rows.append([f"<strong>{status}</strong>", _prose(response["description"]), types])
    return "<h4>Answers</h4>" + _table(("status", "meaning", "body"), rows)


def _schema(name: str, schema: Piece) -> str:
    required = schema.get("required", [])
    rows = (
        [
            f"<code>{escape(field)}</code>{' *' if field in required else ''}",
            _type(piece),
            _inline(piece.get("description", "")) + _example(piece),
        ]
        for field, piece in schema.get("properties", {}).items()
    )
    head = f'<h3 id="schema-{escape(name)}"><code>{escape(name)}</code></h3>{_prose(schema.get("description", ""))}'
    values = f"<p>{_type(schema)}</p>" if "enum" in schema else ""
    return head + values + _table(("field", "type", "meaning"), rows)


def _example(piece: Piece) -> str:
    examples = piece.get("examples")
    return f" Example: <code>{escape(json.dumps(examples[0]))}</code>" if examples else ""


def _type(schema: Piece) -> str:
    """A schema in a few words, with links to the named ones."""
    match schema:
        case {"$ref": str(target)}:
            name = escape(target.rpartition("/")[2])
            return f'<a href="#schema-{name}">{name}</a>'
        case {"anyOf": list(choices)} | {"allOf": list(choices)}:
            return " or ".join(dict.fromkeys(map(_type, choices)))
        case {"enum": list(values)}:
            return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
        case {"const": value}:
            return f"<code>{escape(json.dumps(value))}</code>"
        case {"type": "array", "items": dict(items)}:
            return f"list of {_type(items)}"
        case {"type": str(kind)}:
            return escape(schema.get("format", kind))
    return "any"


def _prose(text: str) -> str:
    """Paragraphs and lists."""
    blocks = []
    for block in filter(None, text.strip().split("\n\n")):
        lines = block.split("\n")
        if all(line.startswith("- ") for line in lines):
            blocks.append("<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>")
        else:
            blocks.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "".join(blocks)


def _inline(text: str) -> str:
    """Markdown's `code`, **strong** and *emphasis*, the rest escaped."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*([^*]+)\*(?![\w*])", r"<em>\1</em>", text)
