"""The training recipe: split, rows, loop, export. Tiny models, real tokenizer, real files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from paceline.demo.recipe import corpus, dataset, deepen, evaluate, export
from paceline.demo.recipe.initial import initialise
from paceline.demo.recipe.model import Qwen2, Shape
from paceline.demo.recipe.tokenizer import answer_head, encode_message, train_tokenizer
from paceline.demo.recipe.training import Schedule, distillation_loss, next_token_loss, train

TINY = Shape(hidden_size=64, num_layers=2, num_kv_heads=1, intermediate_size=96)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one small file as source and a few packed dialogues."""
    folder = tmp_path_factory.mktemp("data")
    text = Path(corpus.__file__).read_text()
    tokenizer = train_tokenizer([text])
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text * 3, add_special_tokens=False).ids
    np.save(folder / "source.npy", np.asarray(ids * 3, np.uint16))
    head = answer_head(tokenizer)
    pairs = [
        (
            encode_message(tokenizer, "user", f"Say {n}") + head,
            encode_message(tokenizer, "assistant", str(n))[len(head) :],
        )
        for n in range(200)
    ]
    assert dataset.write_rows(folder, "tasks", pairs) == 200
    return folder


def test_training_begins_with_heads_that_copy() -> None:
    """100 random tokens twice: the second time the next one is already half known.

    A model without the heads knows no more the second time.
    """
    shape = Shape(hidden_size=384, num_layers=2, num_kv_heads=2, intermediate_size=64)
    gains = {}
    for laid_out in (True, False):
        torch.manual_seed(0)
        model = Qwen2(shape)
        if laid_out:
            initialise(model)
        once = torch.randint(300, 4000, (4, 100), generator=torch.Generator().manual_seed(1))
        twice = torch.cat((once, once), dim=1)
        with torch.no_grad():
            logits = model(twice[:, :-1])
        nats = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), twice[:, 1:].flatten(), reduction="none"
        ).view(4, -1)
        gains[laid_out] = (nats[:, :99].mean() - nats[:, 101:].mean()).item()
    assert gains[True] > 0.5
    assert abs(gains[False]) < 0.05


def test_the_split_depends_on_the_name_alone() -> None:
    names = [f"package/module_{n}.py" for n in range(5000)]
    share = sum(map(corpus.is_held_out, names)) / len(names)
    assert 0.03 < share < 0.05  # 40 in 1,000


def test_a_folder_without_source_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no readable Python source"):
        list(corpus.read_standard_library(tmp_path))


def test_weights_mark_answers_and_leave_out_padding(data: Path) -> None:
    tokens, weights = np.load(data / "tasks.npy"), np.load(data / "tasks_weights.npy")
    tokenizer = dataset.load_tokenizer(data)
    answers = [int(t) for t, w in zip(tokens[0], weights[0], strict=True) if w == 1.0]
    assert tokenizer.decode(answers[:2], skip_special_tokens=False) == "0<|im_end|>"
    assert weights[-1][-1] == 0


def test_a_batch_depends_on_seed_and_step_alone(data: Path) -> None:
    rows = dataset.Dataset(data)
    shares = {"tasks": 0.5}
    first, again = rows.batch(1, 7, 6, shares), rows.batch(1, 7, 6, shares)
    assert (first.tokens == again.tokens).all()
    assert (first.tokens != rows.batch(1, 8, 6, shares).tokens).any()


def test_training_learns_and_a_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path
) -> None:
    rows = dataset.Dataset(data)
    torch.set_num_threads(1)

    def run(folder: Path, *stops: int) -> Qwen2:
        for stop in stops:
            torch.manual_seed(0)
            model = Qwen2(TINY)
            schedule = Schedule(num_steps=stop, rows=1, save_every=1, decay_fraction=0.0)
            train(model, rows, schedule, folder, seed=0, loss=next_token_loss)
        return model

    whole, resumed = run(tmp_path / "whole", 6), run(tmp_path / "resumed", 3, 6)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole" / "log.jsonl").open()]
    assert losses[-1] < losses[0]


def test_a_state_of_another_shape_is_refused_in_words(data: Path, tmp_path: Path) -> None:
    schedule = Schedule(num_steps=1, rows=1)
    rows = dataset.Dataset(data)
    train(Qwen2(TINY), rows, schedule, tmp_path, seed=0, loss=next_token_loss)
    other = replace(TINY, rope_theta=5.0)
    with pytest.raises(ValueError, match="continue in another folder"):
        train(Qwen2(other), rows, schedule, tmp_path, seed=0, loss=next_token_loss)


def test_distillation_loss_is_zero_for_the_teacher_itself(data: Path) -> None:
    torch.manual_seed(0)
    teacher, other = Qwen2(TINY), Qwen2(TINY)
    batch = dataset.Dataset(data).batch(0, 0, 1, {"tasks": 1.0})
    loss = distillation_loss(teacher)
    assert loss(teacher, batch).item() == pytest.approx(0.0, abs=1e-5)
    assert loss(other, batch).item() > 1e-4


def test_the_exported_model_computes_in_transformers_what_was_trained(
    data: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(1)
    model = Qwen2(TINY)
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    tokenizer = dataset.load_tokenizer(data)
    export.export(model, tokenizer, tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    reader = AutoTokenizer.from_pretrained(tmp_path)
    question = "Rename `a` to `b`:\n\ndef f(a):\n        return a  # naïve 💡"
    messages = [{"role": "user", "content": question}]
    ids = reader.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert list(ids) == encode_message(tokenizer, "user", question) + answer_head(tokenizer)
    token_ids = torch.tensor([list(ids)])
    with torch.no_grad():
        assert torch.allclose(model(token_ids), loaded(token_ids).logits, atol=1e-4)


def test_the_deepened_twin_has_the_same_outputs(data: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(2)
    export.export(Qwen2(TINY), dataset.load_tokenizer(data), tmp_path / "small")
    count = deepen.deepen(
        tmp_path / "small", tmp_path / "twin", num_layers=5, intermediate_size=160
    )
    assert count == sum(
        w.numel() for w in load_file(tmp_path / "twin" / "model.safetensors").values()
    )
    small, twin = (
        AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32)
        for name in ("small", "twin")
    )
    token_ids = torch.randint(0, 4096, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(small(token_ids).logits, twin(token_ids).logits, atol=1e-5)


def test_a_smaller_twin_is_refused_in_words(data: Path, tmp_path: Path) -> None:
    export.export(Qwen2(TINY), dataset.load_tokenizer(data), tmp_path / "small")
    with pytest.raises(ValueError, match="got 1 layers and intermediate size 96"):
        deepen.deepen(tmp_path / "small", tmp_path / "twin", num_layers=1, intermediate_size=96)


def test_answers_are_scored_by_meaning() -> None:
    assert evaluate.parses("def f():\n    return 1")
    assert not evaluate.parses("def f(:")
    assert evaluate.is_same_json('{"b": 1, "a": [2]}', '{"a": [2], "b": 1}')
    assert not evaluate.is_same_json('{"b": 1', '{"b": 1}')
