"""The checks of model folders, and of a draft against its target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.models.model_folder import (
    ModelUnfit,
    PairFit,
    check_model,
    check_pair,
    read_pair,
    served_name_of,
    weights_bytes,
)
from unit.engine.launch.model_files import VOCABULARY, WORDS, make_model, numbered


def test_added_tokens_belong_to_the_vocabulary(tmp_path: Path) -> None:
    target = make_model(tmp_path / "t", added_tokens=[{"content": "<eos>", "id": 2}])
    draft = make_model(tmp_path / "d", vocabulary={**VOCABULARY, "<eos>": 2})
    assert check_pair(target, draft) == PairFit(has_same_ids=True)


def test_padding_may_differ(tmp_path: Path) -> None:
    fit = check_pair(make_model(tmp_path / "t", 4), make_model(tmp_path / "d", 8))
    assert fit == PairFit(has_same_ids=False)


def test_equal_tokens_with_other_ids_are_mapped(tmp_path: Path) -> None:
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 150, numbered(*reversed(WORDS)))
    assert not check_pair(target, draft).has_same_ids


def test_a_draft_with_too_few_shared_tokens_is_refused(tmp_path: Path) -> None:
    """99 are one too few."""
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 150, numbered(*WORDS[:99]))
    with pytest.raises(ModelUnfit, match=r"99 of 150 tokens.*at least 100.*--draft ngram"):
        check_pair(target, draft)


def test_special_tokens_of_the_chat_template_that_the_draft_lacks_are_named(
    tmp_path: Path,
) -> None:
    """Reserved ones that no chat has are not: they would be hundreds in some models."""
    special = ["<|start|>", "<|end|>", "<|eos|>", "<|reserved_7|>"]
    added = [
        {"content": token, "id": 200 + index, "special": True}
        for index, token in enumerate(special)
    ]
    target = make_model(tmp_path / "t", 300, numbered(*WORDS), added_tokens=added)
    draft = make_model(tmp_path / "d", 300, numbered(*WORDS, "<|end|>"))
    (target / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": {"content": "<|eos|>"}, "chat_template": "{{ '<|start|>' }}"})
    )
    (target / "chat_template.jinja").write_text("{{ '<|end|>' }}")
    facts = check_pair(target, draft).facts
    assert facts is not None
    assert facts.missing_special_tokens == ("<|start|>", "<|eos|>")
    assert facts.num_embedded == (300, 300)


def test_equal_tokenizers_lack_nothing(tmp_path: Path) -> None:
    facts = read_pair(make_model(tmp_path / "t", 4), make_model(tmp_path / "d", 8))
    assert facts is not None
    assert (facts.missing_special_tokens, facts.num_embedded) == ((), (4, 8))
    (tmp_path / "d" / "tokenizer.json").unlink()
    assert read_pair(tmp_path / "t", tmp_path / "d") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "does not exist; give a model folder"),
        ("what is this", "does not exist; give a model folder, or a Hugging Face name"),
        ("{tmp}/empty", "config.json cannot be read"),
        ("{tmp}/weightless", "contains no weights"),
        ("{tmp}/broken", "config.json is not JSON"),
        ("{tmp}/file", "is a file; give the folder"),
    ],
)
def test_an_invalid_model_is_refused_before_anything_starts(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (make_model(tmp_path / "weightless") / "model.safetensors").unlink()
    (make_model(tmp_path / "broken") / "config.json").write_text("{")
    (tmp_path / "file").touch()
    with pytest.raises(ModelUnfit, match=message):
        check_model(name.format(tmp=tmp_path))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": None},
        {"model": {"vocab": [[]]}},
        {"added_tokens": [{"id": 2}]},
        {"added_tokens": 7},
    ],
)
def test_a_tokenizer_of_another_form_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    """A draft is also checked while the server runs, where nothing else catches it."""
    target, draft = make_model(tmp_path / "t"), make_model(tmp_path / "d")
    file = draft / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(ModelUnfit, match=r"broken tokenizer: tokenizer.json has another form"):
        check_pair(target, draft)


def test_parts_that_are_null_count_as_absent(tmp_path: Path) -> None:
    target = make_model(tmp_path / "t")
    for name, part in (("config.json", "text_config"), ("tokenizer.json", "added_tokens")):
        file = target / name
        file.write_text(json.dumps(json.loads(file.read_text()) | {part: None}))
    assert check_pair(target, make_model(tmp_path / "d")).has_same_ids


def test_hugging_face_names_are_left_to_vllm() -> None:
    check_model("Qwen/Qwen2.5-7B-Instruct")
    assert weights_bytes("Qwen/Qwen2.5-7B-Instruct") is None


def test_the_served_name_of_a_folder_is_its_last_part(tmp_path: Path) -> None:
    model = make_model(tmp_path / "my-model")
    assert served_name_of(f"{model}/") == "my-model"
    assert served_name_of("Qwen/Qwen2.5-7B") == "Qwen/Qwen2.5-7B"
    assert weights_bytes(str(model)) == 5
