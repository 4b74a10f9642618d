"""`Needs`: what a replica must be able to do to serve one request, read from its body.

Engines refuse, or silently ignore, what they cannot do. `capabilities` compares these needs
with what each replica can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from paceline.runtime.gateway.requests.draft_cap import draft_cap_of

_MIN_P_IGNORED = 1e-5
"""vLLM treats a `min_p` up to this as not given, also while it drafts (`_SAMPLING_EPS` in its
`sampling_params.py`)."""


class NeedsKind(NamedTuple):
    """What decides which replicas can serve a request. Hashable: admission queues by it."""

    is_undrafted: bool = False
    """Some fields are accepted only without speculative decoding."""
    has_choices: bool = False
    """Several answers to one prompt."""
    caps_drafts: bool = False
    """The request limits its draft tokens."""
    model: str = ""
    """A model id that not every replica of the queue serves; empty for one that all serve."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a replica must be able to do for one request."""

    undrafted: tuple[str, ...] = ()
    """Fields of the request that an engine accepts only without speculative decoding."""
    num_choices: int = 1
    """Requested answers to one prompt."""
    caps_drafts: bool = False
    """Whether the request limits its draft tokens."""
    model: str = ""
    """A model id that not every replica of the queue serves, such as an adapter that only some have
    loaded; empty for one that all serve."""

    @property
    def kind(self) -> NeedsKind:
        return NeedsKind(bool(self.undrafted), self.num_choices > 1, self.caps_drafts, self.model)


def needs_of(parsed: Mapping[str, object], num_choices: int) -> Needs:
    """What this decoded body requires of a replica."""
    return Needs(_undrafted_fields(parsed), num_choices, draft_cap_of(parsed) is not None)


def _undrafted_fields(parsed: Mapping[str, object]) -> tuple[str, ...]:
    """`min_p` and `logit_bias`, where they have an effect."""
    names = []
    min_p = parsed.get("min_p")
    if isinstance(min_p, int | float) and min_p > _MIN_P_IGNORED:
        names.append("min_p")
    if parsed.get("logit_bias"):
        names.append("logit_bias")
    return tuple(names)
