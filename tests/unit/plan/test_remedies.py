"""Where nothing fits, a plan says what is missing and which plan works; it writes nothing."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from unit.plan.planning import LLAMA_70B, plan_json, run_plan

TOO_SMALL = [
    (LLAMA_70B, "--gpu", "h100", "--num-gpus", "1"),
    ("Qwen/Qwen3-32B", "--gpu", "l4", "--num-gpus", "1"),
    ("meta-llama/Llama-3.1-405B", "--gpu", "a100", "--num-gpus", "8"),
    ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "rtx-4090"),
    ("Qwen/Qwen3-8B", "--gpu", "t4", "--slo-tpot-ms", "5"),
]


@pytest.mark.parametrize("arguments", TOO_SMALL, ids=lambda one: f"{one[0]} on {one[2]}")
def test_the_smallest_plan_that_works_works(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run_plan(*arguments)
    assert result.exit_code == 1
    found = re.search(
        r"The smallest plan that works: (.*?): (\d+) requests? at once", result.stderr
    )
    assert found is not None, result.stderr
    load = arguments[arguments.index("--slo-tpot-ms") :] if "--slo-tpot-ms" in arguments else ()
    plan = plan_json(tmp_path, arguments[0], *shlex.split(found[1]), *load)
    assert plan["operating_point"]["num_requests"] == int(found[2])


@pytest.mark.parametrize("arguments", TOO_SMALL[:4], ids=lambda one: f"{one[0]} on {one[2]}")
def test_the_missing_memory_is_enough(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A GPU with that much more memory holds one request of the stated length."""
    file = tmp_path / "plan.json"
    # The defaults of both depend on the memory.
    arguments = (*arguments, "--max-num-batched-tokens", "2048", "--max-num-seqs", "256")
    result = run_plan(*arguments, "--json", str(file))
    document = json.loads(file.read_text())
    missing = document["missing_bytes_per_gpu"]
    assert f"{missing / 1024**3:.1f} GiB more on each GPU" in result.stderr
    hardware = document["hardware"]
    more_mib = -(-(document["memory"]["per_gpu"]["total_bytes"] + missing / 0.9) // 1024**2)
    gpu = {"name": hardware["name"], "memory_mib": int(more_mib) + 1}
    catalogue = tmp_path / "more.json"
    catalogue.write_text(json.dumps({"gpus": [gpu]}))
    sizes = ("--num-gpus", str(hardware["num_gpus"])) if "--num-gpus" not in arguments else ()
    larger = plan_json(tmp_path, *arguments, *sizes, "--catalogue", str(catalogue))
    assert larger["max_concurrent_requests"] >= 1


@pytest.mark.parametrize("arguments", TOO_SMALL, ids=lambda one: f"{one[0]} on {one[2]}")
def test_nothing_is_written_that_would_run_out_of_memory(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    file, folder = tmp_path / "plan.json", tmp_path / "deployment"
    result = run_plan(*arguments, "--json", str(file), "--write", str(folder))
    assert json.loads(file.read_text())["launch"] is None
    assert not folder.exists()
    assert f"Nothing was written to {folder}" in result.stderr
    assert "vllm serve" not in result.stdout
    assert "paceline.yaml" not in result.stdout


def test_no_machine_at_all_names_the_closest_and_fewer_bits() -> None:
    result = run_plan("meta-llama/Llama-3.1-405B", "--slo-tpot-ms", "16", "--concurrency", "1")
    assert result.exit_code == 1
    assert "fits on no machine of the catalogue" in result.stderr
    assert "The one that comes closest, 8 x" in result.stderr
    smallest = r"The smallest plan that works: --gpu \S+ --num-gpus \d --quantization"
    assert re.search(smallest, result.stderr)


def test_the_fewest_gpus_that_work_are_more_than_given_and_no_multiple() -> None:
    result = run_plan("Llama-3-70B", "--gpu", "h100", "--num-gpus", "3")
    assert result.exit_code == 1
    assert "--gpu h100 --num-gpus 4" in result.stderr


def test_what_nothing_helps_says_so() -> None:
    result = run_plan("meta-llama/Llama-3.1-405B", "--slo-tpot-ms", "0.01")
    assert result.exit_code == 1
    assert "misses the limits on latency. No number of GPUs" in result.stderr


@pytest.mark.parametrize(
    ("model", "gpu", "extra"),
    [
        ("Qwen/Qwen3-14B", "l4", ("--quantization", "fp8", "--prompt-tokens", "3000")),
        ("Qwen/Qwen3-32B", "l40s", ("--quantization", "fp8", "--reserve-gib", "6.8")),
        ("Qwen/Qwen3-8B", "l4", ("--reserve-gib", "4")),
    ],
)
def test_the_longest_request_fits_into_the_cache(
    model: str, gpu: str, extra: tuple[str, ...], tmp_path: Path
) -> None:
    """vLLM does not start where one request of --max-model-len does not fit."""
    plan = plan_json(tmp_path, model, "--gpu", gpu, "--num-gpus", "1", *extra)
    cache = plan["kv_cache"]
    assert cache["max_concurrency_at_max_model_len"] >= 1
    words = plan["launch"]["vllm_args"]
    assert words[words.index("--max-model-len") + 1] == str(cache["max_model_len"])


def test_a_longest_request_that_is_given_is_not_shortened() -> None:
    small = ("Qwen/Qwen3-8B", "--gpu", "l4", "--num-gpus", "1", "--reserve-gib", "4")
    result = run_plan(*small, "--max-model-len", "32768")
    assert result.exit_code == 1
    assert "a KV cache that holds one request of --max-model-len 32768" in result.stderr


def test_a_draft_in_four_bits_takes_a_quarter_of_the_memory(tmp_path: Path) -> None:
    arguments = (LLAMA_70B, "--gpu", "h100", "--num-gpus", "2", "--quantization", "fp8",
                 "--draft", "meta-llama/Meta-Llama-3-8B-Instruct", "--acceptance", "0.8",
                 "--concurrency", "4")  # fmt: skip
    plain = plan_json(tmp_path, *arguments)
    packed = plan_json(tmp_path, *arguments, "--draft-quantization", "awq")
    assert packed["draft"]["weights_bytes"] < 0.4 * plain["draft"]["weights_bytes"]
    text = packed["launch"]["paceline_yaml"]
    assert 'draft: "./Meta-Llama-3-8B-Instruct-awq"' in text
    assert "# Write the quantized draft first: paceline quantize" in text
    config = json.loads(packed["launch"]["vllm_args"][-3])
    assert config["model"] == "./Meta-Llama-3-8B-Instruct-awq"


@pytest.mark.parametrize("draft", ["ngram", "suffix", "none"])
def test_bits_of_a_draft_need_a_draft_model(draft: str) -> None:
    result = run_plan(LLAMA_70B, "--gpu", "h200", "--draft", draft, "--draft-quantization", "awq")
    assert result.exit_code == 2
    assert f"--draft-quantization awq is for a draft model, and --draft is {draft}" in result.stderr
