"""Print the results of the checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from paceline.foundation.command_line.printable import printable
from paceline.runtime.serve.startup_checks.values import CheckResult, Verdict

_PORT_NAMES = {"port": "data port", "admin_port": "admin port"}
_WIDTH = max(len(verdict) for verdict in Verdict)


def render_report(results: Sequence[CheckResult]) -> str:
    """Return one line for each check, then their number by verdict."""
    names = max((len(result.check) for result in results), default=0)
    lines = [
        f"{result.verdict:<{_WIDTH}}  {result.check:<{names}}  {result.text}" for result in results
    ]
    counts = [(verdict, sum(one.verdict is verdict for one in results)) for verdict in Verdict]
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    return "\n".join(map(printable, [*lines, f"{len(results)} checks: {total}"]))


def render_summary(
    *,
    model: str | None,
    drafter: str,
    ports: Sequence[tuple[str, int, str]],
    taken: Collection[str],
) -> str:
    """Return what a start would serve and where, one line each.

    `model` is None without engines of this server. `ports` are host, port and setting; `taken` are
    the settings of those that cannot be opened.
    """
    rows = [("model", model or "none of its own: remote replicas only")]
    if model is not None:
        rows.append(("drafter", drafter))
    for host, port, setting in ports:
        state = "not free" if setting in taken else "free"
        shown = f"{host}:{port}, {state}" if port else f"{host}, any free port"
        rows.append((_PORT_NAMES.get(setting, setting), shown))
    width = max(len(name) for name, _ in rows)
    return "\n".join(printable(f"{name:<{width}}  {text}") for name, text in rows)


def refusals(results: Sequence[CheckResult]) -> list[str]:
    """Return why the server cannot start, one sentence for each reason; empty if it can."""
    return [
        printable(f"{result.text} (check {result.check}; engine.skip_checks leaves it out)")
        for result in results
        if result.verdict is Verdict.REFUSED
    ]


def warnings(results: Sequence[CheckResult]) -> list[str]:
    """Return what works worse than it could, or may fail."""
    return [printable(one.text) for one in results if one.verdict is Verdict.WARNING]
