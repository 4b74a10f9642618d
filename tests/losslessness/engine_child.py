"""The side of an engine host that runs vLLM: read requests from stdin, answer each with a line."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, TextIO

_METRICS = ("spec_decode", "num_preemptions", "prefix_cache_hits")


def serve(answers: TextIO) -> None:
    """Carry out one JSON request per line of stdin until it ends.

    An exception is the answer `{"error": …}`; the engine host raises it in the test.
    """
    llm: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "start":
                llm = _start(request["llm"], request["fault"], request["packages"])
                answer: dict[str, Any] = {}
            elif request["op"] == "generate":
                answer = {"outputs": _generate(llm, request["prompts"], request["sampling"])}
            elif request["op"] == "tokenize":
                tokenizer = llm.get_tokenizer()
                answer = {"token_ids": [tokenizer.encode(text) for text in request["texts"]]}
            elif request["op"] == "call":
                answer = {"result": _named(request["function"])(*request["arguments"])}
            else:
                answer = {"metrics": _metrics(llm)}
        except Exception as error:  # noqa: BLE001 - the engine host raises it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _start(arguments: dict[str, Any], fault: str | None, packages: str | None) -> Any:
    if packages is not None:
        sys.path.insert(0, packages)
        importlib.invalidate_caches()
    if fault is not None:
        _named(fault)()
    from vllm import LLM

    return LLM(**arguments)


def _named(function: str) -> Any:
    """The function of a name `module:function`."""
    module_name, _, function_name = function.partition(":")
    return getattr(importlib.import_module(module_name), function_name)


def _generate(llm: Any, prompts: list[Any], sampling: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from vllm import SamplingParams

    inputs = [p if isinstance(p, str) else {"prompt_token_ids": p} for p in prompts]
    answers = []
    for one in sampling:
        if "logit_bias" in one:  # JSON has no whole numbers as keys
            one["logit_bias"] = {int(token): bias for token, bias in one["logit_bias"].items()}
    parameters = [SamplingParams(**_with_grammar(one)) for one in sampling]
    for output in llm.generate(inputs, parameters, use_tqdm=False):
        completion = output.outputs[0]
        answers.append(
            {
                "prompt_token_ids": list(output.prompt_token_ids),
                "token_ids": list(completion.token_ids),
                "text": completion.text,
                "logprobs": _as_numbers(completion.logprobs),
                "prompt_logprobs": _as_numbers(output.prompt_logprobs),
            }
        )
    return answers


def _with_grammar(parameters: dict[str, Any]) -> dict[str, Any]:
    from vllm.sampling_params import StructuredOutputsParams

    if "structured_outputs" not in parameters:
        return parameters
    grammar = StructuredOutputsParams(**parameters["structured_outputs"])
    return {**parameters, "structured_outputs": grammar}


def _as_numbers(positions: Any) -> Any:
    if positions is None:
        return None
    return [
        None if known is None else {token_id: entry.logprob for token_id, entry in known.items()}
        for known in positions
    ]


def _metrics(llm: Any) -> dict[str, Any]:
    return {
        metric.name: getattr(metric, "value", getattr(metric, "values", None))
        for metric in llm.get_metrics()
        if any(name in metric.name for name in _METRICS)
    }
