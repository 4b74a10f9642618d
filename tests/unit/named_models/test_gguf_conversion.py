"""A small model in GGUF, written as llama.cpp's converter does, becomes the model that it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")

from paceline.foundation.named_models.gguf_conversion import convert  # noqa: E402

HEADS, KV_HEADS, HIDDEN, INTERMEDIATE, LAYERS = 4, 2, 64, 96, 2
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *"12ab\u0120", "ab", "\u0120ab"]
MERGES = ["a b", "\u0120 ab"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"


def original() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_theta=100_000.0,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def rotated(weights: Any, num_heads: int) -> Any:
    """`LlamaModel.permute` of llama.cpp's converter."""
    rows, columns = weights.shape
    halves = weights.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(model: LlamaForCausalLM, file: Path, kind: str = "smollm") -> None:
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(TOKENS))
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(kind)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(MERGES)
    for add, token in (
        (writer.add_bos_token_id, 1),
        (writer.add_eos_token_id, 2),
        (writer.add_unk_token_id, 0),
        (writer.add_pad_token_id, 2),
    ):
        add(token)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        values = tensor.float().numpy()
        if "q_proj" in name or "k_proj" in name:
            values = rotated(values, HEADS if "q_proj" in name else KV_HEADS)
        known = names.get_name(name.removesuffix(".weight"))
        assert known is not None
        writer.add_tensor(f"{known}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def test_weights_and_answers_are_those_of_the_original(tmp_path: Path, folder: Path) -> None:
    model = original()
    write_gguf(model, tmp_path / "model.gguf")
    convert(tmp_path / "model.gguf", folder)
    weights = load_file(folder / "model.safetensors")
    expected = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    converted = AutoModelForCausalLM.from_pretrained(folder)
    tokens = torch.arange(len(TOKENS))[None]
    with torch.no_grad():
        assert torch.equal(converted(tokens).logits, model(tokens).logits)


def test_the_tokenizer_splits_digits_and_knows_the_special_tokens(
    tmp_path: Path, folder: Path
) -> None:
    write_gguf(original(), tmp_path / "model.gguf")
    convert(tmp_path / "model.gguf", folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "<|im_start|>ab ab12<|im_end|>"
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert tokens == ["<|im_start|>", "ab", "\u0120ab", "1", "2", "<|im_end|>"]
    assert tokenizer.decode(tokenizer("ab ab12")["input_ids"]) == "ab ab12"
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False)
    assert chat == "<|im_start|>ab<|im_end|>"
    assert tokenizer.eos_token_id == 2
    ends = json.loads((folder / "generation_config.json").read_text())
    assert (ends["bos_token_id"], ends["eos_token_id"]) == (1, 2)


def test_another_tokenizer_is_refused(tmp_path: Path, folder: Path) -> None:
    write_gguf(original(), tmp_path / "model.gguf", kind="llama-bpe")
    with pytest.raises(ValueError, match="llama with the tokenizer llama-bpe, not SmolLM2"):
        convert(tmp_path / "model.gguf", folder)
