"""`paceline plan` on the bundled pair and on well-known models."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from paceline.demo import draft_path, target_path
from paceline.foundation.named_models import smollm2
from paceline.runtime.config.sources import load_settings
from paceline.workbench.plan.command import plan as plan_group
from unit.plan.planning import LLAMA_70B, QWEN_7B, plan_json, run_plan


def test_the_fixed_keys_are_there(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, LLAMA_70B, "--gpu", "h100", "--num-gpus", "4")
    assert plan["schema_version"] == 1
    assert plan["weights_bytes"] == pytest.approx(141.1e9, rel=0.001)
    assert plan["kv_bytes_per_token"] == 327_680
    assert plan["draft"]["weights_bytes"] == 0
    assert plan["draft"]["kv_bytes_per_token"] == 0
    assert plan["max_concurrent_requests"] > 50
    assert plan["cost"]["usd_per_million_output_tokens"] > 0
    assert all(set(item) == {"topic", "choice", "reason"} for item in plan["advice"])
    topics = {item["topic"] for item in plan["advice"]}
    assert {"engine", "quantization", "drafter", "parallelism"} <= topics


def test_the_weights_of_the_bundled_pair_are_those_of_its_files(tmp_path: Path) -> None:
    """vLLM adds the rotary table (2048 positions of 64 values) and four scales a layer."""
    plan = plan_json(tmp_path, str(target_path()), "--gpu", "cpu", "--dtype", "bfloat16",
                     "--draft", str(draft_path()))  # fmt: skip
    rotary = 2048 * 64 * 2
    assert plan["model"]["checkpoint_bytes"] + rotary + 6 * 16 == plan["weights_bytes"]
    assert plan["kv_bytes_per_token"] == 2 * 6 * 2 * 64 * 2
    assert plan["draft"]["kv_bytes_per_token"] == 2 * 2 * 2 * 64 * 2


def test_a_draft_model_takes_memory_from_the_cache(tmp_path: Path) -> None:
    arguments = ("Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4")
    alone = plan_json(tmp_path, *arguments, "--draft", "none")
    with_draft = plan_json(tmp_path, *arguments, "--acceptance", "0.9")
    assert with_draft["draft"]["name"] == "Qwen/Qwen2.5-1.5B-Instruct"
    assert with_draft["kv_cache"]["num_blocks"] < alone["kv_cache"]["num_blocks"]
    assert with_draft["kv_cache"]["draft_bytes_per_token_per_gpu"] > 0


def test_a_model_that_does_not_fit_ends_with_1_and_says_what_is_missing() -> None:
    result = run_plan(LLAMA_70B, "--gpu", "l4", "--num-gpus", "1")
    assert result.exit_code == 1
    assert "does not fit on 1 x l4" in result.stderr
    assert "GiB more on each GPU" in result.stderr


def test_a_model_that_does_not_fit_gets_no_files(tmp_path: Path) -> None:
    """An engine refuses to start with a KV cache of 0 bytes."""
    folder = tmp_path / "deployment"
    result = run_plan(LLAMA_70B, "--gpu", "cpu", "--write", str(folder))
    assert result.exit_code == 1
    assert f"Nothing was written to {folder}" in result.stderr
    assert not folder.exists()


def test_the_fewest_gpus_are_taken_where_no_number_is_given(tmp_path: Path) -> None:
    assert plan_json(tmp_path, QWEN_7B, "--gpu", "h100")["hardware"]["num_gpus"] == 1
    assert plan_json(tmp_path, LLAMA_70B, "--gpu", "h100")["hardware"]["num_gpus"] == 4


def test_a_plan_lists_what_it_knows_without_a_model() -> None:
    result = run_plan("--list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "  meta-llama/Meta-Llama-3-70B" in lines
    (single,) = [line for line in lines if line.split()[:4:3] == ["h100", "1"]]
    assert "2026-" in single
    assert any(line.split()[:1] == ["cpu"] for line in lines)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_list_has_the_entries_of_the_users_own_file(tmp_path: Path, is_first: bool) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"models": [{"names": ["mine/model-1b"], "config": {}}]}))
    words = ["--list", "--catalogue", str(file)]
    result = run_plan(*words if is_first else (*words[1:], words[0]))
    assert result.exit_code == 0
    assert "  mine/model-1b" in result.stdout.splitlines()
    file.write_text('{"mdels": []}')
    result = run_plan(*words)
    assert result.exit_code == 2
    assert f"{file} has the keys mdels; allowed: gpus, cpus, models" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody/unknown-7b",), "neither a folder with config.json nor a name of the table"),
        ((QWEN_7B, "--gpu", "h900"), "--gpu h900 is not in the catalogue; allowed: b200"),
        ((QWEN_7B, "--gpu", "h100", "--tensor-parallel", "3", "--num-gpus", "3"), "allowed: 1, 2"),
        ((QWEN_7B, "--gpu", "h100", "--prompt-tokens", "99999"), "at most 32768 are allowed"),
        ((QWEN_7B, "--num-gpus", "2"), "need --gpu"),
        ((QWEN_7B, "--gpu", "h100", "--quantization", "aqlm"), "is not one of 'none', 'awq'"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_allowed(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run_plan(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["JambaForCausalLM"]}')
    result = run_plan(str(tmp_path))
    assert result.exit_code == 2
    assert "'JambaForCausalLM'" in result.stderr
    assert "known: LlamaForCausalLM" in result.stderr


def test_the_written_files_start_a_server(tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    result = run_plan(LLAMA_70B, "--gpu", "h100", "--num-gpus", "8", "--slo-tpot-ms", "20",
                      "--draft", "ngram", "--acceptance", "0.8",
                      "--write", str(folder))  # fmt: skip
    assert result.exit_code == 0, result.output
    settings = load_settings({}, {}, folder / "paceline.yaml").settings
    assert settings.engine.model == LLAMA_70B
    assert "--tensor-parallel-size" in settings.engine.vllm_args
    command = (folder / "vllm-command.txt").read_text()
    assert command.startswith(f"vllm serve {LLAMA_70B} ")
    assert "--scheduler-cls paceline.engine.AdaptiveScheduler" in command


def test_weights_that_are_to_be_quantized_are_named_by_the_folder_they_will_have(
    tmp_path: Path,
) -> None:
    result = run_plan(LLAMA_70B, "--gpu", "h100", "--quantization", "awq",
                      "--write", str(tmp_path))  # fmt: skip
    assert result.exit_code == 0, result.output
    folder = "./Meta-Llama-3-70B-Instruct-awq"
    text = (tmp_path / "paceline.yaml").read_text()
    assert f"paceline quantize {LLAMA_70B} --scheme awq --out {folder}\n" in text
    assert load_settings({}, {}, tmp_path / "paceline.yaml").settings.engine.model == folder
    assert (tmp_path / "vllm-command.txt").read_text().startswith(f"vllm serve {folder} ")


def test_weights_that_are_stored_quantized_are_not_converted(tmp_path: Path) -> None:
    config = json.loads((target_path() / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run_plan(str(tmp_path), "--gpu", "l40s", "--quantization", "awq",
                      "--write", str(tmp_path))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert load_settings({}, {}, tmp_path / "paceline.yaml").settings.engine.model == str(tmp_path)
    assert "paceline quantize" not in (tmp_path / "paceline.yaml").read_text()


def test_a_config_that_an_editor_marked_is_read(tmp_path: Path) -> None:
    config = (target_path() / "config.json").read_text()
    (tmp_path / "config.json").write_text(config, encoding="utf-8-sig")
    assert run_plan(str(tmp_path), "--gpu", "l40s").exit_code == 0


@pytest.mark.parametrize("gpu", ["h100", "cpu"])
def test_the_format_of_the_kv_cache_is_written(gpu: str, tmp_path: Path) -> None:
    arguments = ("Qwen/Qwen2.5-0.5B", "--gpu", gpu, "--kv-cache-dtype", "fp8")
    result = run_plan(*arguments, "--write", str(tmp_path))
    assert result.exit_code == 0, result.output
    engine = load_settings({}, {}, tmp_path / "paceline.yaml").settings.engine
    assert (engine.kv_cache_dtype, engine.vllm_args.count("--kv-cache-dtype")) == ("fp8", 0)
    assert "--kv-cache-dtype fp8" in (tmp_path / "vllm-command.txt").read_text()


TABLE = [[1, 1, 7], [2, 2, 3], [3, 3, 1], [4, 4, 0]]
LOOKUP = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        (
            ["Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4"],
            {"method": "draft_model", "use_heterogeneous_vocab": True},
        ),
        (
            ["Qwen/Qwen3-32B", "--gpu", "h100"],
            {
                "method": "draft_model",
                "draft_sample_method": "probabilistic",
                "num_speculative_tokens_per_batch_size": TABLE,
            },
        ),
        (
            [LLAMA_70B, "--gpu", "h200", "--quantization", "fp8"],
            {"method": "ngram_gpu", "num_speculative_tokens_per_batch_size": TABLE} | LOOKUP,
        ),
        (
            ["Qwen/Qwen3-8B", "--gpu", "l4", "--draft-length-max", "3", "--draft", "ngram"],
            {
                "method": "ngram_gpu",
                "num_speculative_tokens_per_batch_size": [[1, 1, 3], [2, 2, 1], [3, 3, 0]],
            }
            | LOOKUP,
        ),
        (["Qwen/Qwen3-8B", "--gpu", "l4", "--draft", "suffix"], {"method": "suffix"}),
        (
            ["Qwen/Qwen2.5-0.5B", "--gpu", "cpu", "--draft", "ngram"],
            {"method": "ngram"} | LOOKUP,
        ),
    ],
    ids=[
        "other padding: Model Runner V1",
        "same vocabulary",
        "n-gram on a GPU",
        "at most 3 drafts",
        "suffix: Model Runner V1",
        "n-gram on a CPU",
    ],
)
def test_vllm_accepts_the_drafter_and_captures_its_lengths(
    arguments: list[str], config: dict[str, object], tmp_path: Path
) -> None:
    """vLLM refuses a draft model of another vocabulary size that it need not map."""
    launch = plan_json(tmp_path, *arguments)["launch"]
    words = launch["vllm_args_to_measure_the_acceptance"]
    planned = json.loads(words[words.index("--speculative-config") + 1])
    for name in ("model", "num_speculative_tokens"):
        planned.pop(name, None)
    assert planned == config


def test_a_head_drafts_for_a_target_of_its_size_and_is_no_model(tmp_path: Path) -> None:
    config = json.loads((smollm2.head_path() / "config.json").read_text())
    target = config | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 30}
    (tmp_path / "config.json").write_text(json.dumps(target))
    words = plan_json(tmp_path, str(tmp_path), "--gpu", "cpu", "--draft", "smollm2",
                      "--acceptance", "0.9", "--concurrency", "1")["launch"]  # fmt: skip
    planned = json.loads(words["vllm_args"][1 + words["vllm_args"].index("--speculative-config")])
    assert (planned["method"], planned["draft_sample_method"]) == ("eagle3", "probabilistic")
    other = run_plan("Qwen/Qwen2.5-0.5B", "--gpu", "cpu", "--draft", "smollm2")
    assert (other.exit_code, "hidden size 576, and Qwen/Qwen2.5-0.5B" in other.stderr) == (2, True)
    alone = run_plan(str(smollm2.head_path()), "--gpu", "cpu")
    assert (alone.exit_code, "is an EAGLE-3 head, which is a drafter" in alone.stderr) == (2, True)


def test_the_name_of_a_subcommand_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.argument("file")
    def replay(file: str) -> None:
        click.echo(f"replays {file}")

    monkeypatch.setitem(plan_group.commands, "replay", replay)
    assert run_plan("replay", "recording.jsonl").stdout == "replays recording.jsonl\n"
    assert run_plan(QWEN_7B, "--gpu", "l40s").exit_code == 0


def test_json_alone_on_standard_output() -> None:
    result = run_plan(QWEN_7B, "--gpu", "l40s", "--json", "-")
    assert json.loads(result.stdout)["hardware"]["name"] == "l40s"


def test_the_help_shows_the_examples() -> None:
    result = run_plan("--help")
    assert result.exit_code == 0
    assert "paceline plan meta-llama/Meta-Llama-3-70B-Instruct" in result.stdout


def test_no_heavy_package_is_imported() -> None:
    code = (
        "import sys; from paceline.cli import main\n"
        f"main(['plan', '{QWEN_7B}', '--gpu', 'h100'], standalone_mode=False)\n"
        "print(sorted({'torch', 'numpy', 'vllm', 'pydantic', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
