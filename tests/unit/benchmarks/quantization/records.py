"""Records of the benchmark of number formats, made up with round figures."""

from __future__ import annotations

from typing import Any


def turn(variant: str, number: int, seconds: float, *, batch: int = 0, steps: int = 10) -> Any:
    """A turn of one request with ten tokens."""
    request = {"num_tokens": 10, "seconds": seconds, "first_s": seconds / 10, "steps": steps}
    return {
        "model": "m", "variant": variant, "batch": batch, "round": number, "position": 0,
        "requests": [request],
    }  # fmt: skip


def load(variant: str, *, nats: float = 4.0, answer: tuple[int, ...] = (1, 2, 3, 4)) -> Any:
    """A variant that vLLM loaded as the gate says: four tokens of reference answers."""
    return {
        "model": "m",
        "variant": variant,
        "dtype": "float32",
        "weights_bytes": 2_000_000,
        "memory_bytes": 1000,
        "gate": {"refusal": ""},
        "outcome": {"kernels": {"K": 3}, "kv_cache_tokens": 5000},
        "likelihoods": [{"nats": nats, "tokens": 4, "first": 3}],
        "answers": [list(answer)],
        "disagreement": "",
    }
