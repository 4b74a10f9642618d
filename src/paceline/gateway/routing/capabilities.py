"""Which replicas can serve this request as asked?

Engines refuse or silently ignore what they cannot do. A request that needs such a thing is kept
for the replicas that can do it; where a model has none, the client is told which field to leave
out. Decisions on values, to be asked before the choice among replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.gateway.http.errors import Problem
from paceline.gateway.replicas import Replica

_MIN_P_IGNORED = 1e-5
"""Up to here vLLM takes `min_p` as not given, also while it drafts (`_SAMPLING_EPS` in its
`sampling_params.py`)."""

_ONE_CHOICE_DIALECTS = frozenset({"llamacpp", "tgi"})
"""Servers that give one answer whatever `n` says: llama.cpp's answers 500 ("Only one completion
choice is allowed"), TGI marks `n` as unused. vLLM, SGLang and TensorRT-LLM serve it, with and
without drafts."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a replica must be able to do for one request."""

    undrafted: tuple[str, ...] = ()
    """Fields of the request that an engine takes only while it drafts nothing."""
    num_choices: int = 1
    """Answers to one prompt."""


def needs_of(parsed: Mapping[str, object], num_choices: int) -> Needs:
    """What this decoded body asks of a replica."""
    return Needs(_undrafted_fields(parsed), num_choices)


def can_serve(replica: Replica, needs: Needs) -> bool:
    """Whether the replica can do what is needed, ready or not."""
    if needs.undrafted and replica.drafts:
        return False
    return needs.num_choices == 1 or replica.dialect not in _ONE_CHOICE_DIALECTS


def explain_unserved(needs: Needs) -> Problem:
    """What to tell the client when no replica of the model, ready or not, can serve it."""
    if needs.undrafted:
        names = " and ".join(needs.undrafted)
        return Problem(
            400,
            f"{names} cannot be used here: every replica of this model drafts speculatively, and "
            "an engine that drafts cannot apply it. Leave it out, or have the operator add a "
            "replica that does not draft (--draft none).",
            "unsupported_parameter",
            needs.undrafted[0],
        )
    return Problem(
        400,
        f"n must be 1 here, not {needs.num_choices}: no replica of this model gives several "
        "answers to one request. Send the request several times.",
        "unsupported_parameter",
        "n",
    )


def _undrafted_fields(parsed: Mapping[str, object]) -> tuple[str, ...]:
    """`min_p` and `logit_bias`, where they have an effect."""
    names = []
    min_p = parsed.get("min_p")
    if isinstance(min_p, int | float) and min_p > _MIN_P_IGNORED:
        names.append("min_p")
    if parsed.get("logit_bias"):
        names.append("logit_bias")
    return tuple(names)
