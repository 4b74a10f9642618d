"""Prompts of the study: signatures to be written as JSON, with their right answers.

They are made, so that there are as many as a study needs, and every seed has its own. The bundled
target was trained on this task with other functions.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from demo_recipe.tasks import PLAIN_NAMES, Function, build_json

_DEFAULTS = ("None", "0", "1", "True", "False", "''")
_MAX_PARAMETERS = 2
"""Chosen: answers of up to some 80 tokens."""


def signature_tasks(num: int, seed: str, without: Set[str] = frozenset()) -> list[dict[str, Any]]:
    """`num` prompts of different functions, none of which is named in `without`."""
    draws = random.Random(seed)
    taken = set(without)
    found = []
    while len(found) < num:
        name = "_".join(draws.sample(PLAIN_NAMES, 2))
        if name in taken:
            continue
        taken.add(name)
        source = f"def {name}({', '.join(_parameters(draws))}):\n    pass"
        node = ast.parse(source).body[0]
        assert isinstance(node, ast.FunctionDef)
        example = build_json(Function(source, node), draws)
        assert example is not None  # every signature has a parameter
        found.append(
            {
                "id": name,
                "messages": [{"role": "user", "content": example.question}],
                "reference": example.answer,
            }
        )
    return found


def names_of(prompts: Iterable[dict[str, Any]]) -> frozenset[str]:
    """The functions of the prompts."""
    return frozenset(str(one["id"]) for one in prompts)


def score_lines(prompt: Mapping[str, Any], answer: str) -> float:
    """The fraction of lines that are right at their place; of the longer text, if they differ.

    The bundled target gets few of these answers right, but most of their lines.

    >>> score_lines({"reference": "{\\n1,\\n2\\n}"}, "{\\n1,\\n3\\n}")
    0.75
    """
    wanted, got = str(prompt["reference"]).splitlines(), answer.splitlines()
    right = sum(one == other for one, other in zip(wanted, got, strict=False))
    return right / max(len(wanted), len(got))


def write_prompts(path: Path, prompts: Iterable[dict[str, Any]]) -> Path:
    """Write one JSON object per line and return the path."""
    path.write_text("".join(json.dumps(one) + "\n" for one in prompts))
    return path


def _parameters(draws: random.Random) -> list[str]:
    """Names, the last ones with defaults."""
    names = draws.sample(PLAIN_NAMES, draws.randint(1, _MAX_PARAMETERS))
    first_default = draws.randint(0, len(names))
    return [
        name if number < first_default else f"{name}={draws.choice(_DEFAULTS)}"
        for number, name in enumerate(names)
    ]
