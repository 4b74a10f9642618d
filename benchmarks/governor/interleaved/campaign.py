"""Run every turn of every repeat with all arms in turn, and save after each repeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from benchmarks.governor.interleaved.arms import Arm
from benchmarks.governor.interleaved.engines import Engine
from benchmarks.governor.interleaved.phases import Turn, order_of_arms, parse_phase, plan_repeat
from benchmarks.governor.interleaved.requests import RequestMaker

_WARM_UP = (("4-hard", 24), ("32-code", 12))
"""Phases and steps that every engine runs first, unrecorded: the first steps allocate memory."""

_IDLE_WATCH_S = 3.0


class Asked(Protocol):
    """An engine that answers with the figures of a turn, or with `paused` after a slice of it."""

    def ask(self, order: dict[str, Any]) -> dict[str, Any]: ...


def plan_turns(plan: Mapping[str, Any], repeat: int) -> list[Turn]:
    """The turns of one repeat of this plan."""
    return plan_repeat(
        plan["phases"],
        repeat,
        (plan["steps"][0], plan["steps"][1]),
        is_shuffled=plan["is_shuffled"],
        seed=plan["seed"],
    )


def warm_up(engines: Mapping[str, Engine], maker: RequestMaker) -> None:
    """Run the warm-up phases on every engine in turn."""
    for place, (name, steps) in enumerate(_WARM_UP):
        order = maker.order_for(Turn(place, parse_phase(name), steps, seed=place))
        for engine in engines.values():
            engine.ask(order)


def idle_cores(engines: Mapping[str, Engine]) -> float:
    """Cores that all idle engines use together; they disturb the one that runs."""
    before_s = sum(engine.processor_s() for engine in engines.values())
    time.sleep(_IDLE_WATCH_S)
    return (sum(engine.processor_s() for engine in engines.values()) - before_s) / _IDLE_WATCH_S


def run_campaign(
    plan: Mapping[str, Any],
    arms: Sequence[Arm],
    engines: Mapping[str, Engine],
    maker: RequestMaker,
    runs: list[dict[str, Any]],
    save: Callable[[], None],
) -> None:
    """Append one entry to `runs` for every arm in every turn that `runs` lacks.

    An unfinished repeat is dropped and run again: its arms would not have shared their moments.
    """
    names = [arm.name for arm in arms]
    for repeat in range(plan["repeats"]):
        turns = plan_turns(plan, repeat)
        if sum(run["repeat"] == repeat for run in runs) == len(turns) * len(names):
            continue
        runs[:] = [run for run in runs if run["repeat"] != repeat]
        for turn in turns:
            began_s = time.monotonic()
            order = maker.order_for(turn)
            order |= {"slow_down": plan["slow_down"], "slices": plan["slices"]}
            shuffled = order_of_arms(names, repeat, turn.place, seed=plan["seed"])
            found = run_turn(order, {name: engines[name] for name in shuffled})
            runs.extend(
                {
                    "repeat": repeat,
                    "place": turn.place,
                    "phase": turn.phase.name,
                    "num_steps": turn.steps,
                    "arm": name,
                    "position": position,
                    **figures,
                }
                for position, (name, figures) in enumerate((n, found[n]) for n in shuffled)
            )
            _report(repeat, turn, len(turns), found, names, time.monotonic() - began_s)
        save()


def run_turn(order: dict[str, Any], engines: Mapping[str, Asked]) -> dict[str, dict[str, Any]]:
    """Let the engines run the turn slice by slice, in reverse order in every other round."""
    found: dict[str, dict[str, Any]] = {}
    pending, question = list(engines), order
    while pending:
        answers = {name: engines[name].ask(question) for name in pending}
        found |= {name: one for name, one in answers.items() if "paused" not in one}
        pending = [name for name in reversed(pending) if name not in found]
        question = {"op": "continue"}
    return found


def _report(
    repeat: int,
    turn: Turn,
    num_turns: int,
    found: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    seconds: float,
) -> None:
    rates = "  ".join(f"{n} {found[n]['tokens'] / found[n]['seconds']:.0f}" for n in names)
    errors = sum(figures["policy_errors"] for figures in found.values())
    print(
        f"repeat {repeat}, {turn.place + 1}/{num_turns} {turn.phase.name} ({seconds:.0f} s): "
        f"{rates}" + (f"  POLICY ERRORS: {errors}" if errors else ""),
        flush=True,
    )
