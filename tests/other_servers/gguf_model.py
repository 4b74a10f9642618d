"""Convert the bundled target model to GGUF, the file format of llama.cpp.

    PYTHONPATH=FOLDER_OF_GGUF:tests python -m other_servers.gguf_model OUT

For this one model: a Qwen2 with tied embeddings and a byte-level tokenizer whose splitting rule is
Qwen2's, which llama.cpp knows as `qwen2`. llama.cpp's own converter recognises a tokenizer by a
hash that only published models have.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import safe_open

from paceline.demo import target_path

_TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names in the checkpoint to names in GGUF, without the layer and `.weight` or `.bias`."""


def write_gguf(model: Path, out: Path) -> None:
    """Write the model in `model` to the file `out`, in 32-bit floats."""
    config = json.loads((model / "config.json").read_text())
    writer = gguf.GGUFWriter(str(out), "qwen2")
    writer.add_name("paceline bundled target")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, model, config)
    _add_tensors(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, model: Path, config: dict[str, Any]) -> None:
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    special = {token["id"] for token in tokenizer["added_tokens"]}
    by_id = {i: text for text, i in tokenizer["model"]["vocab"].items()}
    by_id |= {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    ids = range(config["vocab_size"])
    merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([by_id.get(i, f"[unused {i}]") for i in ids])
    writer.add_token_types([_token_type(i, by_id, special) for i in ids])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((model / "chat_template.jinja").read_text())


def _token_type(i: int, by_id: dict[int, str], special: set[int]) -> int:
    if i in special:
        return int(gguf.TokenType.CONTROL)
    return int(gguf.TokenType.NORMAL if i in by_id else gguf.TokenType.UNUSED)


def _add_tensors(writer: Any, model: Path) -> None:
    with safe_open(model / "model.safetensors", framework="pt") as weights:
        for name in weights.keys():  # noqa: SIM118 - no mapping
            values = weights.get_tensor(name).float().numpy()
            writer.add_tensor(_gguf_name(name), np.ascontiguousarray(values))


def _gguf_name(name: str) -> str:
    """The name in GGUF of a tensor of the checkpoint."""
    stem, _, kind = name.rpartition(".")
    prefix = ""
    if stem.startswith("model.layers."):
        _, _, layer, stem = stem.split(".", 3)
        prefix = f"blk.{layer}."
    return f"{prefix}{_TENSORS[stem]}.{kind}"


if __name__ == "__main__":
    write_gguf(target_path(), Path(sys.argv[1]))
