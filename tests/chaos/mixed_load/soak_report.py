"""The figures of all rounds of a soak together, and why it has not passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.mixed_load.load_report import find_run_failures

MAX_ERRORS_SHOWN = 100
_ADDED = ("endings", "kinds", "styles", "steps")


def sum_up(rounds: Sequence[Mapping[str, Any]], num_ordered: int) -> dict[str, Any]:
    """The total of these rounds; `num_ordered` is the number of faults of a complete run."""
    strikes = [strike for one in rounds for strike in one["strikes"]]
    errors = [error for one in rounds for error in one["errors"]]
    poison_errors = [error for one in rounds for error in one["poison"]["errors"]]
    added = {name: _add_up([one[name] for one in rounds]) for name in _ADDED}
    endings, kinds, styles = added["endings"], added["kinds"], added["styles"]
    num_left = sum(one["num_leases_left"] for one in rounds)
    failures = find_run_failures(
        num_ordered=num_ordered,
        num_injected=len(strikes),
        num_struck=sum(one["num_interrupted"] for one in kinds.values()),
        num_errors=len(errors),
    )
    failures += [f"{number} streams: {what}" for what, number in _by_kind(errors).items()]
    if num_unnoticed := sum(not strike["is_noticed"] for strike in strikes):
        failures.append(f"{num_unnoticed} stopped replicas stayed in service")
    if poison_errors:
        failures.append(f"{len(poison_errors)} poison requests did not get their error")
    if num_left:
        failures.append(f"{num_left} leases were left after a round")
    failures += [
        f"no stream was struck at a replica with the style {name}"
        for name, counts in styles.items()
        if not counts["num_struck"]
    ]
    return {
        "is_passed": not failures,
        "failures": failures,
        "duration_s": round(sum(one["duration_s"] for one in rounds), 1),
        "num_faults_injected": len(strikes),
        "num_streams": sum(one["num_streams"] for one in rounds),
        "endings": endings,
        "num_lost_before_first_token": sum(one["num_lost_before_first_token"] for one in rounds),
        "num_silent_truncations": endings.get("truncated", 0),
        "longest_silence_s": max((one["longest_silence_s"] for one in rounds), default=0.0),
        "kinds": kinds,
        "styles": styles,
        "steps": added["steps"],
        "num_poison_requests": sum(one["poison"]["num_requests"] for one in rounds),
        "poison_endings": _add_up([one["poison"]["endings"] for one in rounds]),
        "num_errors": len(errors) + len(poison_errors),
        "errors": [*errors, *poison_errors][:MAX_ERRORS_SHOWN],
    }


def _by_kind(errors: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many errors begin with the same words, by kind of stream and its last replica."""
    found: dict[str, int] = {}
    for error in errors:
        what = error["error"].partition(":")[0]
        last = error["path"][-1] if error["path"] else "no replica"
        name = f"{error['kind']}, at last on {last}: {what}"
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:20])


def _add_up(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of numbers with the same names, at any depth."""
    total: dict[str, Any] = {}
    for name in dict.fromkeys(key for one in rounds for key in one):
        values = [one[name] for one in rounds if name in one]
        total[name] = _add_up(values) if isinstance(values[0], Mapping) else sum(values)
    return total
