"""Record, in the engine's process, how many draft tokens of each request are verified per step."""

from __future__ import annotations

from typing import Any

_lengths: dict[str, list[int]] = {}
"""By request id: one number per step that verifies drafts of the request."""


def install() -> None:
    """Wrap the model runner of this process."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    stock = runner.execute_model

    def execute_model(self: Any, scheduler_output: Any, *arguments: Any, **named: Any) -> Any:
        for request in scheduler_output.scheduled_new_reqs:
            _lengths[request.req_id] = []
        for req_id, drafts in scheduler_output.scheduled_spec_decode_tokens.items():
            _lengths[req_id].append(len(drafts))
        return stock(self, scheduler_output, *arguments, **named)

    runner.execute_model = execute_model


def take() -> list[list[int]]:
    """The lengths per request since the last call, in the order of the prompts.

    vLLM numbers requests as they are given. They may begin in another order: a request with a
    grammar waits until it is compiled.
    """
    lengths = [_lengths[req_id] for req_id in sorted(_lengths, key=_number_of)]
    _lengths.clear()
    return lengths


def _number_of(req_id: str) -> int:
    return int(req_id.partition("-")[0])
