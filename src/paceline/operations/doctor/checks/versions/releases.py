"""`versions`: releases of vLLM that Paceline does not know or fit, and several for one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.compatibility.vllm_releases import SUPPORTED, judge_release
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost

_KNOWN = " and ".join(SUPPORTED)
_OFF = (
    "Parts of Paceline whose hooks do not fit this release stay off; without the governor, vLLM "
    "drafts its static number of tokens."
)
_SETTINGS = ("image", "requirements/runtime.lock")


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.kind == "vllm":
        version = observation.version
        if version is None:
            raise CannotJudge("the server does not report its version")
        if judge_release(version) != "unknown":
            return ()
        return [_unknown({"server": version}, is_extended=observation.last.page.has_plugin)]
    findings = [*_unfit_hooks(observation)]
    entries = [
        one
        for one in observation.last.replicas
        if one.get("dialect") == "vllm" and isinstance(one.get("version"), str)
    ]
    if not entries and not findings:
        raise CannotJudge("the gateway shows no version of vLLM for any replica")
    unknown = [one for one in entries if judge_release(one["version"]) == "unknown"]
    if unknown:
        is_extended = any(one.get("has_governor") for one in unknown)
        findings.append(_unknown(_versions(unknown), is_extended=is_extended))
    models = dict.fromkeys(str(one.get("model")) for one in entries)
    for model in models:
        versions = _versions([one for one in entries if str(one.get("model")) == model])
        if len(set(versions.values())) > 1:
            findings.append(_mixed(model, versions))
    return findings


def _unfit_hooks(observation: Observation) -> Sequence[Finding]:
    """Replicas whose governor found that hooks of Paceline do not fit."""
    findings = []
    for name, state in observation.last.governors.items():
        hooks = state.get("seams")
        unfit = {
            str(hook): str(found)
            for hook, found in (hooks.items() if isinstance(hooks, dict) else ())
            if found != "ok"
        }
        if unfit:
            findings.append(
                Finding(
                    id="vllm-hooks-unfit",
                    severity=Severity.WARNING,
                    summary=(
                        f"{len(unfit)} of Paceline's hooks do not fit the vLLM of {name}: parts of "
                        "Paceline are off."
                    ),
                    evidence=tuple(Evidence(hook, found) for hook, found in unfit.items()),
                    cost=unknown_cost("what the parts would have gained is not known"),
                    cause=_OFF,
                    remedy=f"Use a release that Paceline knows: {_KNOWN}",
                    settings=_SETTINGS,
                    subject=name,
                )
            )
    return findings


def _versions(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {str(one.get("name")): one["version"] for one in entries}


def _unknown(versions: Mapping[str, str], *, is_extended: bool) -> Finding:
    """`is_extended`: Paceline runs inside of it."""
    releases = ", ".join(dict.fromkeys(versions.values()))
    return Finding(
        id="vllm-release-unknown",
        severity=Severity.WARNING if is_extended else Severity.INFO,
        summary=f"vLLM {releases} is no release that Paceline knows: it knows {_KNOWN}.",
        evidence=tuple(Evidence(f"vLLM of {name}", version) for name, version in versions.items()),
        cost=unknown_cost("it depends on which parts of Paceline stay off"),
        cause=(
            _OFF
            if is_extended
            else "Names of metrics, messages of the log and known defects differ between releases."
        ),
        remedy=(
            "Use a release that Paceline knows; the engine's log names the hooks that do not fit"
            if is_extended
            else "Read the verdicts of this diagnosis with care"
        ),
        settings=_SETTINGS if is_extended else (),
    )


def _mixed(model: str, versions: Mapping[str, str]) -> Finding:
    return Finding(
        id="vllm-versions-mixed",
        severity=Severity.INFO,
        summary=(
            f"The replicas of {model} run {len(set(versions.values()))} versions of vLLM: "
            f"{', '.join(sorted(set(versions.values())))}."
        ),
        evidence=tuple(Evidence(f"vLLM of {name}", version) for name, version in versions.items()),
        cost=unknown_cost("replicas of one version and another may be equally fast"),
        cause="An upgrade has not reached all replicas, or they use different images.",
        remedy=(
            "Bring all replicas to one version: answers, speed and known defects differ between "
            "releases"
        ),
        settings=("image",),
    )


CHECK = Check(
    "versions",
    "releases of vLLM that Paceline does not know, and several of them for one model",
    ("vllm-release-unknown", "vllm-versions-mixed", "vllm-hooks-unfit"),
    _judge,
)
