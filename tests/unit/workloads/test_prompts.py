"""A user's own prompts: what a line may hold, and refusals that name the line."""

from pathlib import Path

import pytest

from paceline.workloads import Prompt, WorkloadError, load_prompt_file


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
def test_bad_own_prompts_are_refused_with_their_line(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(WorkloadError, match=message):
        load_prompt_file(path)
