"""Workloads of held-out prompts: the order of their tasks, and a file that cannot be read."""

import json
from pathlib import Path

import pytest

from paceline import demo
from paceline.foundation.workloads import (
    HeldoutWorkload,
    Prompt,
    WorkloadError,
    load_heldout,
    load_workload,
)
from paceline.foundation.workloads.heldout import TASKS

CHAT = Prompt("json", ({"role": "user", "content": "hi"},), None, 64)
CODE = Prompt("code", None, "def f(", 32)


def workload(name: str) -> HeldoutWorkload:
    found = load_workload(name)
    assert isinstance(found, HeldoutWorkload)
    return found


def pool(per_task: int) -> list[Prompt]:
    return [Prompt(task, None, f"{task} {i}", 8) for task in TASKS for i in range(per_task)]


def test_tasks_of_a_workload_take_turns() -> None:
    mixed = workload("mixed").order(pool(4), seed=0)
    assert [p.task for p in mixed] == list(TASKS) * 4
    assert {p.task for p in workload("predictable").order(pool(4), seed=0)} == {"rename", "json"}
    assert {p.task for p in workload("hard").order(pool(4), seed=0)} == {"code"}


def test_a_task_that_runs_out_leaves_the_turns_to_the_others() -> None:
    prompts = [Prompt("rename", None, "r", 8), *(Prompt("json", None, f"j{i}", 8) for i in "123")]
    tasks = [p.task for p in workload("predictable").order(prompts, seed=0)]
    assert tasks == ["rename", "json", "json", "json"]


def test_the_seed_decides_the_order() -> None:
    first = workload("json").order(pool(20), seed=1)
    assert first == workload("json").order(pool(20), seed=1)
    assert first != workload("json").order(pool(20), seed=2)


def test_a_workload_without_prompts_names_the_task() -> None:
    with pytest.raises(WorkloadError, match="task rename; there are none"):
        workload("predictable").order([CODE, CHAT], seed=0)


def test_heldout_prompts_are_read_from_the_file_of_the_bundled_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "heldout.json"
    messages = [{"role": "user", "content": "Rename"}]
    path.write_text(
        json.dumps(
            [
                {"task": "rename", "messages": messages, "max_tokens": 9, "reference": "x"},
                {"task": "code", "prompt": "import ", "max_tokens": 4, "reference": "os"},
            ]
        )
    )
    monkeypatch.setattr(demo, "heldout_path", lambda: path)
    assert load_heldout() == [
        Prompt("rename", tuple(messages), None, 9),
        Prompt("code", None, "import ", 4),
    ]


def test_missing_heldout_prompts_point_to_own_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "heldout_path", lambda: tmp_path / "absent.json")
    with pytest.raises(WorkloadError, match="--prompts FILE"):
        load_heldout()


@pytest.mark.parametrize("tasks", [(), ("translate",)])
def test_a_workload_of_no_or_unknown_tasks_is_refused(tasks: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each must be one of complete, docstring"):
        HeldoutWorkload("ours", "a made-up workload", tasks)
