"""One stock vLLM engine in a process of its own, which measures on request.

One JSON object per line comes in on stdin and is answered by one line on the descriptor whose
number is the first argument; vLLM writes to stdout.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(int(sys.argv[1]), "w")
    llm: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "start":
                llm = _start(request["arguments"])
                answer: dict[str, Any] = {"kernels": llm.collective_rpc(_kernels)[0]}
            elif request["op"] == "speed":
                answer = _speed(llm, request["prompts"], request["num_tokens"])
            else:
                answer = _likelihoods(llm, request["pairs"])
        except Exception as error:  # noqa: BLE001 - the parent reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _start(arguments: dict[str, Any]) -> Any:
    from vllm import LLM

    return LLM(**arguments)


def _kernels(worker: Any) -> dict[str, int]:
    from paceline.engine.worker.linear_kernels import read_kernels

    return read_kernels(worker)


def _speed(llm: Any, prompts: list[list[int]], num_tokens: int) -> dict[str, Any]:
    """Seconds that each request takes for `num_tokens`, one request at a time."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=num_tokens, ignore_eos=True)
    seconds = []
    for prompt in prompts:
        started = time.perf_counter()
        llm.generate([{"prompt_token_ids": prompt}], parameters, use_tqdm=False)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds}


def _likelihoods(llm: Any, pairs: list[list[list[int]]]) -> dict[str, Any]:
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
    return {"rows": rows}


if __name__ == "__main__":
    main()
