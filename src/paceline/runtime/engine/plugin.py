"""The plugin that vLLM loads in each of its processes when Paceline is installed.

vLLM calls `register` through the entry point `vllm.general_plugins` in the front end, the engine
core and every worker, whatever the executor. `register` applies the fixes for vLLM's CPU sampling
(`fixes`), wraps the worker's model runner (`worker`) and refuses the Rust front end. It does not
choose the scheduler: that is `--scheduler-cls`. vLLM's own `VLLM_PLUGINS` selects the plugins to
load; `VLLM_PLUGINS=""` loads none.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("vllm.paceline.plugin")


def register() -> None:
    """Apply everything that belongs in every vLLM process. Never raises; idempotent."""
    try:
        from vllm.platforms import current_platform

        from paceline.runtime.engine import rust_front_end
        from paceline.runtime.engine.fixes import (
            compiled_model_cache,
            cpu_draws,
            cpu_sampler,
            cpu_top_p,
            min_tokens,
            numba_pool,
            pipeline_stages,
            seeded_generator,
            short_warm_up,
            thinking_budget,
            undrafted_processors,
            undrafted_requests,
        )
        from paceline.runtime.engine.launch import environment
        from paceline.runtime.engine.process import parent_watch
        from paceline.runtime.engine.worker import (
            deferred_drafts,
            early_stop,
            plain_sampling,
            resting_draft,
        )

        parent_watch.die_with_parent()
        environment.unwrap_engine_core_variables()
        if current_platform.is_cpu():
            numba_pool.choose()
            compiled_model_cache.apply()
            pipeline_stages.WRAPPERS.register()
            cpu_draws.WRAPPERS.register()
            cpu_top_p.WRAPPERS.register()
            short_warm_up.WRAPPERS.register()
        cpu_sampler.apply()
        seeded_generator.WRAPPERS.register()
        thinking_budget.WRAPPERS.register()
        min_tokens.WRAPPERS.register()
        undrafted_processors.apply()
        undrafted_requests.apply()
        resting_draft.WRAPPERS.register()
        plain_sampling.WRAPPERS.register()
        early_stop.WRAPPERS.register()
        deferred_drafts.WRAPPERS.register()
        rust_front_end.apply()
    except Exception:  # vLLM does not guard plugin calls; it must run without Paceline too
        logger.exception("Paceline: the plugin failed to load; vLLM runs unchanged")
