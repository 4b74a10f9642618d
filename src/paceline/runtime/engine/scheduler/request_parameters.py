"""What the sampling parameters of a request say: the cap of its drafts, and its class.

A request caps its drafts through `SamplingParams.extra_args`, 0 switching speculation off:

    {"paceline": {"max_draft_length": 0}}     in-process
    {"paceline_max_draft_length": 0}          over HTTP, as `vllm_xargs`, which cannot hold objects

Its class says how it samples, and whether anything binds its answer:

    greedy, sampled, greedy bound, sampled bound

How often drafts are accepted, and how far the draft model's confidence can be trusted, differs
between these (`governor.acceptance`). An answer is bound where the target's probabilities are
changed in ways that the draft model does not know: by a grammar (structured output, also that of
tools), by penalties, biases or masks. Its verdicts then teach the policy about its own class, and
nothing about requests whose drafts come from the same distribution as the target's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from paceline.runtime.engine.fixes.undrafted_requests import forbids_drafts

logger = logging.getLogger("vllm.paceline.scheduler")

ARGUMENTS = "paceline"
"""The key of `extra_args` with an object of arguments for Paceline."""
CAP = "max_draft_length"
"""The key of the cap in that object."""
FLAT_CAP = f"{ARGUMENTS}_{CAP}"
"""The key of `extra_args` that holds the cap directly."""

UNREADABLE = "sampled bound"
"""The class of a request whose parameters could not be read."""


def cap_of(sampling_params: Any, *, reproducible_seeds: bool = False) -> int | None:
    """Return the most draft tokens that a request allows; None where it sets no cap.

    A request whose drafts could not be verified exactly is capped at 0; with `reproducible_seeds`,
    also one that samples with a seed. A cap that is not a whole number from 0 is logged and taken
    as 0: vLLM cannot refuse a request here, and 0 is within any cap that was meant.
    """
    if sampling_params is None:
        return None
    if forbids_drafts(sampling_params):
        return 0
    if reproducible_seeds and sampling_params.seed is not None and sampling_params.temperature > 0:
        return 0
    extra = sampling_params.extra_args or {}
    arguments = extra.get(ARGUMENTS)
    if isinstance(arguments, Mapping) and CAP in arguments:
        cap = arguments[CAP]
    elif arguments is not None:
        cap = {ARGUMENTS: arguments}  # no cap, but a request that meant one
    else:
        cap = extra.get(FLAT_CAP)
    if cap is None or (type(cap) is int and cap >= 0):
        return cap
    logger.warning(
        "Governor: a request's cap of the draft length is %r; it must be a whole number from 0 "
        '(off), as extra_args={"%s": {"%s": 0}}. The request is served without speculation.',
        cap,
        ARGUMENTS,
        CAP,
    )
    return 0


def class_of(sampling_params: Any) -> str:
    if sampling_params is None:
        return "greedy"  # a pooling request, which produces no tokens
    name = "sampled" if sampling_params.temperature > 0 else "greedy"
    is_bound = (
        sampling_params.structured_outputs is not None
        or sampling_params.repetition_penalty != 1
        or sampling_params.presence_penalty
        or sampling_params.frequency_penalty
        or sampling_params.logit_bias
        or sampling_params.allowed_token_ids
        or sampling_params.bad_words
        or sampling_params.min_tokens
    )
    return f"{name} bound" if is_bound else name
