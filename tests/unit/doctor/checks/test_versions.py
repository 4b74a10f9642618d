"""Releases of vLLM, and the defects that are known of them."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.operations.doctor.checks.versions import defects, releases
from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.values import CannotJudge, Severity
from unit.doctor.gateways import observe_gateway
from unit.doctor.simulated import SimulatedEngine, observe_vllm

PLUGIN = 'paceline_engine_honours_draft_caps{engine="0"} 1\n'
ON_CPU = (
    "INFO 11-23 12:00:05 [core.py:93] Initializing a V1 LLM engine with config: model='m', "
    "dtype=torch.float32, device_config=cpu, seed=0"
)


def blocks(size: int, *, is_chosen: bool = False) -> str:
    return (
        f'vllm:cache_config_info{{block_size="{size}",user_specified_block_size="{is_chosen}"}} 1\n'
    )


def entry(name: str, version: str | None, **changes: Any) -> dict[str, Any]:
    return {
        "name": name, "model": "m", "dialect": "vllm", "origin": "local", "has_governor": True,
        "version": version, **changes,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cpu", "0.33.2"])
def test_known_releases_pass(version: str) -> None:
    assert not releases.CHECK.judge(observe_vllm(version=version))
    entries = (entry("r0", version), entry("r1", version))
    assert not releases.CHECK.judge(observe_gateway(entries=entries))


@pytest.mark.parametrize(("page", "severity"), [("", Severity.INFO), (PLUGIN, Severity.WARNING)])
def test_an_unknown_release_is_worse_where_paceline_runs_inside(
    page: str, severity: Severity
) -> None:
    observation = observe_vllm(SimulatedEngine(extra=page), version="0.26.0")
    (finding,) = releases.CHECK.judge(observation)
    assert (finding.id, finding.severity) == ("vllm-release-unknown", severity)
    assert "0.26.0" in finding.summary


def test_an_unknown_release_behind_a_gateway_names_its_replicas() -> None:
    entries = (entry("r0", "0.32.0"), entry("r1", "0.26.0", model="other"))
    (finding,) = releases.CHECK.judge(observe_gateway(entries=entries))
    assert [(one.name, one.value) for one in finding.evidence] == [("vLLM of r1", "0.26.0")]


def test_two_versions_for_one_model_are_found() -> None:
    entries = [entry("r0", "0.32.0"), entry("r1", "0.32.1"), entry("r2", None)]
    (finding,) = releases.CHECK.judge(observe_gateway(entries=entries))
    assert (finding.id, finding.severity) == ("vllm-versions-mixed", Severity.INFO)
    assert [one.value for one in finding.evidence] == ["0.32.0", "0.32.1"]
    entries[1]["model"] = "other"
    assert not releases.CHECK.judge(observe_gateway(entries=entries))


def test_hooks_that_do_not_fit_are_found_also_without_a_version() -> None:
    states = {
        "r0": {"seams": {"schedule": "ok", "length_table": "is missing"}},
        "r1": {"seams": {"schedule": "ok"}},
        "r2": {},
    }
    (finding,) = releases.CHECK.judge(observe_gateway(governors=(states,)))
    assert (finding.id, finding.subject) == ("vllm-hooks-unfit", "r0")
    assert [(one.name, one.value) for one in finding.evidence] == [("length_table", "is missing")]


def test_without_a_version_nothing_is_said_of_releases() -> None:
    with pytest.raises(CannotJudge, match="does not report its version"):
        releases.CHECK.judge(observe_vllm())
    for entries in ((), (entry("r0", None),), (entry("r0", "0.1", dialect="sglang"),)):
        with pytest.raises(CannotJudge, match="no version of vLLM"):
            releases.CHECK.judge(observe_gateway(entries=entries))


def test_stock_vllm_that_speculates_on_a_cpu_is_critical() -> None:
    (finding,) = defects.CHECK.judge(observe_vllm(version="0.32.0", log_lines=[ON_CPU]))
    assert (finding.id, finding.severity) == ("vllm-known-defects", Severity.CRITICAL)
    assert finding.evidence[0].name.endswith("/issues/55005")
    assert len(finding.evidence) == 4
    for version in ("0.32.0+cpu", "0.32.1.dev7+g0a1b2c3.cpu"):
        assert defects.CHECK.judge(observe_vllm(version=version))
    here = LocalCpu(frozenset({"avx2"}), frozenset({"_C_AVX2"}))
    assert defects.CHECK.judge(observe_vllm(version="0.32.0", local_cpu=here))


def test_without_speculation_the_rest_is_a_remark() -> None:
    engine = SimulatedEngine(reached=())
    (finding,) = defects.CHECK.judge(observe_vllm(engine, version="0.32.0", log_lines=[ON_CPU]))
    assert finding.severity is Severity.INFO
    assert len(finding.evidence) == 1


def test_paceline_inside_of_vllm_corrects_the_defects_of_releases_that_fit() -> None:
    engine = SimulatedEngine(extra=PLUGIN)
    assert not defects.CHECK.judge(observe_vllm(engine, version="0.32.0", log_lines=[ON_CPU]))
    assert defects.CHECK.judge(observe_vllm(engine, version="0.26.0", log_lines=[ON_CPU]))


def test_a_server_on_a_gpu_has_none_of_them() -> None:
    on_gpu = ON_CPU.replace("device_config=cpu", "device_config=cuda")
    assert not defects.CHECK.judge(observe_vllm(version="0.32.0", log_lines=[on_gpu]))
    engine = SimulatedEngine(extra=blocks(16))
    assert not defects.CHECK.judge(observe_vllm(engine, version="0.32.0"))


@pytest.mark.parametrize("page", ["", blocks(128), blocks(544), blocks(16, is_chosen=True)])
def test_a_server_that_may_be_on_a_cpu_is_not_judged(page: str) -> None:
    with pytest.raises(CannotJudge, match="4 known defects on CPUs"):
        defects.CHECK.judge(observe_vllm(SimulatedEngine(extra=page), version="0.32.0"))


def test_engines_of_a_gateway_are_corrected_and_its_remote_replicas_unknown() -> None:
    local, remote = entry("r0", "0.32.0"), entry("r1", "0.32.0", origin="url")
    assert not defects.CHECK.judge(observe_gateway(entries=(local,)))
    for entries in ((), (local, remote), (entry("r0", "0.26.0"),), (entry("r0", None),)):
        with pytest.raises(CannotJudge, match="ask their ports"):
            defects.CHECK.judge(observe_gateway(entries=entries))


def test_a_server_without_a_version_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="does not report its version"):
        defects.CHECK.judge(observe_vllm(log_lines=[ON_CPU]))
