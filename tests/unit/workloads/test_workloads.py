"""Prompts become requests: order, sampling, and refusals that name the place."""

import itertools
import json
from pathlib import Path

import pytest

from paceline import demo
from paceline.workloads.workloads import (
    TASKS,
    Prompt,
    SamplingSettings,
    WorkloadError,
    build_spec,
    build_specs,
    load_heldout,
    load_prompt_file,
    select_workload,
)

GREEDY = SamplingSettings("m", 0.0, None, None, 7, {})
CHAT = Prompt("json", ({"role": "user", "content": "hi"},), None, 64)
CODE = Prompt("code", None, "def f(", 32)


def pool(per_task: int) -> list[Prompt]:
    return [Prompt(task, None, f"{task} {i}", 8) for task in TASKS for i in range(per_task)]


def test_a_chat_prompt_becomes_a_streamed_chat_request_with_usage() -> None:
    spec = build_spec(CHAT, GREEDY, index=3)
    assert (spec.index, spec.task, spec.path) == (3, "json", "/v1/chat/completions")
    assert json.loads(spec.body) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_a_code_prompt_becomes_a_plain_completion() -> None:
    spec = build_spec(CODE, GREEDY, index=0)
    assert spec.path == "/v1/completions"
    assert json.loads(spec.body)["prompt"] == "def f("


def test_a_sampled_request_carries_a_seed_of_its_own_and_overrides() -> None:
    sampling = SamplingSettings("m", 0.7, 0.9, 5, seed=100, extra_body={"top_k": 20})
    body = json.loads(build_spec(CODE, sampling, index=2).body)
    assert body["seed"] == 102
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.7, 0.9, 20)
    assert body["max_tokens"] == 5


def test_specs_go_round_the_prompts_without_end() -> None:
    specs = list(itertools.islice(build_specs([CHAT, CODE], GREEDY), 5))
    assert [spec.task for spec in specs] == ["json", "code", "json", "code", "json"]
    assert [spec.index for spec in specs] == [0, 1, 2, 3, 4]
    assert list(build_specs([], GREEDY)) == []


def test_tasks_of_a_workload_take_turns() -> None:
    mixed = select_workload(pool(4), "mixed", seed=0)
    assert [p.task for p in mixed] == list(TASKS) * 4
    assert {p.task for p in select_workload(pool(4), "predictable", seed=0)} == {"rename", "json"}
    assert {p.task for p in select_workload(pool(4), "hard", seed=0)} == {"code"}


def test_a_task_that_runs_out_leaves_the_turns_to_the_others() -> None:
    prompts = [Prompt("rename", None, "r", 8), *(Prompt("json", None, f"j{i}", 8) for i in "123")]
    tasks = [p.task for p in select_workload(prompts, "predictable", seed=0)]
    assert tasks == ["rename", "json", "json", "json"]


def test_the_seed_decides_the_order() -> None:
    first = select_workload(pool(20), "json", seed=1)
    assert first == select_workload(pool(20), "json", seed=1)
    assert first != select_workload(pool(20), "json", seed=2)


def test_a_workload_without_prompts_names_the_task() -> None:
    with pytest.raises(WorkloadError, match="task rename; there are none"):
        select_workload([CODE, CHAT], "predictable", seed=0)


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


def test_own_prompts_need_no_task_and_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b", "task": "mine", "max_tokens": 3}\n')
    assert load_prompt_file(path) == [
        Prompt("prompts", None, "a", None),
        Prompt("mine", None, "b", 3),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 holds list"),
        ("{}", "either messages or a prompt"),
        ('{"prompt": "a", "messages": [{}]}', "not both"),
        ('{"prompt": 3}', "must be a string"),
        ('{"messages": []}', "non-empty list"),
        ('{"prompt": "a", "max_tokens": "9"}', "whole number"),
        ('{"prompt": "a", "max_tokens": true}', "whole number"),
        ('{"prompt": "a", "max_tokens": 0}', "at least 1"),
        ('{"prompt": "a", "task": ""}', "non-empty string"),
        ("", "holds no prompt"),
    ],
)
def test_bad_own_prompts_are_refused_with_the_place(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(WorkloadError, match=message):
        load_prompt_file(path)
