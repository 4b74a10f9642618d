"""The pass that compiles a model on a CPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paceline.engine.fixes.short_warm_up import WRAPPERS

[WARM_UP] = WRAPPERS.methods.values()


@pytest.mark.parametrize(("kv_cache_bytes", "expected"), [(1024**3, 64), (None, 2048)])
def test_it_is_short_where_the_size_of_the_kv_cache_is_given(
    kv_cache_bytes: int | None, expected: int
) -> None:
    """Else vLLM measures the memory of a whole step. A failure changes nothing for good."""
    cache = SimpleNamespace(kv_cache_memory_bytes=kv_cache_bytes)
    model = SimpleNamespace(enforce_eager=True)
    runner = SimpleNamespace(cache_config=cache, model_config=model, max_num_tokens=2048)
    found = []

    def stock(given: SimpleNamespace) -> None:
        found.append(given.max_num_tokens)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        WARM_UP(stock, runner)
    assert (found, runner.max_num_tokens) == ([expected], 2048)
