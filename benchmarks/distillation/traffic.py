"""Chats about the functions of an installed package, on which the bundled pair was not trained.

The four tasks of the bundled pair (`demo_recipe.tasks`), cut from a package of the lock
file instead of the standard library, which has another style: type annotations, longer
docstrings, other names. Every function is the subject of one chat at most, and no two chats have
the same question or the same true answer: two functions may have one signature, which is asked
about in several wordings.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from demo_recipe import tasks
from demo_recipe.corpus import read_standard_library

BUILDERS: Mapping[str, Callable[[tasks.Function, random.Random], tasks.Example | None]] = {
    "complete": tasks.build_complete,
    "docstring": tasks.build_docstring,
    "rename": tasks.build_plain_rename,
    "json": tasks.build_json,
}


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it; ValueError if there is none."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ValueError(f"the package is {name!r}; it must be one that is installed")
    return Path(next(iter(found.submodule_search_locations)))


def chats_about(
    folder: Path, kinds: list[str], num_each: int, max_tokens: int, seed: str
) -> list[dict[str, Any]]:
    """`num_each` chats of each task, in random order, each about another function.

    ValueError if the package has too few functions that suit a task.
    """
    draws = random.Random(seed)
    functions = list(_functions(folder))
    draws.shuffle(functions)
    left = iter(functions)
    examples: list[tasks.Example] = []
    asked: set[str] = set()
    for number, kind in enumerate(kinds, start=1):
        for function in left:
            example = BUILDERS[kind](function, draws)
            if example is not None and asked.isdisjoint((example.question, example.answer)):
                asked |= {example.question, example.answer}
                examples.append(example)
            if len(examples) == number * num_each:
                break
        else:
            raise ValueError(f"{folder.name} has too few functions for {num_each} of {kind}")
    draws.shuffle(examples)
    return [
        {
            "task": example.task,
            "messages": [{"role": "user", "content": example.question}],
            "reference": example.answer,
            "max_tokens": max_tokens,
        }
        for example in examples
    ]


def _functions(folder: Path) -> Iterator[tasks.Function]:
    """Of all files of the package; equal sources come once."""
    seen = set()
    for file in read_standard_library(folder):
        for function in tasks.functions_of(file):
            if function.source not in seen:
                seen.add(function.source)
                yield function
