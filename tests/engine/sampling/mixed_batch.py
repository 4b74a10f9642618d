"""A batch with requests of every kind, and what an engine answers to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from paceline.demo import target_path

MAX_TOKENS = 40
START, END = "<|im_start|>", "# done\n"
"""What this engine takes for the two ends of a reasoning section."""
WORDS = r"([a-z]{2,9}, ){4}[a-z]{2,9}\."
GREEDY = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "ignore_eos": True}
BUDGETS = {"short budget": 3, "long budget": 11}
CAPS = {
    "greedy": (0, 1),
    "short budget": (0,),
    "long budget": (1,),
    "grammar": (0,),
    "penalties": (2,),
    "logprobs": (0,),
    "bad words": (1,),
    "allowed ids": (0,),
    "seed": (0,),
}
"""Kinds that are also in the batch with a cap of the draft length, as `"KIND, cap N"`."""
UNDRAFTED = ("min_p", "logit bias")
"""Kinds that are served without drafts, whatever the length."""

Answers = dict[str, list[dict[str, Any]]]
"""The answers by kind, one per prompt."""


@dataclass(frozen=True)
class Batch:
    """Requests by kind; each kind has one request per prompt."""

    kinds: dict[str, dict[str, Any]]
    """The parameters of each kind."""
    prompts: list[list[int]]
    end_ids: list[int]
    bad_sequences: list[list[int]]
    """What vLLM prohibits for the bad words."""

    def run(self, host: EngineHost) -> Answers:
        """Serve all requests in one batch."""
        answers = host.generate(
            [prompt for _ in self.kinds for prompt in self.prompts],
            each=[{**GREEDY, **one} for one in self.kinds.values() for _ in self.prompts],
        )
        return self.by_kind(answers)

    def by_kind(self, values: list[Any]) -> dict[str, list[Any]]:
        """Values in the order of the requests, by kind."""
        size = len(self.prompts)
        assert len(values) == size * len(self.kinds)
        return {kind: values[i * size : (i + 1) * size] for i, kind in enumerate(self.kinds)}


def make_batch(host: EngineHost) -> Batch:
    """Two prompts, whose reasoning section is open, in every kind."""
    texts = [text[-120:] for text in stdlib_prompts(2)]
    start_ids, end_ids = host.tokenize([START, END])
    prompts = [[*ids, *start_ids] for ids in host.tokenize(texts)]
    plain = host.generate(prompts, **GREEDY)
    likely = plain[0]["token_ids"]
    unlikely = [token for token in range(300, 900) if token not in likely]
    words = [
        word
        for answer in plain
        for word in list(dict.fromkeys(re.findall(r" \w+", answer["text"])))[:4]
    ]
    biased = [token for answer in plain for token in answer["token_ids"][:5]]
    seeded = {"temperature": 1.0, "top_p": 0.95, "seed": 11}
    kinds: dict[str, dict[str, Any]] = {
        "greedy": {},
        **{kind: {"thinking_token_budget": budget} for kind, budget in BUDGETS.items()},
        "grammar": {"structured_outputs": {"regex": WORDS}, "ignore_eos": False},
        "penalties": {
            "repetition_penalty": 1.2,
            "frequency_penalty": 0.4,
            "presence_penalty": 0.3,
        },
        "logprobs": {"logprobs": 3},
        "bad words": {"bad_words": words},
        "allowed ids": {"allowed_token_ids": unlikely},
        "stop": {"stop_token_ids": likely[4:9]},
        "least": {"stop_token_ids": likely[4:9], "min_tokens": 10},
        "seed": seeded,
        "min_p": {**seeded, "min_p": 0.3},
        "logit bias": {"logit_bias": dict.fromkeys(biased, -100.0)},
    }
    kinds |= {
        capped(kind, cap): {**kinds[kind], "extra_args": _as_argument(cap)}
        for kind, caps in CAPS.items()
        for cap in caps
    }
    sequences = host.call("losslessness.bad_words:token_sequences", str(target_path()), words)
    return Batch(kinds, prompts, end_ids, sequences)


def capped(kind: str, cap: int) -> str:
    """The name of a kind with a cap."""
    return f"{kind}, cap {cap}"


def uncapped(kind: str) -> str:
    """The kind without its cap; an engine without speculation answers both alike."""
    return kind.partition(", cap ")[0]


def cap_of(kind: str) -> int | None:
    """The most draft tokens that a request of this kind may get in a step; None without a limit."""
    if kind in UNDRAFTED:
        return 0
    cap = kind.partition(", cap ")[2]
    return int(cap) if cap else None


def _as_argument(cap: int) -> dict[str, Any]:
    """In-process for even caps, as over HTTP (`vllm_xargs`) for odd ones."""
    if cap % 2:
        return {"paceline_max_draft_length": cap}
    return {"paceline": {"max_draft_length": cap}}
