"""Report on vLLM's metrics page what a gateway on another machine must know of this server.

vLLM creates the class through the entry point `vllm.stat_logger_plugins`, in the process of the API
server. One gauge says whether the server keeps to its requests' caps on drafts: the gateway may
send requests with a cap only to such a server. Another has the fingerprint of what is served as a
label: only a server with the same one may continue a stream of this one. `governor_page` adds the
metrics of the governor.

Where such a class is installed, vLLM gathers statistics under --disable-log-stats too, without
logging them.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, Gauge
from vllm.v1.metrics.loggers import StatLoggerBase

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.governor_page import show_governor
from paceline.runtime.engine.model_revision import revision_of_folder

logger = logging.getLogger(__name__)

NAME = "paceline_engine_honours_draft_caps"
REVISION_NAME = "paceline_engine_revision_info"
_SCHEDULER = "AdaptiveScheduler"


class DraftCapReport(StatLoggerBase):
    """Whether caps are kept, the revision of the model, and the governor."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        """Set the gauges and start to show the governor; nothing is recorded later."""
        if engine_index == 0:
            _gauge(NAME, "Whether this server keeps to a request's limit on draft tokens.").set(
                float(honours_draft_caps(vllm_config))
            )
            revision = model_revision(vllm_config)
            if revision is not None:
                text = "Fingerprint of model, weights, tokenizer and chat template."
                gauge = _gauge(REVISION_NAME, text, "revision")
                gauge.clear()
                gauge.labels(revision).set(1)
            if is_governed(vllm_config):
                show_governor(vllm_config)

    def record(self, *_: Any, **__: Any) -> None:
        """Nothing: the configuration does not change."""

    def log_engine_initialized(self) -> None:
        """Nothing."""


def honours_draft_caps(vllm_config: Any) -> bool:
    """Whether the scheduler of this configuration enforces caps. Never raises."""
    if vllm_config.speculative_config is None:
        return True
    return is_governed(vllm_config) and not unfit_for("governor", check_hooks("governor"))


def is_governed(vllm_config: Any) -> bool:
    """Whether the configuration asks for a governor of its drafts."""
    if vllm_config.speculative_config is None:
        return False
    scheduler = vllm_config.scheduler_config.scheduler_cls
    name = scheduler if isinstance(scheduler, str) else getattr(scheduler, "__name__", "")
    return name.endswith(_SCHEDULER)


def model_revision(vllm_config: Any) -> str | None:
    """Fingerprint of what is served; None when its files are not on this disk. Never raises."""
    try:
        model = vllm_config.model_config
        folder = _folder(model.model, model.revision)
        tokenizer = _folder(model.tokenizer, model.tokenizer_revision)
        if folder is None or tokenizer is None:
            return None
        overrides = model.hf_overrides
        options = [str(model.dtype), str(model.quantization)]
        if isinstance(overrides, dict):
            options.append(json.dumps(overrides, sort_keys=True, default=str))
        if tokenizer != folder:
            options.append(revision_of_folder(tokenizer))
        return revision_of_folder(folder, options)
    except Exception:  # serving matters more than the fingerprint
        logger.exception("the fingerprint of the model could not be computed")
        return None


def _folder(model: str, revision: str | None) -> Path | None:
    """The folder of a model: as given, or in the cache of huggingface_hub."""
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(found).parent if isinstance(found, str) else None


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    """The gauge; a second engine in one process finds that of the first."""
    known = REGISTRY._names_to_collectors.get(name)
    if isinstance(known, Gauge):
        return known
    return Gauge(name, text, labels, multiprocess_mode="mostrecent")
