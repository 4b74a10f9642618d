"""Workloads made from the held-out prompts that ship with the bundled pair.

The prompts come from source files that the bundled pair was not trained on.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.workloads.fields import WorkloadError
from paceline.foundation.workloads.prompts import Prompt, parse_prompt, shuffle_prompts
from paceline.foundation.workloads.workload import TextKind

TASKS = ("complete", "docstring", "rename", "json", "code")


@dataclass(frozen=True, slots=True)
class HeldoutWorkload:
    """The held-out prompts of some tasks, the tasks in turn."""

    name: str
    description: str
    tasks: tuple[str, ...]
    """Of `TASKS`."""
    temperature: float = 0.0
    text_kind: TextKind | None = None

    def __post_init__(self) -> None:
        if not self.tasks or not set(self.tasks) <= set(TASKS):
            raise ValueError(f"tasks are {self.tasks}; each must be one of {', '.join(TASKS)}")

    def prompts(self, seed: int) -> list[Prompt]:
        return self.order(load_heldout(), seed)

    def order(self, prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
        """The prompts of this workload's tasks in the order of `seed`, the tasks in turn.

        Every task gets the same share in any stretch of the run. When the prompts of one task run
        out, the others continue. Raises WorkloadError when a task has no prompt.
        """
        columns = [shuffle_prompts([p for p in prompts if p.task == t], seed) for t in self.tasks]
        empty = [task for task, column in zip(self.tasks, columns, strict=True) if not column]
        if empty:
            raise WorkloadError(
                f"workload {self.name!r} needs prompts of the task {', '.join(empty)}; "
                "there are none"
            )
        rows = itertools.zip_longest(*columns)
        return [prompt for row in rows for prompt in row if prompt is not None]


def load_heldout() -> list[Prompt]:
    """Every held-out prompt, in the order of the file."""
    from paceline import demo

    path = demo.heldout_path()
    items = read_heldout()
    return [parse_prompt(item, f"{path}, entry {n}", "") for n, item in enumerate(items)]


def read_heldout() -> list[object]:
    """The entries of the file of held-out prompts, which also hold reference answers."""
    from paceline import demo

    path = demo.heldout_path()
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkloadError(
            f"cannot read the built-in prompts ({error}); give your own with --prompts FILE"
        ) from error
    except ValueError as error:
        raise WorkloadError(f"{path} is not JSON: {error}") from error
    if not isinstance(items, list):
        raise WorkloadError(f"{path} holds {type(items).__name__}; it must be a JSON list")
    return items
