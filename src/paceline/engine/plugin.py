"""What vLLM's processes load by themselves when Paceline is installed.

vLLM calls `register` through the entry point `vllm.general_plugins` in every process: front end,
engine core, each worker, under whatever executor. It applies the repairs where they are
needed (see `sampler_repair`, `generator_repair`), spares steps without drafts what they do not
need (`resting_draft`, `plain_sampling`), lets the drafter be judged meanwhile (`replay_scoring_pass`,
`first_token_pass`), and nothing else; the scheduler comes by --scheduler-cls.
vLLM's own `VLLM_PLUGINS` says which plugins load; `VLLM_PLUGINS=""` loads none.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("vllm.paceline.plugin")


def register() -> None:
    """Apply what belongs in every vLLM process. Never raises; twice is harmless."""
    try:
        from vllm.platforms import current_platform

        from paceline.engine import (
            core_environment,
            first_token_pass,
            generator_repair,
            lifeline,
            numba_pool,
            plain_sampling,
            replay_scoring_pass,
            resting_draft,
            sampler_repair,
        )

        lifeline.die_with_parent()
        core_environment.pass_on()
        if current_platform.is_cpu():
            numba_pool.choose()
        sampler_repair.apply()
        generator_repair.apply()
        resting_draft.apply()
        plain_sampling.apply()
        replay_scoring_pass.apply()
        first_token_pass.apply()
    except Exception:  # vLLM calls plugins unguarded, and must serve on without us
        logger.exception("Paceline: the plugin steps aside; vLLM runs as it is")
