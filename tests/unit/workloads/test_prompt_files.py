"""A user's own prompts: what a line may hold, and refusals that name the line."""

from pathlib import Path

import pytest

from paceline.foundation.workloads import (
    Prompt,
    Turn,
    WorkloadError,
    add_system_prompt,
    load_placed_prompts,
    load_prompt_file,
)


def test_own_prompts_need_no_task_and_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "a"}\n\n{"prompt": "b", "task": "mine", "max_tokens": 3}\n')
    assert load_prompt_file(path) == [
        Prompt("prompts", None, "a", None),
        Prompt("mine", None, "b", 3),
    ]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """JSON allows U+0085, U+2028 and U+2029 within a string."""
    path = tmp_path / "own.jsonl"
    path.write_bytes('{"prompt": "a\u0085b\u2028c\u2029d"}\r\n{"prompt": "e"}\n'.encode())
    assert [prompt.text for prompt in load_prompt_file(path)] == ["a\u0085b\u2028c\u2029d", "e"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[3]", "item 1 holds int"),
        ("[]", "holds no prompt"),
        ("{}", "either messages or a prompt"),
        ('{"prompt": "a", "messages": [{}]}', "not both"),
        ('{"prompt": 3}', "must be a string"),
        ('{"messages": []}', "non-empty list"),
        ('{"prompt": "a", "max_tokens": "9"}', "whole number"),
        ('{"prompt": "a", "max_tokens": true}', "whole number"),
        ('{"prompt": "a", "max_tokens": 0}', "at least 1"),
        ('{"prompt": "a", "task": ""}', "non-empty string"),
        ('{"prompt": "a", "max_token": 3}', "max_token is unknown; allowed fields are messages"),
        ('{"prompt": "a", "task": "b", "category": "c"}', "task and category exclude each other"),
        ('{"messages": [{"content": "a"}]}', "message 1 has the role None"),
        ('{"prompt": "a", "turns": ["b"]}', "a prompt with turns needs messages"),
        ('{"prompt": "a", "ignore_eos": true}', "ignore_eos needs max_tokens"),
        ('{"prompt": "a", "ignore_eos": 1, "max_tokens": 2}', "must be true or false"),
        (
            '{"messages": [{"role": "user", "content": "a"}], "turns": [{"think_s": 1}]}',
            "line 1, turn 1: content is missing",
        ),
        (
            '{"messages": [{"role": "user"}], "turns": [{"content": "b", "think_s": -1}]}',
            "think_s is -1; it must be at least 0",
        ),
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


def test_a_line_may_hold_a_session(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"messages": [{"role": "user", "content": "a"}], "category": "chat", "max_tokens": 8, '
        '"turns": ["b", {"content": "c", "think_s": 2.5, "max_tokens": 4}]}\n'
    )
    (session,) = load_prompt_file(path)
    assert session.task == "chat"
    assert session.turns == (Turn("b"), Turn("c", 2.5, 4))


def test_tools_are_sent_and_refused_where_only_texts_are_read(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]}\n'
    )
    (prompt,) = load_prompt_file(path)
    assert prompt.fields == {"tools": [{"type": "function"}]}
    with pytest.raises(WorkloadError, match="line 1: tools is not used here"):
        load_placed_prompts(path)


def test_a_system_prompt_precedes_chats_and_plain_prompts() -> None:
    chat = Prompt("x", ({"role": "user", "content": "hi"},), None, None)
    plain = Prompt("y", None, "def f(", None)
    added = add_system_prompt([chat, plain], "Be brief.")
    assert added[0].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    )
    assert added[1].text == "Be brief.\n\ndef f("
