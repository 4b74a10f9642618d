"""What `paceline serve` starts on a machine with a GPU, and on one without."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from paceline.config import load_settings
from paceline.engine.launch.hardware import read_hardware
from paceline.serve.plan import make_plan


def speculative_config(
    folder: Path, device: Literal["cpu", "gpu"], environ: dict[str, str], *vllm_args: str
) -> dict[str, Any]:
    """The --speculative-config of an engine whose target has no known draft model."""
    file = folder / "paceline.yaml"
    engine = {"model": "someone/else", "draft_length": 4, "vllm_args": list(vllm_args)}
    file.write_text(yaml.safe_dump({"engine": engine}))
    plan = make_plan(
        load_settings({}, {}, file).settings,
        replace(read_hardware(), device=device),
        server_module="some.module",
        run_folder=folder,
        log_folder=folder,
        environ=environ,
    )
    arguments = plan.engines[0].command.arguments
    config: dict[str, Any] = json.loads(arguments[arguments.index("--speculative-config") + 1])
    return config


def test_on_a_gpu_lengths_are_named_and_scheduling_stays_asynchronous(tmp_path: Path) -> None:
    config = speculative_config(tmp_path, "gpu", {}, "--max-num-seqs", "4")
    assert config["method"] == "ngram_gpu"
    assert config["num_speculative_tokens_per_batch_size"] == [
        [1, 1, 7], [2, 2, 4], [3, 3, 3], [4, 4, 0]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("device", "environ"), [("cpu", {}), ("gpu", {"VLLM_USE_V2_MODEL_RUNNER": "0"})]
)
def test_elsewhere_nothing_changes(
    tmp_path: Path, device: Literal["cpu", "gpu"], environ: dict[str, str]
) -> None:
    config = speculative_config(tmp_path, device, environ)
    assert config["method"] == "ngram"
    assert "num_speculative_tokens_per_batch_size" not in config


@pytest.mark.parametrize("has_keys", [True, False])
def test_with_keys_suffix_decoding_shares_no_answers(tmp_path: Path, has_keys: bool) -> None:
    """The engine also refuses a shared tree that the operator's own vLLM arguments ask for."""
    file = tmp_path / "paceline.yaml"
    settings: dict[str, Any] = {"engine": {"model": "someone/else", "draft": "suffix"}}
    if has_keys:
        settings["keys"] = {"file": str(tmp_path / "keys")}
    file.write_text(yaml.safe_dump(settings))
    plan = make_plan(
        load_settings({}, {}, file).settings,
        replace(read_hardware(), device="cpu"),
        server_module="some.module",
        run_folder=tmp_path,
        log_folder=tmp_path,
        environ={},
    )
    arguments = plan.engines[0].command.arguments
    drafting = json.loads(arguments[arguments.index("--speculative-config") + 1])
    additional = json.loads(arguments[arguments.index("--additional-config") + 1])
    assert drafting.get("suffix_decoding_max_cached_requests") == (0 if has_keys else None)
    assert additional["paceline"].get("separate_tenants", False) is has_keys
