"""Cut the held-out questions that ship with the package.

They are cut once, when the pair is trained, from files that training never sees, so benchmarks and
tests need no source of the standard library. The tasks are those of `tasks`, plus `code`: a part of
a file to continue.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from demo_recipe import corpus, tasks

NUM_PER_TASK = 100
MAX_TOKENS = {"complete": 192, "docstring": 96, "rename": 384, "json": 256, "code": 128}
_MAX_QUESTION_CHARS = 1200


def cut_questions(seed: int = 0) -> list[dict[str, Any]]:
    """At most NUM_PER_TASK questions per task in a fixed order, each with its reference answer."""
    files = [f for f in corpus.read_standard_library() if corpus.is_held_out(f.name)]
    rng = random.Random(seed)
    functions = [f for file in files for f in tasks.functions_of(file)]
    chosen: list[dict[str, Any]] = []
    count = dict.fromkeys(MAX_TOKENS, 0)
    for example in tasks.build_examples(functions, rng):
        if count[example.task] < NUM_PER_TASK and len(example.question) < _MAX_QUESTION_CHARS:
            count[example.task] += 1
            chosen.append(
                {
                    "task": example.task,
                    "messages": [{"role": "user", "content": example.question}],
                    "max_tokens": MAX_TOKENS[example.task],
                    "reference": example.answer,
                }
            )
    rng.shuffle(files)
    chosen.extend(_cut_code(files[index % len(files)], rng) for index in range(NUM_PER_TASK))
    return sorted(chosen, key=lambda question: list(MAX_TOKENS).index(question["task"]))


def write_questions(path: Path) -> None:
    """Write the held-out questions as JSON."""
    path.write_text(json.dumps(cut_questions(), indent=1) + "\n")


def _cut_code(file: corpus.SourceFile, rng: random.Random) -> dict[str, Any]:
    """A prompt of 10 to 30 lines from a random position, without the final line break."""
    lines = file.text.splitlines()
    length = rng.randint(10, 30)
    start = rng.randrange(max(1, len(lines) - 2 * length))
    prompt = "\n".join(lines[start : start + length]).rstrip() or lines[0]
    reference = "\n".join(lines[start + length : start + 2 * length])
    return {
        "task": "code",
        "prompt": prompt[-_MAX_QUESTION_CHARS:],
        "max_tokens": MAX_TOKENS["code"],
        "reference": reference,
    }
