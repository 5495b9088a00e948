"""Which definitions does a Python file hold, and where?

The file's own syntax tree answers, never its text by pattern. A file that does not parse has no definitions here and
is cut as plain text instead.
"""

from __future__ import annotations

import ast
import warnings
from array import array
from dataclasses import dataclass
from typing import Literal

from memoryd.extract.text import line_starts

PARSE_LIMIT = 1_000_000
"""Longest source in characters that is parsed; a syntax tree takes many times the memory of its text."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Definition:
    """A class, function or method with its decorators; `name` is qualified (`Outer.inner`).

    Lines are 1-based and inclusive, characters a half-open range of whole lines.
    `depth` counts the definitions around it; `statements` are the first lines of the statements in its body.
    """

    name: str
    kind: Literal["class", "function", "method"]
    start_char: int
    end_char: int
    line_start: int
    line_end: int
    depth: int = 0
    statements: tuple[int, ...] = ()


def definitions(text: str) -> list[Definition]:
    """All definitions in order of their first line, an outer one before its inner ones; [] for unparsable source."""
    tree = parse(text)
    if tree is None:
        return []
    starts = line_starts(text)
    found: list[Definition] = []
    stack: list[tuple[ast.AST, str, int, bool]] = [(tree, "", 0, False)]
    while stack:
        node, prefix, depth, in_class = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _DEFINITIONS):
                found.append(_definition(child, starts, prefix, depth, in_class))
                stack.append((child, f"{prefix}{child.name}.", depth + 1, isinstance(child, ast.ClassDef)))
            elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                stack.append((child, prefix, depth, in_class))
    return sorted(found, key=lambda one: (one.line_start, -one.line_end))


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None where the source is no Python, too deeply nested or longer than PARSE_LIMIT."""
    if len(text) > PARSE_LIMIT:
        return None
    with warnings.catch_warnings():  # a doubtful escape in somebody's file is none of our log's business
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
    starts: array[int],
    prefix: str,
    depth: int,
    owned: bool,
) -> Definition:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    kind: Literal["class", "function", "method"] = "method" if owned else "function"
    return Definition(
        name=prefix + node.name,
        kind="class" if isinstance(node, ast.ClassDef) else kind,
        start_char=starts[first - 1],
        end_char=starts[last],
        line_start=first,
        line_end=last,
        depth=depth,
        statements=tuple(statement.lineno for statement in node.body),
    )
