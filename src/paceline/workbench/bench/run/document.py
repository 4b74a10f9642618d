"""The JSON document of a run, its schema, and the JSON lines of its requests.

`python -m paceline.workbench.bench.run.document > docs/bench-run.schema.json` writes the JSON
Schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.bootstrap import BootstrapInterval
from paceline.foundation.results.distribution import PERCENTILE_METHOD
from paceline.foundation.results.environment import Environment
from paceline.foundation.results.files import write_text
from paceline.foundation.results.series import Series
from paceline.workbench.bench.results.client_health import ClientHealth
from paceline.workbench.bench.results.speculation import Speculation
from paceline.workbench.bench.results.summary import Summary
from paceline.workbench.bench.results.validity import RunWarning
from paceline.workbench.bench.run.outcome import PhaseResult, RunResult

SCHEMA_VERSION = 1
SCHEMA_ID = "https://paceline.dev/schemas/bench-run-1.json"


@dataclass(frozen=True, slots=True)
class RunDocument:
    """What `paceline bench run --json` writes. docs/bench.md defines every figure."""

    schema_version: Literal[1]
    kind: Literal["paceline bench run"]
    valid: bool
    """Whether the figures describe the server; if not, warnings with `invalidates` say why."""
    interrupted: bool
    """Whether the run was interrupted; the figures are those of the requests that ended."""
    num_unfinished: int
    warnings: tuple[RunWarning, ...]
    summary: Summary
    intervals: dict[str, BootstrapInterval]
    """95 % bootstrap intervals by figure of the summary; empty for a short run."""
    speculation: Speculation
    phases: tuple[PhaseResult, ...]
    repeats: tuple[Summary, ...]
    client: ClientHealth
    series: tuple[Series, ...]
    config: dict[str, Any]
    """The settings, with the model and the temperature that were used."""
    environment: Environment
    percentile_method: str
    notes: tuple[str, ...]
    """The messages of `warnings`."""


def render_document(result: RunResult) -> dict[str, Any]:
    """The document that `--json` writes."""
    return asdict(
        RunDocument(
            schema_version=1,
            kind="paceline bench run",
            valid=result.is_valid,
            interrupted=result.interrupted,
            num_unfinished=result.num_unfinished,
            warnings=result.warnings,
            summary=result.summary,
            intervals=result.intervals,
            speculation=result.speculation,
            phases=result.phases,
            repeats=result.repeats,
            client=result.client,
            series=result.series,
            config=asdict(result.config),
            environment=result.environment,
            percentile_method=PERCENTILE_METHOD,
            notes=tuple(warning.message for warning in result.warnings),
        )
    )


def render_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document. Later versions may add keys."""
    (reference,), components = msgspec.json.schema_components(
        [RunDocument], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": f"paceline bench run, schema version {SCHEMA_VERSION}",
        **reference,
        "$defs": components,
    }


def render_record(record: RequestRecord) -> dict[str, Any]:
    """One line of `--records`: the recorded times and the latencies derived from them."""
    fields = asdict(record)
    del fields["answer"]
    return {
        **fields,
        "ttft_s": record.ttft_s,
        "tpot_s": record.tpot_s,
        "e2e_s": record.e2e_s,
        "dispatch_delay_s": record.dispatch_delay_s,
        "acceptance_rate": None if record.drafts is None else record.drafts.acceptance_rate,
    }


def write_records(path: Path, records: Iterable[RequestRecord]) -> None:
    """Write one JSON object per line, atomically."""
    write_text(path, "".join(json.dumps(render_record(r)) + "\n" for r in records))


if __name__ == "__main__":
    print(json.dumps(render_schema(), indent=2))
