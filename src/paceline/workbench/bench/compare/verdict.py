"""Decide from the rounds so far whether B is faster than A, slower, or no different.

One figure decides; the others are reported with the same confidence, each for itself. B differs if
the interval of the deciding figure excludes zero, and no difference is reported if the interval
lies within the margin. A difference is believed only if A, compared with itself over the same
rounds, shows none. Without enough evidence the verdict is `undecided`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.foundation.results.signed_rank import hodges_lehmann, signed_rank_interval
from paceline.workbench.bench.compare.contrasts import Figure, Round

MAX_FAILED_ROUNDS_FRACTION = 0.1
"""Chosen empirically: rounds with failed requests are left out, and if many are, what remains may
no longer stand for the load."""
_NAMES = {
    Figure.OUTPUT_TOKENS_PER_S: "output tokens/s",
    Figure.TTFT_MS: "time to first token",
    Figure.TPOT_MS: "time per output token",
}


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class RelativeDifference:
    """An estimate of B / A - 1 with its interval; None where unknown."""

    relative: float | None
    low: float | None
    high: float | None
    num_rounds: int

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None

    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def lies_within(self, margin: float) -> bool:
        """Whether the interval lies between -margin and +margin."""
        return (
            self.low is not None
            and self.high is not None
            and -margin < self.low
            and self.high < margin
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """The differences at one look and the verdict on them."""

    verdict: Verdict
    reason: str
    primary: Figure
    error: float
    """Probability that an interval of this look misses the true value."""
    difference: dict[Figure, RelativeDifference]
    aa: dict[Figure, RelativeDifference]
    num_rounds: int
    num_failed_rounds: int


def judge(rounds: Sequence[Round], primary: Figure, margin: float, error: float) -> Judgement:
    """The judgement on the rounds of a look that may err with the probability `error`."""
    whole = [r for r in rounds if r.num_errors == 0]
    difference = {f: _summarize([r.difference(f) for r in whole], error) for f in Figure}
    aa = {f: _summarize([r.aa_difference(f) for r in whole], error) for f in Figure}
    num_failed = len(rounds) - len(whole)
    verdict, reason = _decide(
        difference[primary], aa[primary], primary, margin, num_failed, len(rounds)
    )
    return Judgement(
        verdict, reason, primary, error, difference, aa, num_rounds=len(rounds),
        num_failed_rounds=num_failed,
    )  # fmt: skip


def name_of(figure: Figure) -> str:
    """The figure's name in a sentence."""
    return _NAMES[figure]


def render_difference(difference: RelativeDifference) -> str:
    """Such as `+3.1 % (+1.0 to +5.2)`."""
    if difference.relative is None:
        return "unknown"
    if difference.low is None or difference.high is None:
        return f"{_percent(difference.relative)} % (no interval yet)"
    return (
        f"{_percent(difference.relative)} % "
        f"({_percent(difference.low)} to {_percent(difference.high)})"
    )


def _summarize(logs: Sequence[float | None], error: float) -> RelativeDifference:
    known = [log for log in logs if log is not None]
    if not known or len(known) < len(logs):
        return RelativeDifference(None, None, None, len(known))
    interval = signed_rank_interval(known, error)
    low, high = interval if interval is not None else (None, None)
    return RelativeDifference(
        relative=math.expm1(hodges_lehmann(known)),
        low=None if low is None else math.expm1(low),
        high=None if high is None else math.expm1(high),
        num_rounds=len(known),
    )


def _decide(
    difference: RelativeDifference,
    aa: RelativeDifference,
    primary: Figure,
    margin: float,
    num_failed: int,
    num_rounds: int,
) -> tuple[Verdict, str]:
    name = name_of(primary)
    if num_failed > MAX_FAILED_ROUNDS_FRACTION * num_rounds:
        return Verdict.UNDECIDED, (
            f"requests failed in {num_failed} of {num_rounds} rounds; what remains does not stand "
            "for the load"
        )
    if difference.relative is None:
        return Verdict.UNDECIDED, (
            f"{name} is unknown: a block had no usable answer, or the server reports no usage"
        )
    if not difference.has_interval:
        return Verdict.UNDECIDED, (
            f"{difference.num_rounds} rounds are too few for an interval of this confidence; give "
            "--max-minutes more, or send fewer or shorter requests per block"
        )
    if aa.excludes_zero():
        return Verdict.UNDECIDED, (
            f"A differs from itself: {name} {render_difference(aa)} from its earlier to its "
            "later block of the same requests; the machine or the server is too unsteady for a "
            "comparison"
        )
    text = f"{name} of B against A: {render_difference(difference)}"
    if difference.excludes_zero():
        assert difference.relative is not None
        is_faster = (difference.relative > 0) == primary.more_is_faster
        return (Verdict.FASTER if is_faster else Verdict.SLOWER), text
    if difference.lies_within(margin):
        return Verdict.NO_DIFFERENCE, f"{text}, within the margin of {100 * margin:g} %"
    return Verdict.UNDECIDED, (
        f"{text}; the interval includes 0 and reaches past the margin of {100 * margin:g} %"
    )


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}"
