"""Write prompts for SmolLM2: most of them by the model itself.

    PYTHONPATH=tools python -m smollm2_recipe.prompts OUT.jsonl [--count N]

An instruct model that is given only the opening of a user's turn writes one (Magpie, Xu et al.,
arXiv 2406.08464), and after an answer the next one. The rest are tasks on the documentation of
installed packages (`tasks`). Runs in vLLM, some minutes on two cores; the same seed gives the same
prompts on the same machine.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paceline.foundation.models.answers import load_target
from paceline.foundation.models.models import choose_device
from paceline.foundation.named_models import target_of
from smollm2_recipe.tasks import (
    about_code,
    about_data,
    about_texts,
    kind_about_text,
    passages,
)

_SEED = 0
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_OPENING = f"<|im_start|>system\n{_SYSTEM}<|im_end|>\n<|im_start|>user\n"
_MIN_CHARACTERS = 12
_MAX_ANSWER_TOKENS = 256
_MAX_POSITIONS = 2048
_OPEN, _NEXT, _TEXT, _CODE = 0.55, 0.15, 0.15, 0.1
"""Shares of the prompts: opening of a chat, second turn, on a text, on code; the rest is JSON."""


def write_prompts(out: Path, count: int) -> None:
    """Write about `count` prompts, a line each, as for `paceline draft train`."""
    draw = random.Random(_SEED)
    target, device = Path(target_of("smollm2")), choose_device("auto")
    model = load_target("vllm", target, device, _MAX_POSITIONS, _SEED)
    num_open, num_next = int(_OPEN * count), int(_NEXT * count)
    written = dict.fromkeys(_turns(model, [_OPENING] * (num_open + num_next)))
    turns = [turn for turn in written if _is_turn(turn)]
    num_data = int((1 - _OPEN - _NEXT - _TEXT - _CODE) * count)
    about = list(about_texts(draw, passages(), int(_TEXT * count)))
    chats = {
        "chat": _single(turns[:num_open]),
        "second turn": _second_turns(model, turns[num_open:]),
        **{
            kind: _single([text for text in about if kind_about_text(text) == kind])
            for kind in ("text", "quote and edit")
        },
        "code": _single(about_code(draw, int(_CODE * count))),
        "data": _single(about_data(draw, num_data)),
    }
    lines = [
        {"category": category, "messages": chat, "max_tokens": _MAX_ANSWER_TOKENS}
        for category, of_category in chats.items()
        for chat in of_category
    ]
    draw.shuffle(lines)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} prompts in {out}")


def _turns(model: Any, openings: list[str]) -> list[str]:
    """What the model writes as the user's turn after each opening."""
    from vllm import SamplingParams

    # Not top_p: without Paceline's plugin, vLLM sorts the whole vocabulary for it.
    sampling = SamplingParams(temperature=1.0, min_p=0.05, max_tokens=160, stop=["<|im_end|>"])
    return [one.outputs[0].text.strip() for one in model.generate(openings, sampling)]


def _single(texts: Iterable[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


def _is_turn(text: str) -> bool:
    return len(text) >= _MIN_CHARACTERS and text.replace("\n", " ").isprintable()


def _second_turns(model: Any, first: list[str]) -> list[list[dict[str, str]]]:
    from vllm import SamplingParams

    prompts = [f"{_OPENING}{turn}<|im_end|>\n<|im_start|>assistant\n" for turn in first]
    sampling = SamplingParams(temperature=0.7, max_tokens=160, stop=["<|im_end|>"])
    answers = [one.outputs[0].text for one in model.generate(prompts, sampling)]
    openings = [
        f"{prompt}{answer}<|im_end|>\n<|im_start|>user\n"
        for prompt, answer in zip(prompts, answers, strict=True)
    ]
    return [
        [
            {"role": "user", "content": turn},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": following},
        ]
        for turn, answer, following in zip(first, answers, _turns(model, openings), strict=True)
        if _is_turn(following)
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    arguments = parser.parse_args()
    write_prompts(arguments.out, arguments.count)
