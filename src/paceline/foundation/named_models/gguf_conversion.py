"""Convert a Llama model with a byte-level BPE tokenizer from GGUF to Hugging Face layout.

Names, shapes and the order of the rows of queries and keys are those of llama.cpp's converter
(`convert_hf_to_gguf.py`), backwards. The tokenizer is that of SmolLM2: every digit is a token.

    python -m paceline.foundation.named_models.gguf_conversion FILE.gguf FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3


def convert(source: Path, folder: Path) -> None:
    """Write the model of a GGUF file into an existing folder, in bfloat16. ValueError for another
    kind of model."""
    reader = GGUFReader(source)

    def value(name: str) -> Any:
        return reader.fields[name].contents()

    architecture, kind = value("general.architecture"), value("tokenizer.ggml.pre")
    if (architecture, kind) != ("llama", "smollm"):
        raise ValueError(f"{source} is {architecture} with the tokenizer {kind}, not SmolLM2")
    config = _config(value)
    _write(folder / "config.json", config)
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write(folder / "generation_config.json", {**ends, "transformers_version": "5.0.0"})
    _write_tokenizer(folder, value)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        name, part = _name(tensor.name)
        if part in heads:
            weights = _unrotated(weights, heads[part])
        tensors[name] = torch.from_numpy(np.array(weights)).to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def _config(value: Callable[[str], Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "dtype": "bfloat16",
        "head_dim": value("llama.rope.dimension_count"),
        "hidden_act": "silu",
        "hidden_size": value("llama.embedding_length"),
        "intermediate_size": value("llama.feed_forward_length"),
        "max_position_embeddings": value("llama.context_length"),
        "num_attention_heads": value("llama.attention.head_count"),
        "num_hidden_layers": value("llama.block_count"),
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "rms_norm_eps": round(value("llama.attention.layer_norm_rms_epsilon"), 9),
        "rope_theta": value("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "vocab_size": value("llama.vocab_size"),
    }


def _write_tokenizer(folder: Path, value: Callable[[str], Any]) -> None:
    tokens, kinds = value("tokenizer.ggml.tokens"), value("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges")]
    ids = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[value("tokenizer.ggml.bos_token_id")],
            "eos_token": tokens[value("tokenizer.ggml.eos_token_id")],
            "pad_token": tokens[value("tokenizer.ggml.padding_token_id")],
            "unk_token": tokens[value("tokenizer.ggml.unknown_token_id")],
            "clean_up_tokenization_spaces": False,
            "model_max_length": value("llama.context_length"),
        },
    )
    template = value("tokenizer.chat_template")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _name(name: str) -> tuple[str, str]:
    """The name of a weight in Hugging Face layout, and what it is in the GGUF file."""
    parts = name.removesuffix(".weight").split(".")
    if parts[0] != "blk":
        return f"{_OUTER[parts[0]]}.weight", parts[0]
    return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.weight", parts[2]


def _unrotated(weights: Any, num_heads: int) -> Any:
    """Rows of each head in the order of Hugging Face, (num_heads * head_dim, hidden_size): GGUF has
    the two halves of a rotated head interleaved."""
    rows, columns = weights.shape
    half = rows // num_heads // 2
    return weights.reshape(num_heads, half, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
