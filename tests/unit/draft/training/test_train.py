"""`paceline draft train` on random models: promotion, refusal, resuming, and what it writes."""

from __future__ import annotations

import importlib
import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.foundation.distillation.held_out import is_held_out
from paceline.foundation.models.heads.folder import read_head
from paceline.foundation.models.models import load_model, load_tokenizer
from paceline.foundation.models.prompts import HELD_OUT_PER_THOUSAND
from paceline.foundation.workloads import conversation_of
from paceline.foundation.workloads.prompts import parse_prompt
from paceline.workbench.draft.training import distil as distil_module
from unit.draft.conftest import TinyPair
from unit.draft.tiny_models import END_ID, write_model, write_prompts


def invoke(pair: TinyPair, out: Path, *more: str) -> Result:
    torch.set_num_threads(1)
    words = [
        *("draft", "train", str(pair.target), "--prompts", str(pair.prompts), "--out", str(out)),
        *("--device", "cpu", "--max-draft-length", "2", "--steps", "2", *more),
    ]
    return CliRunner().invoke(main, words)


def provenance(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "draft" / "paceline-provenance.json").read_text())
    return found


def test_a_worse_draft_is_not_promoted(pair: TinyPair, tmp_path: Path) -> None:
    """The present draft is the target, which always accepts its own tokens."""
    out = tmp_path / "out"
    result = invoke(pair, out, "--draft", str(pair.draft), "--present", str(pair.target))
    assert result.exit_code == 3, result.output
    assert "Not promoted: the acceptance rate on held-out prompts falls" in result.output
    document = provenance(out)
    assert document["promoted"] is False
    overall = document["held_out"]["overall"]
    assert overall["present"]["acceptance_rate"]["value"] == pytest.approx(1.0, abs=1e-5)
    assert overall["difference"]["acceptance_rate"]["high"] < 0


def test_a_better_draft_is_promoted_with_its_provenance(pair: TinyPair, tmp_path: Path) -> None:
    """The training starts from the target, nearly without steps; the present draft is random."""
    out = tmp_path / "out"
    options = ("--draft", str(pair.target), "--present", str(pair.draft), "--rate-scale", "1e-6")
    result = invoke(pair, out, *options, "--loss", "tv", "--seed", "3")
    assert result.exit_code == 0, result.output
    document = provenance(out)
    assert document["promoted"] is True
    assert document["training"]["loss"] == "tv"
    assert document["training"]["num_steps"] == 2
    assert document["training"]["seed"] == 3
    origin = document["origin"]
    assert origin["num_trained"] + origin["num_held_out"] == 60
    assert len(origin["prompts_sha256"]) == 64
    assert origin["start_revision"] == origin["target_revision"]
    by_sampling = document["held_out"]["by_sampling"]
    assert [one["sampling"]["temperature"] for one in by_sampling] == [0, 1]
    assert document["versions"]["torch"] == torch.__version__


def test_kept_answers_serve_another_training(pair: TinyPair, tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    first = invoke(pair, tmp_path / "first", "--layers", "1", "--answers", str(kept))
    assert first.exit_code in (0, 3), first.output
    content = kept.read_bytes()
    options = ("--layers", "1", "--answers", str(kept))
    second = invoke(pair, tmp_path / "second", *options, "--loss", "tv")
    assert second.exit_code in (0, 3), second.output
    assert kept.read_bytes() == content
    assert not (tmp_path / "first" / "answers.jsonl").exists()
    refused = invoke(pair, tmp_path / "third", *options, "--seed", "1")
    assert refused.exit_code == 1
    assert "seed is 0 there and 1 here" in refused.output


def test_the_new_draft_is_a_model_folder_that_loads(pair: TinyPair, tmp_path: Path) -> None:
    """Cut from the target: one of its two layers, its tokenizer and chat template."""
    out = tmp_path / "out"
    result = invoke(pair, out, "--layers", "1")
    assert result.exit_code in (0, 3), result.output
    draft = load_model(out / "draft", torch.float32, torch.device("cpu"))
    assert draft.config.num_hidden_layers == 1
    assert json.loads((out / "draft" / "config.json").read_text())["dtype"] == "bfloat16"
    tokenizers = load_tokenizer(out / "draft"), load_tokenizer(pair.target)
    assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    assert tokenizers[0].chat_template == tokenizers[1].chat_template
    assert provenance(out)["origin"]["start"] == "layers 0 of the target"


def test_ctrl_c_keeps_everything_and_resume_ends_as_without_it(
    pair: TinyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert invoke(pair, whole, "--draft", str(pair.draft)).exit_code in (0, 3)
    descend = distil_module.descend

    def descend_and_interrupt(*arguments: Any) -> None:
        descend(*arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(distil_module, "descend", descend_and_interrupt)
    result = invoke(pair, part, "--draft", str(pair.draft))
    assert result.exit_code == 130, result.output
    assert "--resume" in result.output
    monkeypatch.setattr(distil_module, "descend", descend)
    refused = invoke(pair, part, "--draft", str(pair.draft))
    assert (refused.exit_code, "add --resume" in refused.output) == (1, True)
    other = invoke(pair, part, "--draft", str(pair.draft), "--resume", "--loss", "tv")
    assert "with loss 'forward-kl', and now it is 'tv'" in other.output
    result = invoke(pair, part, "--draft", str(pair.draft), "--resume")
    assert result.exit_code in (0, 3), result.output
    assert (part / "draft" / "model.safetensors").read_bytes() == (
        whole / "draft" / "model.safetensors"
    ).read_bytes()
    assert provenance(part)["held_out"] == provenance(whole)["held_out"]


def test_a_draft_that_was_not_compared_yet_is_not_promoted(
    pair: TinyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`paceline draft swap` serves a folder without a refusal in its provenance."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    module = importlib.import_module("paceline.workbench.draft.training.train")
    monkeypatch.setattr(module, "measure_drafter", interrupt)
    assert invoke(pair, tmp_path / "out", "--draft", str(pair.draft)).exit_code == 130
    found = provenance(tmp_path / "out")
    assert found["promoted"] is False
    assert "--resume" in found["reason"]


def test_a_head_and_a_draft_model_are_compared(pair: TinyPair, tmp_path: Path) -> None:
    """Each way round, on answers of unequal lengths, which they are measured on in other orders."""
    lines = [json.loads(line) for line in pair.prompts.read_text().splitlines()]
    uneven = tmp_path / "uneven.jsonl"
    uneven.write_text("".join(
        json.dumps(line | {"max_tokens": 6 + number % 4}) + "\n"
        for number, line in enumerate(lines)
    ))  # fmt: skip
    given = ("--prompts", str(uneven), "--steps", "2")
    head, model = tmp_path / "head", tmp_path / "model"
    new = ("--head", "--head-vocabulary", "64", "--present", str(pair.draft))
    first = invoke(pair, head, *given, *new)
    assert first.exit_code in (0, 3), first.output
    second = invoke(pair, model, *given, "--layers", "1", "--present", str(head / "draft"))
    assert second.exit_code in (0, 3), second.output
    for folder in (head, model):
        assert provenance(folder)["held_out"]["overall"]["difference"] is not None
    wrong = invoke(pair, tmp_path / "wrong", *given, "--draft", str(head / "draft"))
    assert (wrong.exit_code, "an EAGLE-3 head; give --head, too" in wrong.output) == (1, True)


def test_faults_are_one_sentence_before_anything_is_written(pair: TinyPair, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = write_prompts(tmp_path / "few.jsonl", 10)
    result = invoke(pair, out, "--prompts", str(few))
    assert (result.exit_code, "of 10 different prompts" in result.output) == (1, True)
    words = tuple(f"x{number}" for number in range(96))
    other = write_model(tmp_path / "other", seed=2, words=words)
    result = invoke(pair, out, "--draft", str(other))
    assert (result.exit_code, "another vocabulary" in result.output) == (1, True)
    result = invoke(pair, out, "--minutes", "1")
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)
    result = invoke(pair, out, "--layers", "2")
    assert (result.exit_code, "fewer than the 2 of the target" in result.output) == (1, True)
    assert not out.exists()


def test_answers_that_cannot_be_measured_are_refused_before_the_training(
    pair: TinyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the held-out conversations, all but four ask for a single token."""
    lines = [json.loads(line) for line in pair.prompts.read_text().splitlines()]
    held_out = [
        line
        for line in lines
        if is_held_out(
            conversation_of(parse_prompt(line, "here", "prompts")), HELD_OUT_PER_THOUSAND
        )
    ]
    for line in held_out[4:]:
        line["max_tokens"] = 1
    short = tmp_path / "short.jsonl"
    short.write_text("".join(json.dumps(line) + "\n" for line in lines))
    module = importlib.import_module("paceline.workbench.draft.training.train")
    monkeypatch.setattr(module, "distil", lambda *_, **__: pytest.fail("it was trained"))
    options = ("--draft", str(pair.draft), "--prompts", str(short), "--temperature", "0")
    result = invoke(pair, tmp_path / "out", *options)
    assert result.exit_code == 1, result.output
    assert "(greedy) of only 4 held-out conversations have two or more tokens" in result.output


def test_a_full_disk_is_refused_before_the_folder_is_made(
    pair: TinyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the same command works once there is room."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    out = tmp_path / "deep" / "out"
    result = invoke(pair, out, "--draft", str(pair.draft))
    assert (result.exit_code, "has 0.00 GB free" in result.output) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_head_learns_and_is_what_vllm_loads(
    pair: TinyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present one took a single step, at no rate. Interrupted and resumed, it is the same."""
    untrained, out, again = (tmp_path / name for name in ("untrained", "out", "again"))
    new = ("--head", "--head-vocabulary", "64")
    first = invoke(pair, untrained, *new, "--steps", "1", "--rate-scale", "1e-9")
    assert first.exit_code == 3, first.output
    assert "Not promoted: no gain is proven: there is nothing to compare with" in first.output
    alone = provenance(untrained)
    figures = alone["held_out"]["overall"]
    assert (figures["present"], figures["difference"]) == (None, None)
    assert (alone["origin"]["present"], alone["training"]["adam_scale"]) == (None, 0.25)
    options = (*new, "--steps", "60", "--present", str(untrained / "draft"))
    result = invoke(pair, out, *options)
    assert result.exit_code == 0, result.output
    document = provenance(out)
    assert document["origin"]["start"] == "a new head"
    figures = document["held_out"]["overall"]
    assert figures["difference"]["acceptance_rate"]["low"] > 0
    assert len(figures["candidate"]["accepted_per_position_fraction"]) == 2
    head = read_head(out / "draft")
    assert (head.config.draft_vocab_size, head.config.vocab_size) == (64, 100)
    assert END_ID in head.tokens.tolist()
    assert len(set(head.tokens.tolist())) == 64
    descend, steps = distil_module.descend, iter(range(60))

    def descend_and_interrupt(*arguments: Any) -> None:
        descend(*arguments)
        if next(steps) == 20:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(distil_module, "descend", descend_and_interrupt)
    assert invoke(pair, again, *options).exit_code == 130
    monkeypatch.setattr(distil_module, "descend", descend)
    other = invoke(pair, again, *options, "--resume", "--answers", str(tmp_path / "other.jsonl"))
    assert (other.exit_code, "answers_file" in other.output) == (1, True), other.output
    assert invoke(pair, again, *options, "--resume").exit_code == 0
    resumed = read_head(again / "draft").state_dict()
    for name, weight in head.state_dict().items():
        assert torch.equal(weight, resumed[name]), name
