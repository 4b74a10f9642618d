"""The names of the servers and the commands that they stand for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.headline import arms
from benchmarks.headline.arms import DEFAULT_ARMS, ModelFolders, parse_arm, parse_arms, server_plan
from paceline import demo
from paceline.engine.launch.hardware import read_hardware

BUNDLED = ModelFolders("bundled", str(demo.target_path()), str(demo.draft_path()))


@pytest.mark.parametrize("name", [*DEFAULT_ARMS, "vllm+K=3", "paceline#b"])
def test_an_arm_keeps_its_name(name: str) -> None:
    assert parse_arm(name).name == name


@pytest.mark.parametrize(
    "spec", ["", "vllm+K=", "vllm+K=0", "naive+K=2", "paceline+layout", "vllm#", "vllm+K=2+layout"]
)
def test_an_unknown_arm_is_refused_by_name(spec: str) -> None:
    with pytest.raises(ValueError, match="the arm"):
        parse_arm(spec)


def test_the_control_of_the_ratios_must_be_there_and_names_are_unique() -> None:
    with pytest.raises(ValueError, match="'vllm' must be among them"):
        parse_arms(["naive", "paceline"])
    with pytest.raises(ValueError, match="two arms are called 'vllm'"):
        parse_arms(["vllm", "vllm"])


def test_only_arms_with_a_drafter_report_drafts() -> None:
    found = [arm.name for arm in parse_arms(DEFAULT_ARMS) if arm.speculates]
    assert found == ["vllm+layout+K=2", "vllm+layout+K=4", "vllm+layout+K=8", "paceline"]


def test_plain_vllm_runs_without_plugins_and_without_settings_of_paceline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arms, "find_server_module", lambda: "vllm.server")
    plan = server_plan(parse_arm("vllm"), BUNDLED, 2**28)
    assert plan["command"][1:] == [
        *("-m", "vllm.server", "--model", BUNDLED.target),
        *("--host", "127.0.0.1", "--port", "{port}", "--disable-uvicorn-access-log"),
        *("--kv-cache-memory-bytes", str(2**28)),
    ]
    assert plan["env"]["VLLM_PLUGINS"] == ""
    assert not any(name.startswith(("OMP", "KMP", "PACELINE", "LD_")) for name in plan["env"])


def test_static_speculation_drafts_its_length_in_the_layout_of_paceline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arms, "find_server_module", lambda: "vllm.server")
    plan = server_plan(parse_arm("vllm+layout+K=4"), BUNDLED, 2**28)
    words = plan["command"]
    config = json.loads(words[words.index("--speculative-config") + 1])
    assert config["num_speculative_tokens"] == 4
    assert config["model"] == BUNDLED.draft
    assert words.count("--kv-cache-memory-bytes") == 1
    assert ("--enforce-eager" in words) == bool(read_hardware().why_not_compiled)
    assert "--scheduler-cls" not in words
    assert "VLLM_PLUGINS" not in plan["env"]


def test_an_eager_arm_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "find_server_module", lambda: "vllm.server")
    arm = parse_arm("vllm+layout+eager+K=2#b")
    assert arm.name == "vllm+layout+eager+K=2#b"
    assert "--enforce-eager" in server_plan(arm, BUNDLED, 2**28)["command"]


def test_paceline_is_served_with_its_defaults_but_the_size_of_the_cache() -> None:
    plan = server_plan(parse_arm("paceline"), BUNDLED, 2**28)
    assert plan["command"][:5] == ["paceline", "serve", BUNDLED.target, "--draft", BUNDLED.draft]
    settings = [name for name in plan["env"] if name.startswith("PACELINE")]
    assert settings == ["PACELINE_ENGINE__KV_CACHE_BYTES"]


def test_the_naive_server_is_a_program_of_its_own() -> None:
    plan = server_plan(parse_arm("naive"), BUNDLED, 2**28)
    assert Path(plan["command"][1]).name == "naive_server.py"
    assert Path(plan["command"][1]).is_file()
