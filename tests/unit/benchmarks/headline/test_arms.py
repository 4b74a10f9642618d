"""The names of the servers and the commands that they stand for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.headline import arms
from benchmarks.headline.arms import (
    GROUPS,
    ModelFolders,
    default_arms,
    memory_bytes,
    parse_arm,
    parse_arms,
    server_plan,
)
from paceline import demo
from paceline.foundation.quantized.compression import quantization_config
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.runtime.config import load_settings
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.serve.plan import make_plan

BUNDLED = ModelFolders(str(demo.target_path()), str(demo.draft_path()), gguf="x.gguf")
FURTHER = ("vllm+layout+w8a8", "vllm+layout+fp8+ngram+K=2#b", "paceline+awq+ngram", "paceline#b")


@pytest.mark.parametrize("name", [*default_arms("servers"), *default_arms("speculation"), *FURTHER])
def test_an_arm_keeps_its_name(name: str) -> None:
    assert parse_arm(name).name == name


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "vllm+layout+K=",
        "vllm+layout+K=0",
        "vllm+K=2",
        "naive+K=2",
        "paceline+layout",
        "vllm#",
        "vllm+layout+K=2+ngram",
        "vllm+layout+ngram",
        "llama.cpp+ngram",
        "paceline+lookup",
        "naive+layout",
        "llama.cpp+layout",
        "llama.cpp+w8a8",
    ],
)
def test_an_unknown_arm_is_refused_by_name(spec: str) -> None:
    with pytest.raises(ValueError, match="the arm"):
        parse_arm(spec)


@pytest.mark.parametrize(
    "spec", ["naive+w8a8", "vllm+w8a8", "paceline+w8", "paceline+w8a8+K=2", "vllm+layout+K=2+awq"]
)
def test_quantized_weights_elsewhere_are_refused_with_what_is_allowed(spec: str) -> None:
    allowed = r"paceline\[\+SCHEME\].*SCHEME is one of awq, gptq, w8a8, smoothquant, fp8"
    with pytest.raises(ValueError, match=allowed):
        parse_arm(spec)


def test_the_control_of_the_ratios_must_be_there_and_names_are_unique() -> None:
    with pytest.raises(ValueError, match="'vllm' must be among them"):
        parse_arms(["naive", "paceline"])
    with pytest.raises(ValueError, match="two arms are called 'vllm'"):
        parse_arms(["vllm", "vllm"])


def test_only_arms_with_a_drafter_report_drafts() -> None:
    arms = parse_arms(default_arms("speculation"))
    assert [arm.name for arm in arms if arm.reports_drafts] == [
        *("vllm+layout+K=1", "vllm+layout+K=2", "vllm+layout+K=3", "vllm+layout+K=5"),
        *("vllm+layout+ngram+K=3", "paceline"),
    ]


def test_each_group_fits_a_machine_of_24_gib_and_has_the_controls() -> None:
    for group in GROUPS:
        names = default_arms(group)
        assert {"vllm", "vllm+layout", "paceline"} < set(names)
        assert sum("#again" in name for name in names) == 1
        assert sum(memory_bytes(arm, 2**28) for arm in parse_arms(names)) < 21 * 2**30


def test_ngrams_are_arms_of_their_own_beside_the_default_drafter() -> None:
    names = [name for group in GROUPS for name in default_arms(group) if "ngram" in name]
    assert names == ["paceline+ngram", "vllm+layout+ngram+K=3"]


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


@pytest.mark.parametrize("arm", ["vllm+layout+ngram+K=3", "paceline+ngram"])
def test_an_arm_with_ngrams_ignores_the_default_drafter(
    arm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arms, "find_server_module", lambda: "vllm.server")
    words = " ".join(server_plan(parse_arm(arm), BUNDLED, 2**28)["command"])
    assert "ngram" in words
    assert BUNDLED.draft not in words


def test_llamacpp_batches_its_users_and_looks_up_ngrams_where_asked() -> None:
    """2**28 bytes hold 11,650 tokens of 23,040 bytes."""
    words = server_plan(parse_arm("llama.cpp"), BUNDLED, 2**28)["command"]
    assert words[words.index("--model") + 1] == "x.gguf"
    assert words[words.index("--ctx-size") + 1] == "11650"
    assert words[words.index("--parallel") + 1] == "64"
    assert "--spec-type" not in words
    assert "--spec-type" in server_plan(parse_arm("llama.cpp+lookup"), BUNDLED, 2**28)["command"]


def test_paceline_is_served_with_its_defaults_but_the_size_of_the_cache() -> None:
    plan = server_plan(parse_arm("paceline"), BUNDLED, 2**28)
    assert plan["command"][:5] == ["paceline", "serve", BUNDLED.target, "--draft", BUNDLED.draft]
    settings = [name for name in plan["env"] if name.startswith("PACELINE")]
    assert settings == ["PACELINE_ENGINE__KV_CACHE_BYTES"]


def test_a_quantized_arm_serves_its_folder_and_the_draft_as_it_is() -> None:
    folders = replace(BUNDLED, quantized={"w8a8": "/runs/w8a8"})
    words = server_plan(parse_arm("paceline+w8a8"), folders, 2**28)["command"]
    assert words[:5] == ["paceline", "serve", "/runs/w8a8", "--draft", BUNDLED.draft]


@pytest.mark.parametrize(
    ("flags", "scheme", "dtype"),
    [
        ({"avx512f", "avx512_vnni"}, "w8a8", "float32"),
        ({"avx512f", "avx512_vnni"}, "awq", "bfloat16"),
        ({"avx512f", "avx512_vnni", "avx512_bf16"}, "w8a8", "bfloat16"),
    ],
)
def test_the_quantized_layout_is_what_paceline_serve_chooses(
    flags: set[str], scheme: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without native bfloat16, INT8 is computed in float32, and 4 bits in 16 bits by its kernel."""
    folder = quantized_folder(tmp_path / scheme, scheme)
    hardware = replace(read_hardware(), device="cpu", cpu_flags=frozenset(flags))
    monkeypatch.setattr(arms, "find_server_module", lambda: "vllm.server")
    monkeypatch.setattr(arms, "read_hardware", lambda: hardware)
    folders = replace(BUNDLED, quantized={scheme: str(folder)})
    plan = server_plan(parse_arm(f"vllm+layout+{scheme}+K=4"), folders, 2**28)
    words = plan["command"]
    assert words[words.index("--model") + 1] == str(folder)
    assert words[words.index("--dtype") + 1] == dtype
    assert json.loads(words[words.index("--speculative-config") + 1])["model"] == BUNDLED.draft

    given = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(2**28), "PACELINE_ENGINE__MODEL": str(folder)}
    served = make_plan(
        load_settings({}, {**given, "PACELINE_ENGINE__DRAFT": BUNDLED.draft}).settings,
        hardware,
        server_module="vllm.server",
        run_folder=tmp_path,
        log_folder=tmp_path,
        environ={},
    )
    (engine,) = served.engines
    for option in ("--dtype", "--kv-cache-memory-bytes"):
        of_engine = engine.command.arguments[engine.command.arguments.index(option) + 1]
        assert words[words.index(option) + 1] == of_engine
    assert ("--enforce-eager" in words) == ("--enforce-eager" in engine.command.arguments)
    threads = [env.get("OMP_NUM_THREADS") for env in (plan["env"], engine.command.environment)]
    assert threads[0] == threads[1]


def quantized_folder(folder: Path, scheme: str) -> Path:
    """The bundled target with the configuration that `paceline quantize` writes."""
    shutil.copytree(demo.target_path(), folder)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = quantization_config(SCHEMES[scheme], 32)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_naive_server_is_a_program_of_its_own() -> None:
    plan = server_plan(parse_arm("naive"), BUNDLED, 2**28)
    assert Path(plan["command"][1]).name == "naive_server.py"
    assert Path(plan["command"][1]).is_file()
