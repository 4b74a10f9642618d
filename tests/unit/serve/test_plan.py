"""What `paceline serve` starts on a machine with a GPU, on one without, and with another draft."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from paceline.demo import draft_path, target_path
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.foundation.named_models import smollm2
from paceline.runtime.config import load_settings
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.serve.engine_plan import PlannedEngines
from paceline.runtime.serve.plan import make_plan


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        ({}, {"max_pause_ms": 200.0}),
        ({"max_pause_ms": 80}, {"max_pause_ms": 80.0}),
        ({"max_pause_ms": None}, {}),
        (
            {"time_per_output_token_ms": 50},
            {"max_pause_ms": 200.0, "time_per_output_token_ms": 50.0},
        ),
    ],
)
def test_the_engine_gets_the_bounds_of_the_service(
    tmp_path: Path, slo: dict[str, Any], expected: dict[str, float]
) -> None:
    """A longest pause by default, which null in the file leaves out."""
    file = tmp_path / "paceline.yaml"
    file.write_text(
        yaml.safe_dump({"engine": {"model": "someone/else"}} | ({"slo": slo} if slo else {}))
    )
    plan = make_plan(
        load_settings({}, {}, file).settings,
        read_hardware(),
        server_module="some.module",
        run_folder=tmp_path,
        log_folder=tmp_path,
        environ={},
    )
    arguments = plan.engines[0].command.arguments
    config = json.loads(arguments[arguments.index("--additional-config") + 1])["paceline"]
    assert {name: value for name, value in config.items() if name.endswith("_ms")} == expected


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


def planned_with(draft: str) -> PlannedEngines:
    """Two engines of the bundled pair, with another drafter."""
    loaded = load_settings(
        {("engine", "model"): ("MODEL", "bundled"), ("engine", "replicas"): ("--replicas", 2)}, {}
    )
    plan = make_plan(
        loaded.settings,
        replace(read_hardware(), device="cpu"),
        server_module="some.module",
        run_folder=Path("/run"),
        log_folder=Path("/log"),
        environ={},
    )
    assert [one.command.draft for one in plan.engines] == [str(draft_path())] * 2
    assert [one.command.swapped_draft for one in plan.engines] == [None, None]
    return plan.plan_with_draft(draft)


def test_a_swapped_draft_changes_the_drafter_alone(tmp_path: Path) -> None:
    """A link is followed: an engine that restarts later must not read another folder."""
    (tmp_path / "current").symlink_to(draft_path())
    linked = tmp_path / "current"
    copied = tmp_path / "copied"
    shutil.copytree(draft_path(), copied)
    swapped = planned_with(str(copied))
    assert [one.name for one in swapped.engines] == ["engine-0", "engine-1"]
    assert [one.command.swapped_draft for one in swapped.engines] == [str(copied)] * 2
    before = planned_with(str(linked)).engines[0].command
    after = swapped.engines[0].command
    assert before.draft == str(draft_path().resolve())
    assert after.draft == str(copied)
    differing = [
        (one, other)
        for one, other in zip(before.arguments, after.arguments, strict=True)
        if one != other
    ]
    assert len(differing) == 1
    assert json.loads(differing[0][1])["model"] == str(copied)
    assert after.socket == before.socket


@pytest.mark.parametrize(
    ("draft", "expected", "has_governor"),
    [("ngram", "ngram", True), ("none", "none", False), ("auto", str(draft_path()), True)],
)
def test_a_method_can_be_swapped_in(draft: str, expected: str, has_governor: bool) -> None:
    command = planned_with(draft).engines[1].command
    assert (command.draft, command.swapped_draft) == (expected, draft)
    assert (command.control_socket is not None) is has_governor


@pytest.mark.parametrize("fault", ["missing", "no weights", "another tokenizer"])
def test_a_draft_is_checked_as_at_a_start(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "draft"
    if fault != "missing":
        shutil.copytree(draft_path(), folder)
    if fault == "no weights":
        (folder / "model.safetensors").unlink()
    if fault == "another tokenizer":
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        tokenizer["model"]["vocab"] = {f"not {token}": id for token, id in vocabulary.items()}
        tokenizer["added_tokens"] = []
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    says = {
        "missing": "does not exist",
        "no weights": "contains no weights",
        "another tokenizer": "cannot draft for",
    }
    with pytest.raises(ModelUnfit, match=says[fault]):
        planned_with(str(folder))


@pytest.mark.parametrize("name", [" a", "m" * 257, "a\u202eb"])
@pytest.mark.parametrize("setting", ["served_name", "aliases"])
def test_a_name_that_is_no_model_id_is_refused(tmp_path: Path, setting: str, name: str) -> None:
    file = tmp_path / "paceline.yaml"
    engine = {"model": "someone/else", setting: name if setting == "served_name" else ["b", name]}
    file.write_text(yaml.safe_dump({"engine": engine}))
    with pytest.raises(ValueError, match=rf"{setting}.*1 to 256 printable characters"):
        make_plan(
            load_settings({}, {}, file).settings,
            read_hardware(),
            server_module="some.module",
            run_folder=tmp_path,
            log_folder=tmp_path,
            environ={},
        )


def test_a_swapped_draft_never_changes_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` was the bundled pair when the server started; its packages are installed since."""
    monkeypatch.setattr(smollm2, "_MODULE", "no_such_package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = make_plan(
        load_settings({("engine", "model"): ("MODEL", "auto")}, {}).settings,
        replace(read_hardware(), device="cpu"),
        server_module="some.module",
        run_folder=Path("/run"),
        log_folder=Path("/log"),
        environ={},
    )
    monkeypatch.setattr(smollm2, "folder", lambda *_: pytest.fail("it was looked up again"))
    [engine] = plan.plan_with_draft("ngram").engines
    assert (plan.served_name, engine.command.draft) == ("paceline-demo", "ngram")
    assert str(target_path()) in engine.command.arguments
