"""A plan reads a model as it lies in its folder, and names what can be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unit.plan.planning import plan_json, run_plan

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
ON_A_GPU = ("--gpu", "l40s", "--num-gpus", "1")


def folder_of(tmp_path: Path, **files: Any) -> Path:
    folder = tmp_path / "my-model"
    folder.mkdir()
    for name, content in ({"config": LLAMA_8B} | files).items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_the_cache_format_of_the_checkpoint_is_planned(tmp_path: Path) -> None:
    fp8 = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    plan = plan_json(tmp_path, str(folder_of(tmp_path, hf_quant_config=fp8)), *ON_A_GPU)
    assert plan["model"]["quantization"] == "fp8"
    assert plan["kv_cache"]["dtype"] == "fp8"
    assert 8.5e9 < plan["weights_bytes"] < 9.5e9


def test_a_format_that_vllm_does_not_find_gets_its_argument(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, quantize_config={"bits": 4, "group_size": 128})
    launch = plan_json(tmp_path, str(folder), *ON_A_GPU)["launch"]
    words = launch["vllm_args"]
    assert words[words.index("--quantization") + 1] == "gptq"
    assert '"--quantization", "gptq"' in launch["paceline_yaml"]


@pytest.mark.parametrize("given", ["folder", "config.json", "other.json"])
def test_what_is_written_can_be_served(given: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, other=LLAMA_8B)
    argument = folder if given == "folder" else folder / given
    launch = plan_json(tmp_path, str(argument), *ON_A_GPU)["launch"]
    assert launch["vllm_args"][0] == str(folder)
    assert f'model: "{folder}"' in launch["paceline_yaml"]


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("Llama-3-70B", "meta-llama/Meta-Llama-3-70B"),
        ("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        ("Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("deepseek_r1", "deepseek-ai/DeepSeek-R1"),
    ],
)
def test_a_short_name_finds_the_model_and_is_written_in_full(
    short: str, full: str, tmp_path: Path
) -> None:
    plan = plan_json(tmp_path, short, "--gpu", "b200", "--num-gpus", "8")
    assert plan["model"]["name"] == full
    assert plan["launch"]["vllm_args"][0] == full


def test_a_draft_given_as_a_file_is_written_as_its_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    plan = plan_json(tmp_path, "meta-llama/Llama-3.1-70B", "--gpu", "h100", "--num-gpus", "8",
                     "--draft", str(folder / "config.json"), "--acceptance", "0.9",
                     "--concurrency", "1")  # fmt: skip
    assert f'draft: "{folder}"' in plan["launch"]["paceline_yaml"]


def test_two_copies_of_the_weights_are_counted_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for name in ("model.safetensors", "consolidated.safetensors"):
        header = b'{"t":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    plan = plan_json(tmp_path, str(folder), *ON_A_GPU)
    assert plan["model"]["checkpoint_bytes"] == 4


def test_an_unreadable_format_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "hf_quant_config.json").write_text("{")
    result = run_plan(str(folder), *ON_A_GPU)
    assert result.exit_code == 2
    assert "hf_quant_config.json cannot be read" in result.stderr


def test_a_byte_order_mark_is_no_part_of_a_configuration(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "config.json").write_text("\ufeff" + json.dumps(LLAMA_8B), encoding="utf-8")
    assert plan_json(tmp_path, str(folder), *ON_A_GPU)["fits"] is True
