"""The buffer of a pipeline stage that was not warmed up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from paceline.runtime.engine.fixes.pipeline_stages import _create_buffer_and_copy


def make_runner(buffer: Any) -> Any:
    """A model runner that records with which sizes its model is asked for a buffer."""
    created: list[dict[str, Any]] = []

    def make_empty_intermediate_tensors(**given: Any) -> str:
        created.append(given)
        return "new buffer"

    return SimpleNamespace(
        intermediate_tensors=buffer,
        model=SimpleNamespace(make_empty_intermediate_tensors=make_empty_intermediate_tensors),
        max_num_tokens=4096,
        model_config=SimpleNamespace(dtype="float32"),
        device="cpu",
        created=created,
    )


def copy(self: Any, num_tokens: int, intermediate_tensors: Any, sync_self: bool) -> Any:
    assert self.intermediate_tensors is not None
    return self.intermediate_tensors, num_tokens, intermediate_tensors, sync_self


def test_the_first_step_creates_the_buffer_for_the_largest_batch() -> None:
    runner = make_runner(None)
    copied = _create_buffer_and_copy(copy, runner, 3, "received", True)
    assert copied == ("new buffer", 3, "received", True)
    assert runner.created == [{"batch_size": 4096, "dtype": "float32", "device": "cpu"}]


def test_a_buffer_that_is_there_is_kept() -> None:
    runner = make_runner("warmed up")
    assert _create_buffer_and_copy(copy, runner, 3, "received", True)[0] == "warmed up"
    assert runner.created == []
