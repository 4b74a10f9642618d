"""The pass that compiles a model on a CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from paceline.runtime.engine.fixes import short_warm_up
from paceline.runtime.engine.fixes.short_warm_up import WRAPPERS

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


@pytest.mark.parametrize("is_eager", [True, False])
def test_the_compiler_is_prepared_where_a_model_is_compiled(
    is_eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = []

    @contextlib.contextmanager
    def early_compiler() -> Iterator[None]:
        course.append("prepare")
        yield
        course.append("end")

    monkeypatch.setattr(short_warm_up, "early_compiler", early_compiler)
    runner = SimpleNamespace(
        cache_config=SimpleNamespace(kv_cache_memory_bytes=None),
        model_config=SimpleNamespace(enforce_eager=is_eager),
        max_num_tokens=2048,
    )
    WARM_UP(lambda _: course.append("trace"), runner)
    assert course == (["trace"] if is_eager else ["prepare", "trace", "end"])
