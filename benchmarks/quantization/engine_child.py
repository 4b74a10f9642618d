"""One stock vLLM engine in a process of its own, which answers on request.

One JSON object per line comes in on stdin and is answered by one line on the descriptor whose
number is the first argument; vLLM writes to stdout. An error is an answer too, so that the reason
for which vLLM refuses a format reaches the parent word by word.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import Any

_SHOWN_OPERATORS = 12
_NUMBERS = itertools.count()


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(int(sys.argv[1]), "w")
    llm: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        operation = request.pop("op")
        try:
            if operation == "start":
                llm, answer = _start(request["arguments"])
            elif operation == "generate":
                answer = {"requests": _generate(llm, **request)}
            elif operation == "profile":
                answer = _profile(llm, **request)
            else:
                answer = {"rows": _likelihoods(llm, **request)}
        except Exception as error:  # noqa: BLE001 - the parent reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _start(arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The engine, and what it runs: kernels by layer, format and tokens of the KV cache.

    `compilation_mode` is vLLM's name of it: `NONE` if the model is not compiled. `modified_by` has
    Paceline's modules in the process before kernels are read; none in stock vLLM.
    """
    from vllm import LLM

    started = time.perf_counter()
    llm = LLM(**arguments)
    load_s = time.perf_counter() - started
    modified_by = sorted(name for name in sys.modules if name.startswith("paceline"))
    config = llm.llm_engine.vllm_config
    cache = config.cache_config
    return llm, {
        "load_s": load_s,
        "compilation_mode": config.compilation_config.mode.name,
        "modified_by": modified_by,
        "kernels": llm.collective_rpc(_kernels)[0],
        "kv_cache_dtype": llm.collective_rpc(_kv_cache_dtype)[0],
        "kv_cache_tokens": cache.num_gpu_blocks * cache.block_size,
    }


def _kernels(worker: Any) -> dict[str, int]:
    from paceline.runtime.engine.compat.linear_kernels import read_kernels

    return read_kernels(worker)


def _kv_cache_dtype(worker: Any) -> str:
    return str(worker.model_runner.kv_caches[0].dtype).removeprefix("torch.")


def _generate(llm: Any, prompts: list[list[int]], num_tokens: int) -> list[dict[str, Any]]:
    """Answer one prompt after another, greedily, with `num_tokens` tokens each.

    Per request: the tokens, seconds to the first one and to the last, and steps that gave tokens.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    parameters = SamplingParams(
        temperature=0.0,
        max_tokens=num_tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
    engine, found = llm.llm_engine, []
    for prompt in prompts:
        tokens: list[int] = []
        steps, first_s = 0, 0.0
        started = time.perf_counter()
        engine.add_request(f"turn-{next(_NUMBERS)}", {"prompt_token_ids": prompt}, parameters)
        while engine.has_unfinished_requests():
            for output in engine.step():
                new = output.outputs[0].token_ids
                steps += bool(new)
                first_s = first_s or time.perf_counter() - started
                tokens.extend(new)
        seconds = time.perf_counter() - started
        found.append({"tokens": tokens, "first_s": first_s, "seconds": seconds, "steps": steps})
    return found


def _likelihoods(llm: Any, pairs: list[list[list[int]]]) -> list[dict[str, Any]]:
    """For each (prompt, answer): nats of the answer's tokens, and how many are the most likely."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1)
    inputs = [{"prompt_token_ids": prompt + answer} for prompt, answer in pairs]
    rows = []
    for (prompt, answer), output in zip(
        pairs, llm.generate(inputs, parameters, use_tqdm=False), strict=True
    ):
        known = output.prompt_logprobs[len(prompt) :]
        chosen = [entry[token] for entry, token in zip(known, answer, strict=True)]
        rows.append(
            {
                "nats": -sum(entry.logprob for entry in chosen),
                "tokens": len(answer),
                "first": sum(entry.rank == 1 for entry in chosen),
            }
        )
    return rows


def _profile(llm: Any, prompts: list[list[int]], num_tokens: int) -> dict[str, Any]:
    """The operators that take most processor time while answering; `self_s` without callees."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        answered = _generate(llm, prompts, num_tokens)
    averages = recorded.key_averages()
    averages.sort(key=lambda entry: -entry.self_cpu_time_total)
    return {
        "seconds": sum(request["seconds"] for request in answered),
        "operators_s": sum(entry.self_cpu_time_total for entry in averages) / 1e6,
        "operators": [
            {"name": entry.key, "calls": entry.count, "self_s": entry.self_cpu_time_total / 1e6}
            for entry in averages[:_SHOWN_OPERATORS]
        ],
    }


if __name__ == "__main__":
    main()
