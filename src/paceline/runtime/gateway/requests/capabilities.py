"""Decide whether a replica can do what a request needs.

Engines refuse, or silently ignore, what they cannot do. A request with such a need goes only to
replicas that can do it; if the model has none, the error names the field that the client must leave
out.
"""

from __future__ import annotations

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.draft_cap import FIELD
from paceline.runtime.gateway.requests.needs import Needs, NeedsKind

_ONE_CHOICE_DIALECTS = frozenset({"llamacpp", "llamacpp-python", "tgi"})
"""Servers that give one answer whatever `n` says: llama.cpp's answered 500 until 2026 ("Only one
completion choice is allowed"), llama-cpp-python and TGI ignore `n`. vLLM, SGLang and TensorRT-LLM
serve it, with and without drafts."""


def can_serve(replica: Replica, needs: Needs) -> bool:
    """Whether the replica can do what is needed, ready or not."""
    return serves_kind(replica, needs.kind)


def serves_kind(replica: Replica, needs: NeedsKind) -> bool:
    """The same for all requests with needs of this kind."""
    if needs.model and not replica.serves(needs.model):
        return False
    if needs.is_undrafted and replica.drafts and not replica.serves_undrafted:
        return False
    if needs.caps_drafts and not replica.honours_draft_caps:
        return False
    return not needs.has_choices or replica.dialect not in _ONE_CHOICE_DIALECTS


def explain_unserved(needs: Needs) -> Problem:
    """The message to the client when no replica of the model, ready or not, can serve it."""
    if needs.undrafted:
        names = " and ".join(needs.undrafted)
        return Problem(
            400,
            f"{names} cannot be used here: every replica of this model drafts speculatively, and "
            "these engines do not apply it while they draft. Leave it out, or have the operator "
            "add a replica that does not draft (--draft none).",
            "unsupported_parameter",
            needs.undrafted[0],
        )
    if needs.caps_drafts:
        return Problem(
            400,
            f"{FIELD} cannot be used here: no replica of this model is known to keep to a "
            "request's limit on draft tokens. Leave it out, or have the operator serve the model "
            "with Paceline's scheduler or without speculation.",
            "unsupported_parameter",
            FIELD,
        )
    return Problem(
        400,
        f"n must be 1 here, not {needs.num_choices}: no replica of this model gives several "
        "answers to one request. Send the request several times.",
        "unsupported_parameter",
        "n",
    )
