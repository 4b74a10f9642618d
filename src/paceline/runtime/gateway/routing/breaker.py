"""`Breakers`: one circuit breaker per replica, which keeps requests away from one that fails.

Decisions on values: which replicas are admitted now, and what one more ended attempt means. Whether
a replica is ready at all is its state; `router` chooses among the admitted ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, StrEnum, auto

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.verdicts import Record, Verdict, fails_too_often
from paceline.runtime.gateway.settings import FailureSettings
from paceline.runtime.gateway.sliding_sum import SlidingSum

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


class Ticket:
    """One attempt on a replica, from `Breakers.began` to `ended`, or to `decided` if its verdict
    comes later. What happens to an attempt that began before the breaker's last change does not
    change it again."""

    __slots__ = ("_breaker", "_epoch", "_role", "began_at_s", "name")

    def __init__(self, breaker: _Breaker, role: _Role, began_at_s: float) -> None:
        self.name = breaker.name
        self.began_at_s = began_at_s
        self._breaker = breaker
        self._epoch = breaker.epoch
        self._role = role

    def answered(self, now_s: float) -> None:
        """The first bytes of a good answer arrived. A stream may last long: for a probe this is
        the success, and its end is not counted."""
        breaker = self._breaker
        if self._epoch != breaker.epoch:
            return
        if self._role is _Role.PROBE:
            breaker.close(now_s)
        elif self._role is _Role.SAMPLE:
            breaker.streaming.add(self)
        else:
            breaker.is_mute = False

    def ended(self, outcome: Outcome, now_s: float) -> None:
        """The attempt ended."""
        breaker = self._breaker
        if self._epoch != breaker.epoch:
            return
        breaker.streaming.discard(self)
        breaker.drop_probe(self)
        is_failure, is_mute = outcome in _FAILURES, outcome is Outcome.UNREACHABLE
        if self._role is _Role.FORCED:
            breaker.is_mute = breaker.is_mute or is_mute
        elif is_failure and (self._role is _Role.PROBE or is_mute):
            breaker.trip(now_s, is_mute=is_mute)
        elif is_failure:
            breaker.failed(Verdict.AT_FAULT, now_s)
        elif outcome is Outcome.COMPLETED and self._role is _Role.PROBE:
            breaker.close(now_s)
        elif outcome is Outcome.COMPLETED:
            breaker.served.add(1, now_s)

    def suspended(self) -> None:
        """The attempt ended; `decided` follows, exactly once. Until then `num_undecided` counts
        it, and a probe keeps its place."""
        self._breaker.suspended.add(self)
        self._breaker.streaming.discard(self)

    def replaced(self) -> None:
        """Another replica serves the request of this suspended attempt now; the verdict comes at
        its end. `num_undecided` leaves it out: a stream may last long."""
        self._breaker.suspended.discard(self)

    def decided(self, verdict: Verdict, now_s: float) -> None:
        """The verdict on a suspended attempt."""
        breaker = self._breaker
        breaker.suspended.discard(self)
        if self._epoch != breaker.epoch or self._role is _Role.FORCED:
            return
        breaker.drop_probe(self)
        if verdict is Verdict.NO_FAULT:
            return
        if self._role is not _Role.PROBE:
            breaker.failed(verdict, now_s)
        elif verdict is not Verdict.AGREED:
            breaker.trip(now_s, is_mute=False)


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
    >>> breakers.began("a", 0.0).ended(Outcome.UNREACHABLE, 0.1)
    >>> breakers.admitted(["a", "b"], 0.2), breakers.admitted(["a"], 0.2)
    (['b'], ['a'])
    """

    def __init__(self, settings: FailureSettings) -> None:
        self._settings = settings
        self._breakers: dict[str, _Breaker] = {}

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
        """An attempt begins. Of each ticket, `ended` or `suspended` must be called once."""
        breaker = self._breakers.get(name)
        if breaker is None:
            breaker = self._breakers[name] = _Breaker(name, self._settings)
        return breaker.began(now_s)

    def num_undecided(self, name: str) -> int:
        """Attempts on the replica that failed, whose verdict has not come, and whose request no
        other replica serves yet.

        They count as load there. Else a replica that fails at once would look idle, and get most of
        the requests.
        """
        breaker = self._breakers.get(name)
        return 0 if breaker is None else len(breaker.suspended)

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


class _Breaker:
    """The breaker of one replica. A forgotten one lives on in its tickets, without effect."""

    is_mute: bool
    """Whether it was tripped because it does not answer: it refused a connection, or is hung. Like
    `_was_tried` and `_num_trips`, set by the first trip."""
    _open_until_s: float | None
    """None while it is closed."""
    _probe: Ticket | None
    _was_tried: bool
    """Since it opened last."""
    _num_trips: int

    def __init__(self, name: str, settings: FailureSettings) -> None:
        self.name = name
        self._settings = settings
        self.epoch = 0
        """It changes whenever the breaker opens or closes."""
        self._closed_at_s = -math.inf
        """When the last trip was over."""
        self.suspended: set[Ticket] = set()
        self._begin_closed()

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
            return Ticket(self, _Role.SAMPLE, now_s)
        if not self.admits(now_s):
            return Ticket(self, _Role.FORCED, now_s)
        self._was_tried = True
        self._probe = Ticket(self, _Role.PROBE, now_s)
        return self._probe

    def drop_probe(self, ticket: Ticket) -> None:
        """Admit another probe if this attempt was the one."""
        if ticket is self._probe:
            self._probe = None

    def failed(self, verdict: Verdict, now_s: float) -> None:
        self._failures[verdict].add(1, now_s)
        if self._fails_too_often(now_s):
            self.trip(now_s, is_mute=False)

    def close(self, now_s: float) -> None:
        self._closed_at_s = now_s
        self._begin_closed()
        self.served.add(1, now_s)

    def trip(self, now_s: float, *, is_mute: bool) -> None:
        settings = self._settings
        was_closed = self._open_until_s is None
        if was_closed and now_s - self._closed_at_s >= settings.max_open_s:
            self._num_trips = 0
        self._num_trips += 1
        self._was_tried = False
        self._probe = None
        self.epoch += 1
        self.is_mute = is_mute
        self._open_until_s = now_s + _open_s(self.name, self._num_trips, settings)

    def _begin_closed(self) -> None:
        self.epoch += 1
        self._open_until_s = None
        self._probe = None
        window_s = self._settings.window_s
        self.served = SlidingSum(window_s)
        self._failures = {verdict: SlidingSum(window_s) for verdict in _COUNTED}
        self.streaming: set[Ticket] = set()

    def _fails_too_often(self, now_s: float) -> bool:
        served = self.served.total(now_s)
        at_fault, agreed, undecided, shed = (self._failures[one].total(now_s) for one in _COUNTED)
        record = Record(served, at_fault, agreed, undecided, shed, len(self.streaming))
        return fails_too_often(record, self._settings)


def _open_s(name: str, num_trips: int, settings: FailureSettings) -> float:
    full_s = min(settings.open_s * 2.0 ** min(num_trips - 1, 60), settings.max_open_s)
    share = zlib.crc32(name.encode()) / 2**32
    return full_s * (1 - _JITTER_FRACTION * share)
