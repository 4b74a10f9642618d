"""Calibration prompts pass through the model's chat template; bad lines are named."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.quantized.calibration import load_calibration
from paceline.foundation.quantized.errors import WrongUsage


class Tokenizer:
    """One token per character; the template writes roles in brackets and refuses `tool`."""

    def apply_chat_template(self, conversation: Sequence[Mapping[str, Any]], **options: Any) -> str:
        if any(message["role"] == "tool" for message in conversation):
            raise ValueError("no tools")
        text = "".join(f"[{message['role']}]{message['content']}" for message in conversation)
        return text + ("[assistant]" if options["add_generation_prompt"] else "")

    def encode(self, text: str, **options: Any) -> list[int]:
        return [ord(letter) for letter in text]


def load(file: Path | None, *, max_samples: int = 10, max_tokens: int = 100) -> list[str]:
    """The samples as text."""
    found = load_calibration(
        file, Tokenizer(), max_samples=max_samples, max_tokens=max_tokens, seed=0
    )
    return ["".join(map(chr, sample)) for sample in found.samples]


def write(file: Path, *lines: object) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_chats_are_rendered_and_texts_are_not(tmp_path: Path) -> None:
    user = {"role": "user", "content": "hello you"}
    answer = {"role": "assistant", "content": "hi"}
    file = write(
        tmp_path / "p.jsonl",
        {"messages": [user]},
        {"messages": [user, answer]},
        {"prompt": "once upon a time"},
    )
    assert sorted(load(file)) == [
        "[user]hello you[assistant]", "[user]hello you[assistant]hi", "once upon a time"
    ]  # fmt: skip


def test_samples_are_drawn_and_cut(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", *({"prompt": f"{n:>20}"} for n in range(50)))
    samples = load(file, max_samples=7, max_tokens=18)
    assert len(set(samples)) <= 7
    assert {len(sample) for sample in samples} == {18}
    assert samples == load(file, max_samples=7, max_tokens=18)


def test_the_provenance_has_the_hash_and_no_text(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", {"prompt": "a secret sentence"})
    found = load_calibration(file, Tokenizer(), max_samples=5, max_tokens=9, seed=3)
    recorded = found.as_json()
    assert recorded == {
        "origin": str(file),
        "sha256": found.sha256,
        "num_prompts": 1,
        "max_tokens": 9,
        "seed": 3,
        "num_samples": 1,
        "num_tokens": 9,
    }
    assert found.sha256 is not None
    assert len(found.sha256) == 64


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "line 2 is not JSON"),
        ('{"message": []}', "line 2"),
        ('{"messages": []}', "non-empty list"),
        ('{"messages": [{"role": "tool", "content": "x"}]}', "line 2: .* roles tool: no tools"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a good line of text"}\n' + line + "\n")
    with pytest.raises(WrongUsage, match=message):
        load(file)


def test_prompts_that_are_all_too_short_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="none of 2 samples has 8 tokens"):
        load(write(tmp_path / "p.jsonl", {"prompt": "a"}, {"prompt": "b"}))


def test_a_pipe_is_refused() -> None:
    """The provenance would have the hash of nothing: a pipe is empty when it is read again."""
    reader, writer = os.pipe()
    os.write(writer, b'{"prompt": "a good line of text"}\n')
    os.close(writer)
    with pytest.raises(WrongUsage, match="is no regular file"):
        load(Path(f"/dev/fd/{reader}"))
    os.close(reader)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"cannot read .*gone\.jsonl"):
        load(tmp_path / "gone.jsonl")


def test_without_a_file_the_built_in_prompts_calibrate() -> None:
    assert len(load(None, max_samples=20)) == 20
