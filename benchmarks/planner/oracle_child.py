"""What others compute of the same configurations; run by `oracles.py`, one JSON object in and out.

PYTHON oracle_child.py cache    in the oracles' environment: KV cache by kvfit and llm-d-planner
PYTHON oracle_child.py params   in Paceline's environment: parameters by transformers, on torch's
                                meta device
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Any

BFLOAT16_BYTES = 2


def cache(requests: list[dict[str, Any]]) -> dict[str, Any]:
    """KV bytes per token; None where an oracle refuses the architecture."""
    return {
        "versions": {name: metadata.version(name) for name in ("kvfit", "llm-d-planner")},
        "models": {
            request["name"]: {
                "kvfit": _kvfit(request),
                "llm_d_planner": _llm_d_planner(request),
            }
            for request in requests
        },
    }


def _kvfit(request: dict[str, Any]) -> float | None:
    from kvfit import UnsupportedArchitecture, estimate_cache

    tokens = request["context_tokens"]
    try:
        estimate = estimate_cache(
            request["config"],
            context_tokens=tokens,
            kv_bytes=BFLOAT16_BYTES,
            index_bytes=BFLOAT16_BYTES,
        )
    except UnsupportedArchitecture:
        return None
    return sum(component.bytes for component in estimate.components) / tokens


def _llm_d_planner(request: dict[str, Any]) -> float | None:
    from planner.capacity_planner import KVCacheDetail
    from transformers import AutoConfig

    config = dict(request["config"])
    detail = KVCacheDetail(
        request["name"], AutoConfig.for_model(config.pop("model_type"), **config), context_len=1
    )
    return float(detail.per_token_memory_bytes)


def params(requests: list[dict[str, Any]]) -> dict[str, Any]:
    """Parameters of the model that transformers builds, shared tensors counted once."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    found = {}
    for request in requests:
        config = dict(request["config"])
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                AutoConfig.for_model(config.pop("model_type"), **config)
            )
        found[request["name"]] = {
            "transformers": sum(tensor.numel() for tensor in model.parameters())
        }
    return {"versions": {"transformers": metadata.version("transformers")}, "models": found}


if __name__ == "__main__":
    run = {"cache": cache, "params": params}[sys.argv[1]]
    answer = json.dumps(run(json.load(sys.stdin)))
    print(answer)
