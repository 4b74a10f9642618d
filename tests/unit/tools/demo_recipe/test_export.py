"""The exported folder loads in transformers with the trained outputs."""

from __future__ import annotations

from pathlib import Path

import torch
from demo_recipe import dataset, export
from demo_recipe.model import Qwen2
from demo_recipe.tokenizer import answer_head, encode_message

from unit.tools.demo_recipe.shapes import TINY


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
