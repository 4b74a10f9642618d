"""The facts that are read: packages, models, caches, this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from paceline.demo import draft_path, target_path
from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.runtime.config import load_settings
from paceline.runtime.engine.launch import brief_process
from paceline.runtime.engine.launch.brief_process import run_briefly
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.visible_gpus import Gpu
from paceline.runtime.serve.plan import make_plan
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import StartupFacts, TorchBuild
from paceline.runtime.serve.startup_checks.reading import gathering, installed_packages
from paceline.runtime.serve.startup_checks.reading.gathering import gather_facts
from paceline.runtime.serve.startup_checks.reading.installed_packages import (
    parse_torch_build,
    parse_torch_pins,
    read_installation,
)
from paceline.runtime.serve.startup_checks.reading.memory_plan import (
    compute_memory,
    find_tensor_parallel_sizes,
)
from paceline.runtime.serve.startup_checks.reading.model_cache import find_download
from paceline.runtime.serve.startup_checks.values import CannotJudge
from unit.serve.startup_checks.machines import GIB, gpus

MIB = 1024**2
QWEN = "Qwen/Qwen2.5-7B-Instruct"
DRAFTING = {"method": "draft_model", "model": str(draft_path())}


@pytest.mark.parametrize(
    ("cuda", "hip", "build"),
    [
        ("None", "None", TorchBuild("2.13.0+cpu", None)),
        ("'13.0'", "None", TorchBuild("2.13.0+cpu", (13, 0))),
        ("None", "'7.0.1'", TorchBuild("2.13.0+cpu", None, is_rocm=True)),
    ],
)
def test_torchs_version_file(cuda: str, hip: str, build: TorchBuild) -> None:
    text = (
        "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
        "__version__ = '2.13.0+cpu'\ndebug = False\n"
        f"cuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
    )
    assert parse_torch_build(text) == build
    assert parse_torch_build("version = 1") is None


def test_exact_requirements_of_torch_only() -> None:
    requirements = [
        "torch==2.13.0+cpu; platform_machine == \"x86_64\"",
        "torch==2.13.0; platform_system == \"Darwin\"",
        "torchaudio==2.11.0", "torch>=2.0", "numpy",
    ]  # fmt: skip
    assert parse_torch_pins(requirements) == ("2.13.0+cpu", "2.13.0")


@pytest.mark.parametrize(
    ("answer", "driver_cuda", "is_missing"),
    [
        ((0, "12080\n"), (12, 8), False),
        ((0, "13000\n"), (13, 0), False),
        ((3, ""), None, True),
        ((1, ""), None, False),
        ((None, ""), None, False),
    ],
)
def test_the_driver_is_asked_which_cuda_it_supports(
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int | None, str],
    driver_cuda: tuple[int, int] | None,
    is_missing: bool,
) -> None:
    monkeypatch.setattr(installed_packages, "run_briefly", lambda _: answer)
    found = read_installation(read_hardware(), {}, asks_driver=True)
    assert (found.driver_cuda, found.lacks_driver) == (driver_cuda, is_missing)
    other_library = {"VLLM_ENABLE_CUDA_COMPATIBILITY": "1"}
    found = read_installation(read_hardware(), other_library, asks_driver=True)
    assert found.driver_cuda is None


def test_this_machine_has_a_driver_or_lacks_it() -> None:
    found = read_installation(read_hardware(), {}, asks_driver=True)
    assert found.lacks_driver is (found.driver_cuda is None)
    unasked = read_installation(read_hardware(), {}, asks_driver=False)
    assert (unasked.driver_cuda, unasked.lacks_driver) == (None, False)


def test_a_command_that_cannot_run_or_hangs_has_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_briefly(("/no/such/command",)) == (None, "")
    monkeypatch.setattr(brief_process, "_TIMEOUT_S", 0.2)
    assert run_briefly(("sleep", "30")) == (None, "")
    assert run_briefly(("echo", "done")) == (0, "done\n")


def test_the_memory_of_the_bundled_pair_is_that_of_its_files() -> None:
    """float32 doubles the weights on disk; a block of 128 tokens holds the KV of both models."""
    launch = EngineLaunch(
        str(target_path()), DRAFTING, dtype="float32", kv_cache_bytes=GIB, max_num_seqs=128
    )
    memory = compute_memory(launch, load_catalogue(), gpu=None, available_bytes=8 * GIB)
    on_disk = (target_path() / "model.safetensors").stat().st_size
    assert memory.weights_bytes == pytest.approx(2 * on_disk, rel=0.05)
    assert memory.draft_weights_bytes > 0
    assert (memory.kv_cache_bytes, memory.max_model_len) == (GIB, 2048)
    config = json.loads((draft_path() / "config.json").read_text())
    head_size = config["hidden_size"] // config["num_attention_heads"]
    draft_values = 2 * config["num_key_value_heads"] * head_size
    per_token = 4 * (6 * 2 * 2 * 64 + config["num_hidden_layers"] * draft_values)
    assert memory.request_kv_bytes == 2048 * per_token


def test_both_workers_of_a_cpu_count() -> None:
    alone = EngineLaunch(str(target_path()), {}, dtype="float32", kv_cache_bytes=GIB)
    catalogue = load_catalogue()
    one = compute_memory(alone, catalogue, gpu=None, available_bytes=8 * GIB)
    spread = replace(alone, tensor_parallel=2)
    two = compute_memory(spread, catalogue, gpu=None, available_bytes=8 * GIB)
    assert two.kv_cache_bytes == 2 * GIB
    assert one.weights_bytes <= two.weights_bytes < 2 * one.weights_bytes


def test_a_gpu_computes_in_16_bits_and_gives_the_cache_what_is_left() -> None:
    launch = EngineLaunch(QWEN, {}, tensor_parallel=2)
    (gpu,) = gpus(1)
    memory = compute_memory(launch, load_catalogue(), gpu=gpu, available_bytes=0)
    assert memory.weights_bytes == pytest.approx(7.6e9, rel=0.02)  # 7.6e9 weights, half of them
    assert memory.kv_cache_bytes is None
    assert memory.working_bytes > GIB


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (EngineLaunch("no/such-model", {}), "no no/such-model"),
        (EngineLaunch(QWEN, {}, unplanned_flags=("-q",)), "does not follow -q"),
        (EngineLaunch(QWEN, {}, tensor_parallel=3), "tensor parallel size 3"),
    ],
)
def test_what_the_planner_does_not_know_has_a_reason(launch: EngineLaunch, reason: str) -> None:
    with pytest.raises(CannotJudge, match=reason):
        compute_memory(launch, load_catalogue(), gpu=None, available_bytes=GIB)


def test_a_gpu_without_stated_memory_is_not_computed() -> None:
    gpu = Gpu(0, "GPU-0", (12, 1))
    with pytest.raises(CannotJudge, match="does not state"):
        compute_memory(EngineLaunch(QWEN, {}), load_catalogue(), gpu=gpu, available_bytes=0)


def test_how_far_a_model_can_be_split() -> None:
    """Qwen2.5-7B has 28 heads and 4 KV heads."""
    launch = EngineLaunch(QWEN, {}, tensor_parallel=2)
    assert find_tensor_parallel_sizes(launch, load_catalogue())[:3] == (1, 2, 4)
    experts = replace(launch, unplanned_flags=("--enable-expert-parallel",))
    assert find_tensor_parallel_sizes(experts, load_catalogue()) == ()
    draft = {"method": "draft_model", "model": "Qwen/Qwen2.5-1.5B-Instruct"}
    drafted = replace(launch, drafting=draft)
    # 12 heads, and 8960 columns of its feed-forward network.
    assert find_tensor_parallel_sizes(drafted, load_catalogue(), of_draft=True) == (1, 2, 4)
    assert find_tensor_parallel_sizes(launch, load_catalogue(), of_draft=True) == ()
    unknown = replace(launch, model="no/such-model")
    assert find_tensor_parallel_sizes(unknown, load_catalogue()) == ()


def test_a_model_that_is_not_in_the_cache_has_to_be_downloaded(tmp_path: Path) -> None:
    catalogue, environ = load_catalogue(), {"HF_HOME": str(tmp_path)}
    found = find_download(QWEN, catalogue, environ)
    assert found is not None
    assert found[0] == tmp_path / "hub"
    assert found[1] == pytest.approx(15.2e9, rel=0.02)
    (tmp_path / "hub" / "models--Qwen--Qwen2.5-7B-Instruct").mkdir(parents=True)
    assert find_download(QWEN, catalogue, environ) is None
    assert find_download("no/such-model", catalogue, environ) is None
    assert find_download(str(target_path()), catalogue, environ) is None
    elsewhere = find_download(QWEN, catalogue, {**environ, "HF_HUB_CACHE": "/elsewhere"})
    assert elsewhere is not None
    assert elsewhere[0] == Path("/elsewhere")


def gathered(
    folder: Path,
    *vllm_args: str,
    draft: str = "auto",
    environ: Mapping[str, str] = MappingProxyType({}),
) -> StartupFacts:
    given = {
        ("engine", "model"): ("MODEL", "bundled"),
        ("engine", "vllm_args"): ("--", vllm_args),
        ("engine", "draft"): ("--draft", draft),
        ("engine", "log_folder"): ("file", str(folder / "not" / "yet" / "made")),
    }
    hardware = replace(read_hardware(), device="cpu", vllm_release="0.32.0")
    plan = make_plan(
        load_settings(given, {}).settings,
        hardware,
        server_module="some.module",
        run_folder=folder,
        log_folder=folder / "not" / "yet" / "made",
    )
    return gather_facts(plan, hardware, environ=environ)


def test_the_facts_of_this_machine(tmp_path: Path) -> None:
    facts = gathered(tmp_path)
    assert facts.launch is not None
    assert facts.launch.draft_model == str(draft_path())
    assert facts.pair is not None
    assert facts.pair.vocabularies.has_same_ids
    assert facts.memory is not None
    assert facts.installation.torch is not None
    assert facts.installation.torch.version.startswith("2.")
    assert facts.installation.torch_pins
    assert facts.descriptors is not None
    assert facts.descriptors[0] >= 256
    assert [folder.setting for folder in facts.folders] == ["engine.log_folder", "TMPDIR"]
    assert all(folder.free_bytes > 0 for folder in facts.folders)


def test_a_cache_that_the_environment_sets_is_not_judged(tmp_path: Path) -> None:
    """It wins over the flag, so that the size of the flag would be the wrong one."""
    facts = gathered(tmp_path, environ={"VLLM_CPU_KVCACHE_SPACE": "40"})
    assert (facts.memory, "VLLM_CPU_KVCACHE_SPACE" in facts.why_no_memory) == (None, True)


def test_a_window_limits_what_a_request_holds() -> None:
    """Gemma 2: of 26 layers, 13 hold the last 4,096 tokens and 13 all 8,192."""
    launch = EngineLaunch("google/gemma-2-2b-it", {}, max_model_len=8192, kv_cache_bytes=GIB)
    memory = compute_memory(launch, load_catalogue(), gpu=None, available_bytes=GIB)
    per_layer = 2 * 4 * 256 * 2
    assert memory.request_kv_bytes == per_layer * 13 * (4096 + 8192)


def test_the_users_own_draft_model_is_compared(tmp_path: Path) -> None:
    config = json.dumps({**DRAFTING, "num_speculative_tokens": 4})
    facts = gathered(tmp_path, "--speculative-config", config, draft="none")
    assert facts.pair is not None
    assert facts.pair.num_embedded == (4096, 4096)


def test_a_model_on_which_the_planner_fails_leaves_the_other_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("layers")

    monkeypatch.setattr(gathering, "compute_memory", fail)
    facts = gathered(tmp_path)
    assert facts.memory is None
    assert "KeyError('layers')" in facts.why_no_memory
    assert facts.descriptors is not None


def test_a_cache_format_that_the_planner_does_not_know_is_not_judged() -> None:
    launch = EngineLaunch(str(target_path()), {}, kv_cache_dtype="turboquant_4bit_nc")
    with pytest.raises(CannotJudge, match="turboquant_4bit_nc"):
        compute_memory(launch, load_catalogue(), gpu=gpus(1)[0], available_bytes=GIB)


def test_reading_imports_neither_torch_nor_vllm(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from unit.serve.startup_checks.test_reading import gathered\n"
        f"gathered(Path({str(tmp_path)!r}))\n"
        "heavy = {'torch', 'vllm', 'ray'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
