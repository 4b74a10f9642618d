"""Tier 1 on folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paceline.foundation.quantized.provenance import FILE
from paceline.workbench.quality.integrity import Target, find_changed_files, find_refusals
from paceline.workbench.quality.prompts import find_other_tokens, read_prompt_file

HERE = Target("cpu-avx512-vnni", "0.32", "auto")
READING = {"max_tokens": 8, "num_after_end": 0, "limit": None}


def test_a_format_that_the_hardware_cannot_serve_is_refused() -> None:
    assert find_refusals("w8a8-int8", HERE) == ()
    [refusal] = find_refusals("w8a8-int8", Target("gpu-blackwell", "0.32", "auto"))
    assert "w8a8-int8" in refusal


def test_formats_that_fail_or_answer_wrongly_are_refused() -> None:
    """Of the weights and of the KV cache; the refusal says what to use."""
    [weights] = find_refusals("w8a16", HERE)
    [cache] = find_refusals("none", Target("cpu-avx512-vnni", "0.32", "int8_per_token_head"))
    assert "Use " in weights
    assert "Use " in cache


def test_a_changed_weight_is_found_by_the_provenance(w8a8: Path, tmp_path: Path) -> None:
    assert find_changed_files(w8a8, lambda _: None) == ()
    folder = tmp_path / "changed"
    shutil.copytree(w8a8, folder)
    shard = sorted(folder.glob("*.safetensors"))[0]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    [fault] = find_changed_files(folder, lambda _: None)
    assert shard.name in fault


def test_only_weights_are_compared_with_the_provenance(w8a8: Path, tmp_path: Path) -> None:
    """Other files are compared by what they do: a changed comment in a template is no fault."""
    folder = tmp_path / "edited"
    shutil.copytree(w8a8, folder)
    (folder / "chat_template.jinja").write_text("{# edited #}")
    (folder / "tokenizer_config.json").unlink()
    assert find_changed_files(folder, lambda _: None) == ()


@pytest.mark.parametrize(
    ("text", "num_faults"),
    [
        ('{"kind": "paceline draft", "promoted": true}', 0),
        ('{"output": {"files": {"model.safetensors": 1}}}', 1),
        ('{"output": {"files": []}}', 1),
        ("[]", 1),
        ("{", 1),
    ],
)
def test_a_provenance_without_checksums_is_a_fault_unless_it_is_that_of_a_draft(
    tmp_path: Path, text: str, num_faults: int
) -> None:
    (tmp_path / FILE).write_text(text)
    assert len(find_changed_files(tmp_path, lambda _: None)) == num_faults


def test_a_folder_without_provenance_has_nothing_to_differ_from(tiny: Path) -> None:
    assert find_changed_files(tiny, lambda _: None) == ()


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("chat_template.jinja", "<|im_end|>", "", "12 of 12 prompts reach it as other tokens"),
        ("generation_config.json", "    2,", "    3,", "answers end at"),
        ("chat_template.jinja", "{% endfor %}", "", "chat template"),
    ],
)
def test_a_stale_template_or_end_is_found(
    tiny: Path, prompts: Path, tmp_path: Path, file: str, before: str, after: str, message: str
) -> None:
    folder = tmp_path / "stale"
    shutil.copytree(tiny, folder)
    text = (folder / file).read_text()
    assert before in text
    wanted = read_prompt_file(prompts, tiny, **READING)
    assert find_other_tokens(wanted, folder, **READING) == ""
    (folder / file).write_text(text.replace(before, after))
    assert message in find_other_tokens(wanted, folder, **READING)
