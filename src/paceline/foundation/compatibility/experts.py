"""Read from a parsed config.json whether a model is a mixture of experts."""

from __future__ import annotations

from typing import Any

_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Names for the number of experts of a layer, as in vLLM's `ModelArchConfigConvertorBase`."""


def has_experts(config: Any) -> bool:
    """Return whether a number of experts above 0 stands anywhere in the configuration.

    Counts may be nested: in `text_config` of multimodal models, or in a list with one entry per
    layer.

    >>> has_experts({"text_config": {"num_local_experts": 8}})
    True
    """
    if isinstance(config, list):
        return any(has_experts(entry) for entry in config)
    if not isinstance(config, dict):
        return False
    return any(_is_positive(config.get(name)) for name in _COUNTS) or any(
        has_experts(entry) for entry in config.values()
    )


def _is_positive(count: Any) -> bool:
    if isinstance(count, list):
        return any(_is_positive(entry) for entry in count)
    return isinstance(count, int) and count > 0
