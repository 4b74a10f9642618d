"""The JSON document of a validation and its schema.

`python -m paceline.operations.validate.report.document > docs/validate.schema.json` writes the JSON
Schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

import msgspec

from paceline.foundation.command_line.printable import well_formed
from paceline.foundation.results.environment import Environment
from paceline.operations.validate.report.comparison import Comparison
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import CheckResult, Status

SCHEMA_VERSION = 1
SCHEMA_ID = "https://paceline.dev/schemas/validate-1.json"
KIND = "paceline validate"


class Verdict(StrEnum):
    """The result of a whole validation."""

    PASSED = "passed"
    """No check failed, and every required one passed."""
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """No check failed, but some were not reached, or none passed."""


EXIT_CODES = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INCOMPLETE: 3}


@dataclass(frozen=True, slots=True)
class Signature:
    """An Ed25519 signature of the document without this key, as `signing` says."""

    algorithm: Literal["ed25519"]
    public_key: str
    """The 32 bytes of the key in Base64."""
    value: str
    """The 64 bytes of the signature in Base64."""


@dataclass(frozen=True, slots=True)
class Server:
    """The deployment, as it describes itself."""

    url: str
    admin_url: str | None
    kind: str
    """paceline, vllm or other."""
    model: str
    max_model_len: int | None
    version: str | None
    """Of vLLM, where the server reports it."""


@dataclass(frozen=True, slots=True)
class Part:
    """One run of a validation; `--resume` adds another."""

    date_utc: str
    paceline: str
    """The version that ran this part."""
    checks: tuple[str, ...]
    """The checks that ended in this part."""


@dataclass(frozen=True, slots=True)
class ValidationDocument:
    """What `paceline validate --json` writes."""

    schema_version: Literal[1]
    kind: Literal["paceline validate"]
    verdict: Verdict
    num_passed: int
    num_failed: int
    num_skipped: int
    required: tuple[str, ...]
    """Checks whose SKIP fails the validation (`--require`, `--only`)."""
    checks: tuple[CheckResult, ...]
    server: Server
    tier: Tier
    config: dict[str, Any]
    """The settings that decide what is checked; `--resume` needs the same."""
    seconds: float
    """Time spent in checks, over all parts of a resumed validation."""
    environment: Environment
    comparison: Comparison | None = None
    """With the run that `--previous` names."""
    parts: tuple[Part, ...] = ()
    """The runs that the checks come from, the first one first. `environment` is of the last."""
    signature: Signature | None = None
    """With `--sign`."""


def decide_verdict(checks: Sequence[CheckResult], required: Sequence[str]) -> Verdict:
    """The verdict about all checks."""
    if any(check.status is Status.FAIL for check in checks):
        return Verdict.FAILED
    if not all(check.is_final for check in checks):
        return Verdict.INCOMPLETE
    missing = {check.id for check in checks if check.status is Status.SKIP} & set(required)
    if missing:
        return Verdict.FAILED
    is_any_passed = any(check.status is Status.PASS for check in checks)
    return Verdict.PASSED if is_any_passed else Verdict.INCOMPLETE


def make_document(
    checks: Sequence[CheckResult],
    *,
    server: Server,
    tier: Tier,
    required: Sequence[str],
    config: Mapping[str, Any],
    environment: Environment,
    comparison: Comparison | None = None,
    parts: Sequence[Part] = (),
) -> ValidationDocument:
    """The unsigned document of these results."""

    def count(status: Status) -> int:
        return sum(check.status is status for check in checks)

    return ValidationDocument(
        schema_version=1,
        kind="paceline validate",
        verdict=decide_verdict(checks, required),
        num_passed=count(Status.PASS),
        num_failed=count(Status.FAIL),
        num_skipped=count(Status.SKIP),
        required=tuple(required),
        checks=tuple(checks),
        server=server,
        tier=tier,
        config=dict(config),
        seconds=sum(check.seconds for check in checks),
        environment=environment,
        comparison=comparison,
        parts=tuple(parts),
    )


def render_document(document: ValidationDocument) -> dict[str, Any]:
    """The document as JSON values, which UTF-8 can encode: for the signature, and for the page."""
    built = _well_formed(msgspec.to_builtins(asdict(document)))
    assert isinstance(built, dict)
    return built


def _well_formed(value: Any) -> Any:
    """The value without lone surrogates, which a server's answer or a path may hold."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {name: _well_formed(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_well_formed(one) for one in value]
    return value


def render_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document. Later versions may add keys."""
    (reference,), components = msgspec.json.schema_components(
        [ValidationDocument], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": f"{KIND}, schema version {SCHEMA_VERSION}",
        **reference,
        "$defs": components,
    }


if __name__ == "__main__":
    print(json.dumps(render_schema(), indent=2))
