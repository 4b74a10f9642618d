"""Which fault strikes which request, and when?

Values and decisions only; `misbehaviour` and the server carry them out. A fault of the whole server
(die, hang, freeze, slow, refuse) that names no condition strikes at once; all others wait for a
request that matches.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml


class FaultKind(StrEnum):
    DIE = "die"
    """The process ends: by SIGKILL, or with `exit_code`."""
    HANG = "hang"
    """The engine stops: no stream goes on, /health still answers."""
    FREEZE = "freeze"
    """Nothing answers any more; connections are still taken."""
    SLOW = "slow"
    """All times are multiplied by `factor`."""
    REFUSE = "refuse"
    """New connections are refused; those that are open go on."""
    STATUS = "status"
    """An error of vLLM's shape with `status`, instead of an answer."""
    STALL = "stall"
    """This stream stops; the connection stays open, all others go on."""
    RESET = "reset"
    """The connection is reset."""
    HALF_CLOSE = "half_close"
    """The server says that no more comes, in the middle of the body, and keeps the connection."""
    TEAR = "tear"
    """Half of an event goes out, then the connection is closed."""
    NO_DONE = "no_done"
    """The body ends in good order, without [DONE]."""
    BAD_CHUNKING = "bad_chunking"
    """What should be the size of an HTTP chunk is none."""
    LONG_LINE = "long_line"
    """An event of `size_bytes` in one line comes in between; the stream goes on."""
    BAD_JSON = "bad_json"
    """An event that is no JSON comes in between; the stream goes on."""
    ERROR_EVENT = "error_event"
    """vLLM's error event and [DONE] end the stream."""


WHOLE_SERVER = frozenset(
    {FaultKind.DIE, FaultKind.HANG, FaultKind.FREEZE, FaultKind.SLOW, FaultKind.REFUSE}
)
_LASTING = WHOLE_SERVER - {FaultKind.DIE} | {FaultKind.STALL}
_ROUTES = ("generate", "health", "models", "metrics", "any")


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of a fault script."""

    kind: FaultKind
    route: str = "generate"
    """generate (both routes that answer prompts), health, models, metrics or any."""
    after_tokens: int | None = None
    """Strike when this many tokens of an answer have gone out; 0: after the head, before the first
    token. Without it, as soon as the request has come."""
    request: int | None = None
    """Only the n-th request of the route, from 1, counted since the fault was set."""
    every: int | None = None
    """Only each n-th request of the route."""
    rate: float | None = None
    """Only this fraction of requests, drawn with the server's seed."""
    times: int | None = None
    """Strike at most so often."""
    after_s: float = 0.0
    """The fault is set so long after the script was given."""
    duration_s: float | None = None
    """How long hang, freeze, slow, refuse and stall last; without it, until faults are cleared."""
    status: int = 503
    factor: float = 10.0
    exit_code: int | None = None
    size_bytes: int = 10_000_000

    def __post_init__(self) -> None:
        if self.route not in _ROUTES:
            raise ValueError(f"route must be one of {', '.join(_ROUTES)}; got {self.route!r}.")
        if self.route != "generate" and self.after_tokens is not None:
            raise ValueError("after_tokens needs the route generate.")
        if self.after_tokens is not None and self.kind is FaultKind.STATUS:
            raise ValueError("status comes instead of an answer: it has no after_tokens.")
        if self.duration_s is not None and self.kind not in _LASTING:
            raise ValueError(f"{self.kind} does not last: it has no duration_s.")
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ValueError(f"rate must be in [0, 1], got {self.rate}.")
        if not 400 <= self.status <= 599:
            raise ValueError(f"status must be in 400 to 599, got {self.status}.")
        if self.factor <= 0:
            raise ValueError(f"factor must be positive, got {self.factor}.")
        for name in ("request", "every", "times"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if (self.after_tokens or 0) < 0 or self.after_s < 0 or (self.duration_s or 0) < 0:
            raise ValueError("after_tokens, after_s and duration_s must not be negative.")

    @property
    def strikes_at_once(self) -> bool:
        conditions = (self.after_tokens, self.request, self.every, self.rate, self.times)
        return self.kind in WHOLE_SERVER and all(value is None for value in conditions)


class SetFault:
    """A fault that is set, with its counts."""

    __slots__ = ("fault", "num_seen", "num_struck")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.num_seen = 0
        self.num_struck = 0


class FaultBook:
    """The faults that are set."""

    def __init__(self, seed: int) -> None:
        self._set: list[SetFault] = []
        self._random = random.Random(seed)

    def add(self, fault: Fault) -> SetFault:
        self._set.append(SetFault(fault))
        return self._set[-1]

    def clear(self) -> None:
        self._set = []

    def matching(self, route: str) -> list[SetFault]:
        """The faults that may strike this request; counts it for all that watch its route."""
        return [entry for entry in self._set if self._matches(entry, route)]

    def _matches(self, entry: SetFault, route: str) -> bool:
        fault = entry.fault
        if fault.strikes_at_once or fault.route not in (route, "any"):
            return False
        entry.num_seen += 1
        if fault.request is not None and entry.num_seen != fault.request:
            return False
        if fault.every is not None and entry.num_seen % fault.every:
            return False
        return fault.rate is None or self._random.random() < fault.rate

    def strike(self, entry: SetFault) -> bool:
        """Whether it may strike now; counts it. No more once it was cleared."""
        times = entry.fault.times
        if entry not in self._set or (times is not None and entry.num_struck >= times):
            return False
        entry.num_struck += 1
        return True

    def describe(self) -> list[dict[str, Any]]:
        """What is set, for whoever asks."""
        return [
            {
                **{field.name: getattr(entry.fault, field.name) for field in fields(Fault)},
                "num_seen": entry.num_seen,
                "num_struck": entry.num_struck,
            }
            for entry in self._set
        ]


def read_faults(script: object) -> list[Fault]:
    """Faults from parsed YAML or JSON: a list, or an object whose `faults` is one.

    Raises `ValueError` that names the fault and what is wrong with it.
    """
    entries = script.get("faults") if isinstance(script, dict) else script
    if not isinstance(entries, list):
        raise ValueError("A fault script is a list of faults, or an object with `faults`.")
    return [_read_fault(place, entry) for place, entry in enumerate(entries, 1)]


def load_faults(path: Path) -> list[Fault]:
    """The faults of a YAML or JSON file."""
    try:
        return read_faults(yaml.safe_load(path.read_text()))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is neither YAML nor JSON: {error}") from None


def _read_fault(place: int, entry: object) -> Fault:
    if not isinstance(entry, dict):
        raise ValueError(f"Fault {place} is no object.")
    known = {field.name: field for field in fields(Fault)}
    if unknown := sorted(map(str, entry.keys() - known.keys())):
        raise ValueError(f"Fault {place} has unknown fields: {', '.join(unknown)}.")
    try:
        kind = FaultKind(entry.get("kind", ""))
    except ValueError:
        raise ValueError(f"Fault {place}: kind must be one of {_listed(FaultKind)}.") from None
    for name, value in entry.items():
        _check_kind_of_value(place, name, value)
    try:
        return Fault(**{**entry, "kind": kind})
    except ValueError as error:
        raise ValueError(f"Fault {place}: {error}") from None


def _check_kind_of_value(place: int, name: str, value: object) -> None:
    if name in ("kind", "route"):
        is_right = isinstance(value, str)
    elif name in ("rate", "after_s", "duration_s", "factor"):
        is_right = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        is_right = type(value) is int
    if not is_right and value is not None:
        raise ValueError(f"Fault {place}: {name} has a wrong type: {value!r}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
