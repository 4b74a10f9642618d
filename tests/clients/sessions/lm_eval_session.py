"""A session of lm-evaluation-harness: its client of servers with /v1/completions.

The tasks and their data sets are left out: the harness makes such requests from them. A token is a
byte, as for the mock server, in place of a tokenizer from a model's folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import SimpleNamespace

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from scored_texts import END_TOKEN, MAX_LENGTH, NUM_TOKENS, PAIRS, PROMPTS, ROLLING
from steps import API_KEY, BASE_URL, MODEL, run

os.environ["OPENAI_API_KEY"] = API_KEY


class ByteModel(LocalCompletionsAPI):
    def __init__(self, batch_size: int, num_concurrent: int) -> None:
        super().__init__(
            model=MODEL,
            base_url=f"{BASE_URL}/completions",
            tokenizer_backend=None,
            batch_size=batch_size,
            num_concurrent=num_concurrent,
            max_length=MAX_LENGTH if batch_size == 1 else 2048,
            max_retries=1,
            eos_string="<|end|>",
        )
        self.tokenizer = SimpleNamespace(eot_token=END_TOKEN)
        self.tokenized_requests = True

    def tok_encode(self, string: str | Sequence[str], **_: object) -> list[int] | list[list[int]]:
        if isinstance(string, str):
            return list(string.encode())
        return [list(text.encode()) for text in string]


def instances(kind: str, arguments: Sequence[tuple[object, ...]]) -> list[Instance]:
    return [
        Instance(request_type=kind, doc={}, arguments=one, idx=index)
        for index, one in enumerate(arguments)
    ]


def scored(num_concurrent: int) -> object:
    return ByteModel(100, num_concurrent).loglikelihood(instances("loglikelihood", PAIRS))


def in_batches() -> object:
    return scored(1)


def in_concurrent_batches() -> object:
    return scored(4)


def rolling() -> object:
    return ByteModel(1, 1).loglikelihood_rolling(instances("loglikelihood_rolling", [(ROLLING,)]))


def generated(num_concurrent: int) -> object:
    settings = {"until": ["Question:"], "do_sample": False, "max_gen_toks": NUM_TOKENS}
    arguments = [(prompt, dict(settings)) for prompt in PROMPTS]
    return ByteModel(128, num_concurrent).generate_until(instances("generate_until", arguments))


def answers() -> object:
    return generated(1)


def concurrent_answers() -> object:
    return generated(4)


run(
    {
        step.__name__: step
        for step in (in_batches, in_concurrent_batches, rolling, answers, concurrent_answers)
    }
)
