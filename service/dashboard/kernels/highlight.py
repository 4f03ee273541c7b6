"""Syntax highlighting of CUDA C++: Pygments parses it, and its tokens are mapped to a few CSS classes."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape
from pygments.lexers.c_like import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

# The first matching entry gives a token's class; other tokens are plain.
KINDS = (
    (Comment.PreprocFile, "string"),
    (Comment.Preproc, "preprocessor"),
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Name.Builtin, "keyword"),
    (Name.Class, "name"),
    (Name.Function, "name"),
    (Number, "number"),
    (String, "string"),
)


def highlighted(source: str) -> tuple[Markup, ...]:
    """The source's lines as HTML. A token that spans several lines, such as a comment, is marked in each."""
    lines: list[list[Markup]] = [[]]
    for token, text in CudaLexer(stripnl=False, ensurenl=False).get_tokens(source):
        first, *others = text.split("\n")
        lines[-1].append(_word(token, first))
        lines.extend([_word(token, other)] for other in others)
    return tuple(_joined(line) for line in lines[: len(source.splitlines())])


def _joined(words: Iterable[Markup]) -> Markup:
    return Markup("").join(words)


def _word(token: _TokenType, text: str) -> Markup:
    kind = next((kind for parent, kind in KINDS if token in parent), None)
    return Markup('<span class="{}">{}</span>').format(kind, text) if kind and text.strip() else escape(text)
