"""Rates of a replica between two readings of its metrics: acceptance and time per token.

Pure decisions. `load` finds the counters on the metrics page.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class TokenCounters:
    """Counts since the start of the replica; None for those that it does not report."""

    generation_tokens: float | None = None
    inter_token_s: float | None = None
    """Seconds that sequences waited for their next token, summed over all tokens."""
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class TokenRates:
    """Means over the time between two readings; None where they cannot be known."""

    accepted_fraction: float | None = None
    """Accepted draft tokens over draft tokens."""
    seconds_per_token: float | None = None
    """Time from one token of a sequence to its next one."""


def rates_between(
    before: TokenCounters, after: TokenCounters, last: TokenRates | None = None
) -> TokenRates:
    """The rates of the time between two readings; those of `last` where nothing was generated.

    When a counter has fallen, the replica has restarted, and all count from zero.

    >>> before = TokenCounters(100, 1.0, drafted_tokens=40, accepted_tokens=10)
    >>> rates_between(before, TokenCounters(300, 5.0, drafted_tokens=80, accepted_tokens=30))
    TokenRates(accepted_fraction=0.5, seconds_per_token=0.02)
    """
    last = last or TokenRates()
    if _has_restarted(before, after):
        before = TokenCounters()
    accepted = _ratio(
        _increase(before.accepted_tokens, after.accepted_tokens),
        _increase(before.drafted_tokens, after.drafted_tokens),
    )
    seconds = _ratio(
        _increase(before.inter_token_s, after.inter_token_s),
        _increase(before.generation_tokens, after.generation_tokens),
    )
    return TokenRates(
        accepted_fraction=last.accepted_fraction if accepted is None else min(accepted, 1.0),
        seconds_per_token=last.seconds_per_token if seconds is None else seconds,
    )


def _has_restarted(before: TokenCounters, after: TokenCounters) -> bool:
    counters = zip(astuple(before), astuple(after), strict=True)
    return any(a < b for b, a in counters if b is not None and a is not None)


def _increase(before: float | None, after: float | None) -> float | None:
    return None if after is None else after - (before or 0.0)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None for less than one token: a counter of tokens has no fractions, and the ratio of one
    that has could be any number."""
    return part / whole if part is not None and whole is not None and whole >= 1 else None
