"""`Breakers`: one circuit breaker per replica, which keeps requests away from one that fails.

Decisions on values: which replicas are admitted now, and what one more ended attempt means. Whether
a replica is ready at all is its state; `router` chooses among the admitted ones.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from paceline.gateway.outcomes import Outcome
from paceline.gateway.routing.verdicts import Record, Verdict, fails_too_often
from paceline.gateway.settings import FailureSettings
from paceline.gateway.sliding_sum import SlidingSum

_FAILURES = frozenset(
    {
        Outcome.UNREACHABLE,
        Outcome.BROKEN,
        Outcome.TIMED_OUT,
        Outcome.ENGINE_ERROR,
        Outcome.MISDIRECTED,
    }
)
_JITTER_FRACTION = 0.2
"""Chosen empirically: replicas that failed together are tried again at different moments."""

_NUM_EAGER_TRIALS = 3
"""An idle fleet prefers a half-open replica for this many trips, then avoids it. Chosen
empirically: a client may have to wait for such a trial to fail."""


_COUNTED = (Verdict.AT_FAULT, Verdict.AGREED, Verdict.UNDECIDED, Verdict.SHED)


class BreakerState(StrEnum):
    """The value is also the metric label."""

    CLOSED = "closed"
    """It takes requests."""
    OPEN = "open"
    """It takes none."""
    HALF_OPEN = "half_open"
    """Its open time has passed: one request at a time tries it."""


class OpenBreakers(Enum):
    """Which replicas take a request when no breaker admits it."""

    ANY = auto()
    """Those that accept connections, or else all: for a new request, since a doubtful replica is
    better than a refusal."""
    ACCEPTING = auto()
    """Those that accept connections: for a request that would otherwise wait."""
    NONE = auto()


class _Role(Enum):
    SAMPLE = auto()
    PROBE = auto()
    FORCED = auto()
    """Begun although the breaker was open, because all others were too. Its end is not counted; it
    only shows whether the replica accepts connections."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One attempt, from `began` to `ended`, or to `decided` if its verdict comes later."""

    name: str
    epoch: int
    """The breaker's at the beginning: the end of an attempt begun before a trip is not counted."""
    role: _Role
    began_at_s: float


class Breakers:
    """The breakers of all replicas. Unknown names count as closed; state is kept for the names
    passed to `began`.

    CLOSED → OPEN: one attempt was UNREACHABLE (a replica that refuses a connection refuses the next
    one too, and a wrong verdict costs `open_s`), or the attempts that ended within `window_s` show
    that it `fails_too_often`.
    OPEN → HALF_OPEN: after open_s · 2^(trips - 1), at most `max_open_s`, shortened by up to a fifth
    by a jitter that depends on the name alone.
    HALF_OPEN → CLOSED: the probe answered or completed. HALF_OPEN → OPEN: the probe failed. A probe
    that ends without a verdict (its client left, the engine refused the request) admits another.
    Trips are counted from one again once the breaker was closed for `max_open_s`.

    An attempt whose cause is not known when it ends is `suspended`: the verdict comes when others
    have answered the same request. Of attempts that end with `ended`, failures are UNREACHABLE,
    BROKEN, TIMED_OUT, ENGINE_ERROR and MISDIRECTED, and COMPLETED is a success; other outcomes are
    no verdict. A probe whose failure stays undecided is a failure.

    Limitation: a replica that answers every request with wrong text counts as healthy; so does one
    that refuses every request while no other replica is asked, which `max_attempts` may cause.

    >>> breakers = Breakers(FailureSettings())
    >>> breakers.ended(breakers.began("a", 0.0), Outcome.UNREACHABLE, 0.1)
    >>> breakers.admitted(["a", "b"], 0.2), breakers.admitted(["a"], 0.2)
    (['b'], ['a'])
    """

    def __init__(self, settings: FailureSettings) -> None:
        self._settings = settings
        self._breakers: dict[str, _Breaker] = {}
        self._epochs = itertools.count()

    def admitted(
        self, names: Sequence[str], now_s: float, *, otherwise: OpenBreakers = OpenBreakers.ANY
    ) -> list[str]:
        """Those of `names`, in their order, that should take a request now. Does not mutate.

        When no breaker admits a request, `otherwise` decides; with `ANY` the result is empty only
        if `names` is. Call it with the replicas that could serve the request, and `began` for the
        chosen one before anything else is awaited.
        """
        known = self._breakers
        admitted = [name for name in names if name not in known or known[name].admits(now_s)]
        if admitted or otherwise is OpenBreakers.NONE:
            return admitted
        accepting = [name for name in names if not known[name].is_mute]
        return accepting if accepting or otherwise is OpenBreakers.ACCEPTING else list(names)

    def began(self, name: str, now_s: float) -> Ticket:
        """An attempt begins. Each ticket must be given to `ended`, exactly once."""
        breaker = self._breakers.get(name)
        if breaker is None:
            breaker = self._breakers[name] = _Breaker(name, self._settings, self._epochs)
        return breaker.began(now_s)

    def answered(self, ticket: Ticket, now_s: float) -> None:
        """The first bytes of a good answer arrived. A stream may last long: for a probe this is
        the success, and its end is not counted."""
        breaker = self._current(ticket)
        if breaker is not None:
            breaker.answered(ticket, now_s)

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float) -> None:
        """The attempt ended. Tickets from before the breaker's last change are ignored."""
        breaker = self._current(ticket)
        if breaker is not None:
            breaker.ended(ticket, outcome, now_s)

    def suspended(self, ticket: Ticket) -> None:
        """The attempt ended; `decided` follows, exactly once. Until then `num_undecided` counts
        it, and a probe keeps its place."""
        breaker = self._breakers.get(ticket.name)
        if breaker is not None:
            breaker.suspended(ticket)

    def decided(self, ticket: Ticket, verdict: Verdict, now_s: float) -> None:
        """The verdict on a suspended attempt. Counted unless the breaker has changed since the
        attempt began."""
        breaker = self._breakers.get(ticket.name)
        if breaker is not None:
            breaker.decided(ticket, verdict, now_s)

    def replaced(self, ticket: Ticket) -> None:
        """Another replica serves the request of this suspended attempt now; the verdict comes at
        its end. `num_undecided` leaves it out: a stream may last long."""
        breaker = self._breakers.get(ticket.name)
        if breaker is not None:
            breaker.replaced(ticket)

    def num_undecided(self, name: str) -> int:
        """Attempts on the replica that failed, whose verdict has not come, and whose request no
        other replica serves yet.

        They count as load there. Else a replica that fails at once would look idle, and get most of
        the requests.
        """
        breaker = self._breakers.get(name)
        return 0 if breaker is None else breaker.num_undecided

    def trip(self, name: str, now_s: float) -> None:
        """Open it whatever the rate: the replica does not answer, it has ended or hangs. If it is
        open already, it does not open for longer."""
        breaker = self._breakers.get(name)
        if breaker is None:
            return
        if breaker.state(now_s) is BreakerState.OPEN:
            breaker.is_mute = True
        else:
            breaker.trip(now_s, is_mute=True)

    def reset(self, name: str) -> None:
        """Forget a replica's past: it is ready again after it was down."""
        self._breakers.pop(name, None)

    def forget(self, names_left: Collection[str]) -> None:
        """Drop all replicas but these."""
        for name in self._breakers.keys() - set(names_left):
            del self._breakers[name]

    def states(self, now_s: float) -> Mapping[str, BreakerState]:
        """The breaker state of every replica that has had an attempt, as a copy."""
        return {name: breaker.state(now_s) for name, breaker in self._breakers.items()}

    def order_among_equals(self, name: str, now_s: float) -> int:
        """Rank of the breaker among replicas with equal load; the lowest should take the request.

        0: half open and not tried yet; it would stay untried while the others are idle. 1: closed.
        2: half open and already tried, or tripped several times: with little traffic, not every
        request should go to it.
        """
        breaker = self._breakers.get(name)
        return 1 if breaker is None else breaker.order_among_equals(now_s)

    def _current(self, ticket: Ticket) -> _Breaker | None:
        breaker = self._breakers.get(ticket.name)
        return breaker if breaker is not None and breaker.epoch == ticket.epoch else None


class _Breaker:
    """The breaker of one replica. Epochs are unique over all breakers, so a ticket of a forgotten
    breaker is never taken for one of a later breaker of the same name."""

    epoch: int
    is_mute: bool
    """Whether it was tripped because it does not answer: it refused a connection, or is hung. Like
    `_was_tried` and `_num_trips`, set by the first trip."""
    _open_until_s: float | None
    """None while it is closed."""
    _probe: Ticket | None
    _was_tried: bool
    """Since it opened last."""
    _num_trips: int

    def __init__(self, name: str, settings: FailureSettings, epochs: itertools.count[int]) -> None:
        self._name = name
        self._settings = settings
        self._epochs = epochs
        self._closed_at_s = -math.inf
        """When the last trip was over."""
        self._suspended: set[Ticket] = set()
        self._begin_closed()

    @property
    def num_undecided(self) -> int:
        return len(self._suspended)

    def state(self, now_s: float) -> BreakerState:
        if self._open_until_s is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now_s < self._open_until_s else BreakerState.HALF_OPEN

    def admits(self, now_s: float) -> bool:
        if self._open_until_s is None:  # closed, as nearly always; called for every attempt
            return True
        if now_s < self._open_until_s:
            return False
        probe = self._probe
        return probe is None or now_s - probe.began_at_s >= self._settings.probe_timeout_s

    def order_among_equals(self, now_s: float) -> int:
        if self._open_until_s is None or now_s < self._open_until_s:
            return 1
        return 2 if self._was_tried or self._num_trips > _NUM_EAGER_TRIALS else 0

    def began(self, now_s: float) -> Ticket:
        if self._open_until_s is None:
            return Ticket(self._name, self.epoch, _Role.SAMPLE, now_s)
        if not self.admits(now_s):
            return Ticket(self._name, self.epoch, _Role.FORCED, now_s)
        self._was_tried = True
        self._probe = Ticket(self._name, self.epoch, _Role.PROBE, now_s)
        return self._probe

    def answered(self, ticket: Ticket, now_s: float) -> None:
        if ticket.role is _Role.PROBE:
            self.close(now_s)
        elif ticket.role is _Role.SAMPLE:
            self._streaming.add(ticket)
        else:
            self.is_mute = False

    def suspended(self, ticket: Ticket) -> None:
        self._suspended.add(ticket)
        self._streaming.discard(ticket)

    def replaced(self, ticket: Ticket) -> None:
        self._suspended.discard(ticket)

    def decided(self, ticket: Ticket, verdict: Verdict, now_s: float) -> None:
        self._suspended.discard(ticket)
        if ticket.epoch != self.epoch or ticket.role is _Role.FORCED:
            return
        if ticket is self._probe:
            self._probe = None
        if verdict is Verdict.NO_FAULT:
            return
        if ticket.role is _Role.PROBE:
            if verdict is not Verdict.AGREED:
                self.trip(now_s, is_mute=False)
            return
        self._failures[verdict].add(1, now_s)
        if self._fails_too_often(now_s):
            self.trip(now_s, is_mute=False)

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float) -> None:
        """The attempt of a ticket from the present epoch ended."""
        self._streaming.discard(ticket)
        if ticket is self._probe:
            self._probe = None
        is_failure = outcome in _FAILURES
        if ticket.role is _Role.FORCED:
            self.is_mute = self.is_mute or outcome is Outcome.UNREACHABLE
            return
        if not (is_failure or outcome is Outcome.COMPLETED):
            return
        if ticket.role is _Role.PROBE:
            if is_failure:
                self.trip(now_s, is_mute=outcome is Outcome.UNREACHABLE)
            else:
                self.close(now_s)
            return
        (self._failures[Verdict.AT_FAULT] if is_failure else self._served).add(1, now_s)
        if outcome is Outcome.UNREACHABLE or (is_failure and self._fails_too_often(now_s)):
            self.trip(now_s, is_mute=outcome is Outcome.UNREACHABLE)

    def close(self, now_s: float) -> None:
        self._closed_at_s = now_s
        self._begin_closed()
        self._served.add(1, now_s)

    def trip(self, now_s: float, *, is_mute: bool) -> None:
        settings = self._settings
        was_closed = self._open_until_s is None
        if was_closed and now_s - self._closed_at_s >= settings.max_open_s:
            self._num_trips = 0
        self._num_trips += 1
        self._was_tried = False
        self._probe = None
        self.epoch = next(self._epochs)
        self.is_mute = is_mute
        self._open_until_s = now_s + _open_s(self._name, self._num_trips, settings)

    def _begin_closed(self) -> None:
        self.epoch = next(self._epochs)
        self._open_until_s = None
        self._probe = None
        window_s = self._settings.window_s
        self._served = SlidingSum(window_s)
        self._failures = {verdict: SlidingSum(window_s) for verdict in _COUNTED}
        self._streaming: set[Ticket] = set()

    def _fails_too_often(self, now_s: float) -> bool:
        served = self._served.total(now_s)
        at_fault, agreed, undecided, shed = (self._failures[one].total(now_s) for one in _COUNTED)
        record = Record(served, at_fault, agreed, undecided, shed, len(self._streaming))
        return fails_too_often(record, self._settings)


def _open_s(name: str, num_trips: int, settings: FailureSettings) -> float:
    full_s = min(settings.open_s * 2.0 ** min(num_trips - 1, 60), settings.max_open_s)
    share = zlib.crc32(name.encode()) / 2**32
    return full_s * (1 - _JITTER_FRACTION * share)
