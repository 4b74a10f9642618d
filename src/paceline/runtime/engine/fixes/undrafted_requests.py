"""Serve `min_p` and `logit_bias` in an engine that speculates, without drafts for these requests.

vLLM 0.32.0 refuses both fields when it is configured to speculate, because its rejection sampler
applies neither to the drafts. A request without drafts needs no rejection sampler: its one row of
logits goes through the plain sampler, which can apply every processor, also in a step that verifies
the drafts of other requests. Three places work together:

- the front end accepts the fields (this module),
- `AdaptiveScheduler` schedules no drafts for such a request (`forbids_drafts`),
- the workers have both processors (`undrafted_processors`).

The front end accepts them only under `AdaptiveScheduler`, on CPUs, and if every hook of the three
places fits. It then also refuses `logprob_token_ids`, which vLLM accepts: its rejection sampler
does not return them, and fails, ending the engine, if another request of the batch asks for
`logprobs`.
"""

from __future__ import annotations

import copy
import logging
import sys
from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.wrapping import wrap_once

logger = logging.getLogger("vllm.paceline.undrafted_requests")

_PART = "undrafted_requests"
_SERVED = "paceline_serves_undrafted"
"""The attribute of a speculative configuration whose engine serves these requests."""
_SCHEDULERS = (
    "paceline.engine.AdaptiveScheduler",
    "paceline.runtime.engine.scheduler.adaptive_scheduler.AdaptiveScheduler",
)
_NEEDED_PARTS = ("governor", _PART, "plain_sampling")


def forbids_drafts(sampling_params: Any) -> bool:
    """Return whether drafts of this request could not be verified exactly.

    True also for a `min_p` below vLLM's own threshold of 1e-5: the plain sampler applies it.
    """
    return sampling_params is not None and bool(
        sampling_params.min_p > 0 or sampling_params.logit_bias
    )


def apply() -> bool:
    """Wrap the front end's validation; return whether it is wrapped. Idempotent.

    Does nothing on platforms other than CPUs.
    """
    from vllm.platforms import current_platform

    arguments = sys.modules.get("vllm.engine.arg_utils")
    if arguments is None or not current_platform.is_cpu():
        return False  # only a front end has loaded this module
    misfit = unfit_for(_PART, check_hooks(_PART))
    if misfit:
        logger.warning(
            "Paceline: min_p and logit_bias are refused under speculation, as by vLLM alone, "
            "because this vLLM does not fit its hooks: %s",
            misfit,
        )
        return False
    from vllm.sampling_params import SamplingParams

    wrap_once(arguments.EngineArgs, "create_engine_config", _PART, _create_marked)
    wrap_once(SamplingParams, "_validate_spec_decode", _PART, _validate)
    return True


def _create_marked(stock: Any, *arguments: Any, **named: Any) -> Any:
    """Create the configuration. The mark travels with it to other processes."""
    vllm_config = stock(*arguments, **named)
    if _serves_undrafted(vllm_config):
        setattr(vllm_config.speculative_config, _SERVED, True)
    return vllm_config


def _serves_undrafted(vllm_config: Any) -> bool:
    scheduler = vllm_config.scheduler_config.scheduler_cls
    if isinstance(scheduler, type):
        scheduler = f"{scheduler.__module__}.{scheduler.__qualname__}"
    if vllm_config.speculative_config is None or scheduler not in _SCHEDULERS:
        return False
    found = check_hooks(*_NEEDED_PARTS)
    return not any(unfit_for(part, found) for part in _NEEDED_PARTS)


def _validate(stock: Any, params: Any, speculative_config: Any) -> None:
    """Check a request's fields against speculation."""
    if not getattr(speculative_config, _SERVED, False):
        stock(params, speculative_config)
        return
    if params.logprob_token_ids is not None:
        from vllm.exceptions import VLLMValidationError

        raise VLLMValidationError(
            "logprob_token_ids cannot be used with speculative decoding; leave it out, or "
            "serve without --speculative-config.",
            parameter="logprob_token_ids",
        )
    # vLLM's own check, of everything but the two fields that are served.
    others = copy.copy(params)
    others.min_p = 0.0
    others.logit_bias = None
    stock(others, speculative_config)
