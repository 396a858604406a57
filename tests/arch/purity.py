"""Reads the kernel's source for what a pure function over integers may not have.

Not here: which modules import which packages (`.importlinter`).

1. No float: no such literal, no true division (`idle` divides fractions), no `float`, and of `math`
   only what gives integers.
2. No world: no name that opens, prints, reads or runs something, or differs from run to run.
3. Only the named modules are imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

ALLOWED_IMPORTS = frozenset(
    {
        "__future__",
        "bisect",
        "collections",
        "collections.abc",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "math",
        "operator",
        "re",
        "schemas",
        "schemas.records",
        "typing",
    }
)
ALLOWED_OF_MATH = frozenset({"floor", "gcd", "isqrt"})
DIVIDES_FRACTIONS = frozenset({"idle"})
FORBIDDEN_NAMES = frozenset(
    {
        "__import__",
        "breakpoint",
        "compile",
        "complex",
        "eval",
        "exec",
        "float",
        "globals",
        "hash",
        "id",
        "input",
        "open",
        "print",
        "round",
    }
)


def findings(source: str, module: str) -> list[str]:
    """What the module of that name has and may not: `line: what`, in the source's order."""
    found = [
        (node.lineno, what)
        for node in ast.walk(ast.parse(source))
        for what in _of_node(node, module)
        if isinstance(node, (ast.expr, ast.stmt))
    ]
    return [f"{line}: {what}" for line, what in sorted(found)]


def _of_node(node: ast.AST, module: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=float() | complex()):
            yield f"the literal {node.value!r}"
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            if module not in DIVIDES_FRACTIONS:
                yield "a true division"
        case ast.Name(id=name, ctx=ast.Load()) if name in FORBIDDEN_NAMES:
            yield f"the name {name}"
        case ast.Global() | ast.Await() | ast.AsyncFunctionDef():
            yield f"a {type(node).__name__.lower()}"
        case ast.Import(names=names):
            yield from (f"the import of {one.name}" for one in names if not _allowed(one.name))
        case ast.ImportFrom(module=source, names=names):
            yield from _of_import(source or "", [one.name for one in names])


def _of_import(source: str, names: list[str]) -> Iterator[str]:
    if not _allowed(source):
        yield f"the import of {source}"
    elif source == "schemas":
        yield from (f"the import of schemas.{name}" for name in names if name != "records")
    elif source == "math":
        yield from (f"the import of math.{name}" for name in names if name not in ALLOWED_OF_MATH)


def _allowed(name: str) -> bool:
    return name in ALLOWED_IMPORTS or name.startswith("streams.kernel")
