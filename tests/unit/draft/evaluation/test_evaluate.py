"""`paceline draft eval` on random models, against a speculative decoder written out token by token.

The decoder here shares no code with the figures: it drafts with the draft model, compares with the
target's greedy text, and counts as vLLM does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.foundation.models.heads.folder import head_config_of, write_head
from paceline.foundation.models.heads.initial import initial_head
from paceline.foundation.models.models import load_model, load_tokenizer
from paceline.foundation.models.prompts import read_prompts
from unit.draft.conftest import TinyPair
from unit.draft.tiny_models import END_ID, write_model, write_prompts

LENGTH = 3
CPU = torch.device("cpu")


def invoke(pair: TinyPair, folder: Path, *more: str, draft: Path | None = None) -> Result:
    words = [
        *("draft", "eval", str(pair.target), "--draft", str(draft or pair.draft)),
        *("--prompts", str(pair.prompts), "--max-draft-length", str(LENGTH), "--device", "cpu"),
        *("--json", str(folder / "eval.json"), *more),
    ]
    return CliRunner().invoke(main, words)


def greedy(model: Any, ids: list[int], count: int) -> list[int]:
    with torch.inference_mode():
        for _ in range(count):
            ids = [*ids, int(model(torch.tensor([ids])).logits[0, -1].argmax())]
    return ids[len(ids) - count :]


def count_greedily(target: Any, draft: Any, prompt: list[int], limit: int) -> list[int]:
    """[drafts, accepted tokens at each position] of one request of a speculating server."""
    counts = [0] * (1 + LENGTH)
    written = greedy(target, prompt, 1)
    while len(written) < limit and END_ID not in written:
        drafted = greedy(draft, prompt + written, LENGTH)
        own = greedy(target, prompt + written, LENGTH + 1)
        accepted = 0
        while accepted < LENGTH and drafted[accepted] == own[accepted]:
            accepted += 1
        counts[0] += 1
        for position in range(accepted):
            counts[1 + position] += 1
        written += own[: accepted + 1]
    return counts


def test_greedy_figures_are_those_of_a_speculating_decoder(pair: TinyPair, tmp_path: Path) -> None:
    """The draft is the target with its weights disturbed, so that about half is accepted."""
    folder = disturbed_copy(pair.target, tmp_path / "near", 0.05)
    result = invoke(pair, tmp_path, "--temperature", "0", "--limit", "6", draft=folder)
    assert result.exit_code == 0, result.output
    target, draft = (load_model(f, torch.float32, CPU) for f in (pair.target, folder))
    prompts = read_prompts(
        pair.prompts, load_tokenizer(pair.target),
        default_max_tokens=8, max_positions=96, num_after_end=2, limit=6,
    ).prompts  # fmt: skip
    rows = [count_greedily(target, draft, list(p.token_ids), p.max_tokens) for p in prompts]
    drafts, *accepted = (sum(column) for column in zip(*rows, strict=True))
    (found,) = json.loads((tmp_path / "eval.json").read_text())["acceptance"]
    values = [one["value"] for one in found["accepted_per_position_fraction"]]
    assert values == pytest.approx([count / drafts for count in accepted])
    assert found["acceptance_length"]["value"] == pytest.approx(1 + sum(accepted) / drafts)
    assert 0.1 < found["acceptance_rate"]["value"] < 0.9


def disturbed_copy(source: Path, folder: Path, size: float) -> Path:
    write_model(folder, seed=3, num_layers=2)
    model = load_model(source, torch.float32, CPU)
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * size * parameter.std().nan_to_num(1.0))
    model.save_pretrained(folder)
    return folder


def test_a_target_that_drafts_for_itself_is_always_accepted(pair: TinyPair, tmp_path: Path) -> None:
    result = invoke(pair, tmp_path, "--limit", "6", draft=pair.target)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "eval.json").read_text())
    assert [one["sampling"]["temperature"] for one in document["acceptance"]] == [0, 1]
    for one in document["acceptance"]:
        assert one["acceptance_rate"]["value"] == pytest.approx(1.0, abs=1e-5)
        assert one["acceptance_length"]["value"] == pytest.approx(LENGTH + 1, abs=1e-4)
    assert "acceptance rate       1.000" in result.output


def test_held_out_prompts_are_those_that_no_training_on_the_file_saw(
    pair: TinyPair, tmp_path: Path
) -> None:
    prompts = read_prompts(
        pair.prompts, load_tokenizer(pair.target),
        default_max_tokens=8, max_positions=96, num_after_end=2,
    )  # fmt: skip
    answers = tmp_path / "answers.jsonl"
    options = ("--held-out", "--limit", "6", "--temperature", "0", "--answers", str(answers))
    assert invoke(pair, tmp_path, *options).exit_code == 0
    _, *batches = (json.loads(line) for line in answers.read_text().splitlines())
    keys = {key for batch in batches for key, *_ in batch["answers"]}
    assert keys == {prompt.key for prompt in prompts.split()[1][:6]}


def test_kept_answers_are_used_again(pair: TinyPair, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    options = ("--limit", "6", "--answers", str(answers))
    assert invoke(pair, tmp_path, *options).exit_code == 0
    first, kept = (tmp_path / "eval.json").read_bytes(), answers.read_bytes()
    assert invoke(pair, tmp_path, *options).exit_code == 0
    second = (tmp_path / "eval.json").read_bytes()
    assert json.loads(first)["acceptance"] == json.loads(second)["acceptance"]
    assert answers.read_bytes() == kept
    refused = invoke(pair, tmp_path, *options, "--seed", "1")
    assert refused.exit_code == 1
    assert "seed is 0 there and 1 here" in refused.output


def test_a_served_report_is_compared(pair: TinyPair, tmp_path: Path) -> None:
    """The report has the target's own acceptance, which is 1 at every position."""
    report = {
        "kind": "paceline bench run",
        "config": {"temperature": 0.0},
        "speculation": {
            "acceptance_rate": 1.0, "num_drafts": 10, "drafted_tokens": 30,
            "accepted_per_position_fraction": [1.0, 1.0, 0.9], "note": None,
        },
    }  # fmt: skip
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(report))
    options = ("--limit", "6", "--temperature", "0", "--served", str(path))
    result = invoke(pair, tmp_path, *options, draft=pair.target)
    assert result.exit_code == 0, result.output
    served = json.loads((tmp_path / "eval.json").read_text())["served"]
    assert served["equal"] is False
    assert [one["difference"] for one in served["figures"]] == pytest.approx([0, 0, 0, -0.1])
    assert "not equal within 0.02" in result.output


def test_faults_are_one_sentence_and_no_traceback(pair: TinyPair, tmp_path: Path) -> None:
    words = tuple(f"x{number}" for number in range(96))
    other = write_model(tmp_path / "other", seed=2, words=words)
    result = invoke(pair, tmp_path, draft=other)
    assert result.exit_code == 1
    assert "another vocabulary" in result.output


def test_too_few_conversations_are_refused_before_the_target_answers(
    pair: TinyPair, tmp_path: Path
) -> None:
    """Two requests of one conversation count once, so 5 prompts have 4."""
    answers = tmp_path / "answers.jsonl"
    few = write_prompts(tmp_path / "few.jsonl", 4)
    first = json.loads(few.read_text().splitlines()[0])["messages"]
    later = [*first, {"role": "assistant", "content": "w1"}, {"role": "user", "content": "w2"}]
    few.write_text(few.read_text() + json.dumps({"messages": later}) + "\n")
    for words, message in (
        (("--prompts", str(few)), "4 different conversations have prompts that fit the models; at"),
        (("--limit", "3"), "with --limit 3; at least 5 are needed for an interval. Give more"),
        (("--limit", "3", "--held-out"), "3 different conversations"),
    ):
        result = invoke(pair, tmp_path, "--answers", str(answers), *words)
        assert result.exit_code == 1
        assert message in result.output
        assert not answers.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--top-p", "0.9"), "--top-p is 0.9, which is for sampled answers, and --temperature is"),
        (("--top-k", "20"), "--top-k is 20, which is for sampled answers"),
    ],
)
def test_restrictions_that_no_answer_would_follow_are_refused(
    pair: TinyPair, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    """With a sampled temperature beside 0 they hold for its answers."""
    result = invoke(pair, tmp_path, "--temperature", "0", *words)
    assert result.exit_code == 2
    assert message in result.output
    both = ("--temperature", "0", "--temperature", "1", "--limit", "6")
    result = invoke(pair, tmp_path, *both, *words)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "eval.json").read_text())
    of_greedy, of_sampled = (one["sampling"] for one in document["acceptance"])
    assert of_greedy == {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert (of_sampled["top_p"] == 0.9) == ("--top-p" in words)
    assert (of_sampled["top_k"] == 20) == ("--top-k" in words)


def test_a_padded_draft_is_measured_with_the_drafts_that_vllm_then_takes(
    pair: TinyPair, tmp_path: Path
) -> None:
    """With 104 instead of 100 embedded tokens, drafts are greedy also in sampled requests. So a
    token is accepted with the target's probability of the draft's most probable token."""
    folder = write_model(tmp_path / "padded", seed=2, vocab_size=104)
    answers = tmp_path / "answers.jsonl"
    options = ("--temperature", "1", "--limit", "6", "--answers", str(answers))
    result = invoke(pair, tmp_path, *options, draft=folder)
    assert result.exit_code == 0, result.output
    (found,) = json.loads((tmp_path / "eval.json").read_text())["acceptance"]
    target, draft = (load_model(f, torch.float32, CPU) for f in (pair.target, folder))
    prompts = read_prompts(
        pair.prompts, load_tokenizer(pair.target),
        default_max_tokens=8, max_positions=96, num_after_end=2, limit=6,
    ).prompts  # fmt: skip
    rows = {
        key: (num_tokens, token_ids)
        for line in answers.read_text().splitlines()[1:]
        for key, num_tokens, token_ids in json.loads(line)["answers"]
    }
    chances = []
    for prompt in prompts:
        num_tokens, token_ids = rows[prompt.key]
        for end in range(1, num_tokens):
            ids = torch.tensor([[*prompt.token_ids, *token_ids[:end]]])
            with torch.inference_mode():
                guess = int(draft(ids).logits[0, -1, :100].argmax())
                chances.append(float(target(ids).logits[0, -1].softmax(dim=-1)[guess]))
    assert found["token_acceptance"]["value"] == pytest.approx(
        sum(chances) / len(chances), rel=1e-4
    )


def test_a_head_is_measured_and_each_category_of_prompts_apart(
    pair: TinyPair, tmp_path: Path
) -> None:
    """The whole is between its categories. A head of three tokens is accepted now and then."""
    target = load_model(pair.target, torch.float32, CPU)
    tokens = [END_ID, 7, 11]
    head = initial_head(
        head_config_of(target.config, len(tokens)), target, tokens, torch.ones(()), seed=0
    )
    (tmp_path / "head").mkdir()
    write_head(head, tmp_path / "head")
    lines = [json.loads(line) for line in pair.prompts.read_text().splitlines()]
    named = [line | {"category": ("chat", "code")[n % 3 == 0]} for n, line in enumerate(lines)]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, named)))
    options = ("--prompts", str(prompts), "--temperature", "1")
    result = invoke(pair, tmp_path, *options, draft=tmp_path / "head")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "eval.json").read_text())
    rates = {name: one["acceptance_rate"]["value"] for name, [one] in found["by_category"].items()}
    [whole] = found["acceptance"]
    assert list(rates) == ["chat", "code"]
    assert min(rates.values()) <= whole["acceptance_rate"]["value"] <= max(rates.values())
    assert 0 < whole["acceptance_rate"]["value"] < 0.5
    assert "chat, temperature 1: tokens per step" in result.output
