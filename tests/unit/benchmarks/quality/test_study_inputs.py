"""Prompts and sound models of the study: fresh for every seed, and apart from the calibration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.quality import sound
from benchmarks.quality.prompts import names_of, score_lines, signature_tasks, write_prompts
from benchmarks.quality.sound import FIXED, VARIED, make_folder, models_of
from paceline.foundation.workloads import load_prompt_file


def test_prompts_of_two_seeds_and_of_the_calibration_differ() -> None:
    calibration = signature_tasks(64, "calibration 0")
    excluded = names_of(calibration)
    first, second, again = (signature_tasks(120, seed, excluded) for seed in ("a", "b", "a"))
    assert first == again != second
    assert len(names_of(first)) == 120
    assert not names_of(first) & excluded


def test_names_to_leave_out_are_left_out() -> None:
    """The same seed draws the same names, so all of them are refused."""
    first = signature_tasks(20, "a")
    assert not names_of(signature_tasks(20, "a", names_of(first))) & names_of(first)


def test_the_reference_names_the_function_and_its_parameters() -> None:
    for one in signature_tasks(20, "a"):
        answer = json.loads(one["reference"])
        question = one["messages"][0]["content"]
        assert f"def {answer['name']}({answer['parameters'][0]['name']}" in question


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("a\nb\nc\nd", 1.0),
        ("a\nx\nc\nd", 0.75),
        ("a\nb", 0.5),
        ("a\nb\nc\nd\n" * 2, 0.5),
        ("", 0.0),
    ],
)
def test_the_score_is_the_fraction_of_right_lines(answer: str, score: float) -> None:
    assert score_lines({"reference": "a\nb\nc\nd"}, answer) == score


def test_twelve_seeds_check_every_sound_model() -> None:
    found = {model for seed in range(100, 112) for model in models_of(seed)}
    assert set(VARIED) < found
    assert len({model.name for model in found}) == len(found) == 27


def test_the_prompts_are_a_prompt_file(tmp_path: Path) -> None:
    written = write_prompts(tmp_path / "prompts.jsonl", signature_tasks(3, "a"))
    assert len(load_prompt_file(written)) == 3


def test_a_folder_that_was_cut_off_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sound, "copy_tokenizer", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            make_folder(FIXED[0], tmp_path, [])
    made = make_folder(FIXED[0], tmp_path, [])
    assert (made / "tokenizer.json").is_file()
    assert len(list(made.glob("*.safetensors"))) > 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
