"""Find sleeps and short time limits in the source of a test.

Pure: source in, findings out. A test that sleeps until something has happened fails on a machine
that was stopped meanwhile, and so does one whose limit ends what is only slow.

Found are references to `asyncio.sleep`, `time.sleep`, `trio.sleep` and `anyio.sleep`, called or
handed on; `call_later` and `call_at`; limits below `MIN_LIMIT_S` in `asyncio.timeout`,
`asyncio.wait_for`, and in the keywords `timeout` and `within_s`; and in a module that imports
`threading`, a `wait` or `join` with such a limit whose result nobody looks at.

Allowed are `sleep(0)`; what runs in virtual time; and a line with the comment `# sleep: <reason>`
or `# limit: <reason>`, on it or alone on the lines before it. A reason says why no result depends
on the length, and has at least three words.

A module is in virtual time when it imports one of `VIRTUAL`. In it, `async def test_…` without the
decorator `@simulated`, async fixtures and what they refer to run on a real loop, and stay checked.
Code in strings is not read.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

VIRTUAL = frozenset(
    {"SimulatedLoop", "VirtualLoop", "run_simulated", "run_virtually", "simulate", "simulated"}
)
MIN_LIMIT_S = 60.0
"""A machine that runs everything at once stops a process for seconds, never for a minute."""

_CLOCKS = ("asyncio", "time", "trio", "anyio")
_REASON = re.compile(r"#\s*(sleep|limit):\s*\S+(\s+\S+){2,}")
_INSTEAD = {
    "sleep": "wait for what must happen (polling.until, an event), use virtual time "
    "(run_simulated, run_virtually), or hang on an asyncio.Event that nobody sets; else say in "
    "`# sleep: <reason>` why no result depends on its length",
    "limit": f"give it {MIN_LIMIT_S:g} s, so that it only ends a hang; else say in "
    "`# limit: <reason>` why no result depends on its length",
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Finding:
    """A sleep or a limit that may decide a result."""

    line: int
    found: str
    kind: str
    """`sleep` or `limit`: the word of the comment that allows it."""

    @property
    def instead(self) -> str:
        return _INSTEAD[self.kind]


def check(text: str) -> list[Finding]:
    """All findings in the source of a module, by line."""
    tree = ast.parse(text)
    allowed = _allowed_lines(text)
    virtual_lines = _virtual_lines(tree)
    findings = {(finding.line, finding.kind): finding for finding in _findings(tree)}
    return [
        finding
        for (line, kind), finding in sorted(findings.items())
        if (line, kind) not in allowed and line not in virtual_lines
    ]


def _findings(tree: ast.Module) -> Iterator[Finding]:
    sleeps, constants = _imported_sleeps(tree), _numbers(tree)
    unused = _unused_calls(tree) if "threading" in _imported_names(tree) else frozenset()
    harmless = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and _is_zero(node.args[0])
    }
    for node in ast.walk(tree):
        if _is_sleep(node, sleeps) and id(node) not in harmless:
            yield Finding(node.lineno, ast.unparse(node), "sleep")
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("call_later", "call_at"):
            yield Finding(node.lineno, ast.unparse(node.func), "sleep")
        elif isinstance(node, ast.Call):
            limit_s = _limit_s(node, constants, is_unused=id(node) in unused)
            if limit_s is not None and 0 < limit_s < MIN_LIMIT_S:
                yield Finding(node.lineno, f"{ast.unparse(node.func)} for {limit_s:g} s", "limit")


def _is_sleep(node: ast.AST, imported: set[str]) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Attribute):
        owner = node.value
        return node.attr == "sleep" and isinstance(owner, ast.Name) and owner.id in _CLOCKS
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in imported


def _limit_s(call: ast.Call, constants: dict[str, float], *, is_unused: bool) -> float | None:
    name = ast.unparse(call.func)
    limit: ast.expr | None = None
    if name == "asyncio.timeout" and call.args:
        limit = call.args[0]
    elif name == "asyncio.wait_for" and len(call.args) > 1:
        limit = call.args[1]
    elif is_unused and _last_name(call.func) in ("wait", "join") and call.args:
        limit = call.args[0]
    for keyword in call.keywords:
        if keyword.arg in ("timeout", "within_s"):
            limit = keyword.value
    return None if limit is None else _number(limit, constants)


def _unused_calls(tree: ast.Module) -> frozenset[int]:
    """Calls whose result nobody looks at."""
    return frozenset(id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr))


def _number(node: ast.expr, constants: dict[str, float]) -> float | None:
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(str(node.value))
    return None


def _is_zero(node: ast.expr) -> bool:
    return _number(node, {}) == 0


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rsplit(".", 1)[-1]


def _numbers(tree: ast.Module) -> dict[str, float]:
    """The module's constants."""
    found = dict[str, float]()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            number = _number(node.value, found)
            if number is not None:
                found[node.targets[0].id] = number
    return found


def _imported_sleeps(tree: ast.Module) -> set[str]:
    return {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _CLOCKS
        for name in node.names
        if name.name == "sleep"
    }


def _imported_names(tree: ast.Module) -> set[str]:
    return {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }


def _virtual_lines(tree: ast.Module) -> set[int]:
    """Lines that no real loop runs, in a module that uses virtual time."""
    if not _imported_names(tree) & VIRTUAL:
        return set()
    definitions = {node.name: node for node in tree.body if isinstance(node, _Definition)}
    real = {name for name, node in definitions.items() if _runs_on_a_real_loop(node)}
    to_visit = list(real)
    while to_visit:
        used = {
            node.id for node in ast.walk(definitions[to_visit.pop()]) if isinstance(node, ast.Name)
        }
        new = (used & definitions.keys()) - real
        real |= new
        to_visit += new
    return {
        line
        for name, node in definitions.items()
        if name not in real
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _runs_on_a_real_loop(node: _Definition) -> bool:
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return (
        isinstance(node, ast.AsyncFunctionDef)
        and "simulated" not in decorators
        and (node.name.startswith("test_") or any("fixture" in name for name in decorators))
    )


def _allowed_lines(text: str) -> set[tuple[int, str]]:
    """Line and kind of each finding that a comment allows.

    A comment alone on its line holds for the next line of code.
    """
    allowed, above = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            match = _REASON.match(token.string)
            if match:
                is_alone = not token.line[: token.start[1]].strip()
                (above.add(match[1]) if is_alone else allowed.add((token.start[0], match[1])))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            allowed |= {(token.start[0], kind) for kind in above}
            above = set()
    return allowed
