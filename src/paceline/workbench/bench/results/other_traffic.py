"""Whether a server's counters also count other clients, by the tokens that this run received.

A step that verifies a draft yields the accepted tokens and one more, and all of them are output
tokens. So in the window of a run that has the server for itself

    accepted tokens + drafts <= output tokens of the run + requests * draft length

where the last term is what a last draft may have beyond the end of its answer. A vLLM also counts
all tokens that it generated; they equal the run's. More than that belongs to other requests, if the
tokens of all requests of the run are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.load.records import RequestRecord
from paceline.workbench.bench.results.speculation import Speculation

_TOLERANCE_FRACTION = 0.02
"""Of the run's tokens: engines and clients may count an end of an answer differently."""


@dataclass(frozen=True, slots=True)
class OtherTraffic:
    """Tokens that the server counted and this run did not receive."""

    counted_tokens: int
    """By the server, in the window; at least."""
    own_tokens: int


def find_other_traffic(
    speculation: Speculation, records: Sequence[RequestRecord], *, is_interrupted: bool = False
) -> OtherTraffic | None:
    """What the counters of the window hold beyond the run's requests; None if they hold no more.

    None, too, if that is not known: without counters, or when the server may have generated tokens
    that the run did not count, for requests that failed, were cancelled or came without usage.
    """
    if speculation.generated_tokens is not None:
        counted = speculation.generated_tokens
    elif speculation.accepted_tokens is not None:
        counted = speculation.accepted_tokens + (speculation.num_drafts or 0)
    else:
        return None
    known = [r.output_tokens for r in records if r.is_ok and r.output_tokens is not None]
    if is_interrupted or len(known) < len(records):
        return None
    own = sum(known)
    beyond_ends = len(records) * _draft_length(speculation)
    if counted <= own + max(beyond_ends, _TOLERANCE_FRACTION * own):
        return None
    return OtherTraffic(counted, own)


def _draft_length(speculation: Speculation) -> int:
    """The longest draft, as far as the counters say."""
    if speculation.accepted_per_position_fraction is not None:
        return len(speculation.accepted_per_position_fraction)
    if not speculation.num_drafts or speculation.drafted_tokens is None:
        return 0
    return -(-speculation.drafted_tokens // speculation.num_drafts)
