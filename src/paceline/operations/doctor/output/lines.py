"""The diagnosis for a terminal: lines of at most 100 characters.

Nothing is shortened. A word that is longer, such as a URL, has a line of its own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from paceline.foundation.servers.default_addresses import DATA_PORT, at_port
from paceline.operations.doctor.checks import CHECKS
from paceline.operations.doctor.diagnosing import DoctorConfig, Visit, money_of
from paceline.operations.doctor.estimates.money import MoneyLost
from paceline.operations.doctor.fixing.choice import FixResult
from paceline.operations.doctor.readings.probe_result import MeasuredGain, ProbeResult
from paceline.operations.doctor.values import Basis, Cost, Diagnosis, Evidence, Finding

_WIDTH = 100
_NAMES = {"vllm": "vLLM", "paceline": "Paceline", None: "The server"}


def render_lines(visit: Visit, diagnosis: Diagnosis) -> Iterator[str]:
    """The findings, the costliest first, then what could not be judged."""
    version = f" {visit.version}" if visit.version else ""
    if visit.unreachable is None:
        yield from _wrap(
            f"{_NAMES[visit.kind]}{version} at {visit.config.url}, read "
            f"{len(visit.watch.readings)} times in {visit.duration_s:.0f} s"
            f"{_requests(diagnosis.num_requests)}",
            "  ",
        )
    else:
        yield from _wrap(f"Only the log was read: {visit.unreachable}", "  ")
    for number, finding in enumerate(diagnosis.findings, start=1):
        yield ""
        yield from _finding(number, finding, money_of(visit, finding))
    yield ""
    num = len(diagnosis.findings)
    found = "Nothing found" if not num else "1 finding" if num == 1 else f"{num} findings"
    passed = ", ".join(diagnosis.passed) or "none"
    if not diagnosis.has_verdict:
        yield "No diagnosis: no check has a verdict."
    elif num:
        yield from _wrap(f"{found}; {len(diagnosis.passed)} checks passed: {passed}", "  ")
    else:
        yield f"{found}. {len(diagnosis.passed)} checks passed, which look for:"
        abouts = {check.id: check.about for check in CHECKS}
        for name in diagnosis.passed:
            yield from _wrap(f"- {name}: {abouts[name]}", "  ")
    yield from _not_judged(visit, diagnosis)
    if visit.probe is not None:
        yield from _wrap(_gain(visit.probe), "  ")
    if visit.fix is not None:
        yield from _wrap(_fix(visit.fix), "  ")
    if visit.restore_failure is not None:
        yield "NOT RESTORED: governors keep a setting of this run. Send the commands on stderr."
    for note in visit.notes:
        yield from _wrap(f"Note: {note}", "  ")


def _requests(number: float | None) -> str:
    return (
        "" if number is None else f"; {number:.0f} {'request' if number == 1 else 'requests'} ended"
    )


def _not_judged(visit: Visit, diagnosis: Diagnosis) -> Iterator[str]:
    """First what requests would show, with how to get them."""
    lacking = [one for one in diagnosis.not_judged if one.lacking is not None]
    others = [one for one in diagnosis.not_judged if one.lacking is None]
    for group, title in (
        (lacking, "without a verdict for lack of requests"), (others, "without a verdict")
    ):  # fmt: skip
        if group:
            yield f"{len(group)} {'check' if len(group) == 1 else 'checks'} {title}:"
        for one in group:
            yield from _wrap(f"- {one.check}: {one.reason}", "  ")
        if group is lacking and lacking:
            yield from _wrap(f"  {advise_requests(visit.config, visit.kind)}", "  ")


def advise_requests(config: DoctorConfig, kind: str | None) -> str:
    """How to get the verdicts for which there were too few requests."""
    if config.probe is not None:
        more_s = 4 * config.seconds
        return f"To judge them, probe for longer (--seconds {more_s:g})."
    options = "--probe"
    if kind == "paceline":
        options += f" --data-url {at_port(str(config.url), DATA_PORT)}"
    return (
        "To judge them, run the doctor while clients send requests, or let it send some: "
        f"paceline doctor {str(config.url).rstrip('/')} {options}"
    )


def _gain(probe: ProbeResult) -> str:
    if probe.gain is None:
        return f"The gain of drafts was not measured: {probe.gain_reason}"
    basis = "estimated" if probe.gain.is_estimated else "measured"
    return (
        f"Drafts change the throughput of the workload {probe.workload} at temperature "
        f"{probe.temperature:g} by a factor of {_factor(probe.gain)}, {basis}: {probe.gain.how}"
    )


def _fix(result: FixResult) -> str:
    if result.fix is None:
        return f"Nothing was changed: {result.reason}"
    change = f"{json.dumps(dict(result.fix.change))} on {', '.join(result.fix.replicas)}"
    verb = "Changed" if result.is_kept else "Not kept"
    gain = "" if result.gain is None else f", {_factor(result.gain)} times the tokens/s"
    return f"{verb}: {change}{gain}: {result.reason}"


def _factor(gain: MeasuredGain) -> str:
    return f"{gain.value:.2f} ({gain.low:.2f} to {gain.high:.2f}, {gain.num_pairs} pairs)"


def _finding(number: int, finding: Finding, money: MoneyLost | None) -> Iterator[str]:
    yield from _wrap(f"{number}. {finding.severity.upper()} {finding.id}: {finding.summary}", "   ")
    for name, text in (
        ("cost", render_cost(finding.cost)),
        ("money", "" if money is None else render_money(money)),
        ("seen", "; ".join(map(_evidence, finding.evidence))),
        ("cause", finding.cause),
        ("remedy", finding.remedy),
        ("change", ", ".join(finding.settings)),
    ):
        if text:
            yield from _wrap(f"   {name:<7} {text}", " " * 11)


def render_cost(cost: Cost) -> str:
    """One phrase.

    >>> render_cost(Cost(Basis.UNKNOWN, "no figure"))
    'unknown: no figure'
    """
    if cost.basis is Basis.UNKNOWN or cost.amount is None:
        return f"unknown: {cost.how}"
    interval = _interval(cost.low, cost.high)
    return f"{_number(cost.amount)} {cost.unit}{interval}, {cost.basis}: {cost.how}"


def render_money(money: MoneyLost) -> str:
    """One phrase.

    >>> from paceline.operations.doctor.estimates.money import Amount
    >>> render_money(MoneyLost(Amount(0.5, 0.25, 0.75), Amount(0.4, 0.2, 0.6)))
    '0.5 USD per hour (0.25 to 0.75), 0.4 USD per 1M output tokens (0.2 to 0.6)'
    """
    per_million = money.usd_per_million_output_tokens
    return ", ".join(
        f"{_number(one.amount)} USD per {unit}{_interval(one.low, one.high)}"
        for one, unit in ((money.usd_per_hour, "hour"), (per_million, "1M output tokens"))
        if one is not None
    )


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({_number(low)} to {_number(high)})"


def _evidence(evidence: Evidence) -> str:
    value = _number(evidence.value) if isinstance(evidence.value, float) else str(evidence.value)
    return f"{evidence.name} {value} {evidence.unit}".rstrip()


def _number(value: float) -> str:
    """Three significant digits, without exponents.

    >>> _number(1234.5), _number(0.01234)
    ('1234', '0.0123')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
