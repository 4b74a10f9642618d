"""The JSON Schema of the report: up to date, and kept by real reports."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from paceline.foundation.load.config import RunConfig
from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.run.document import render_document, render_schema
from paceline.workbench.bench.run.outcome import assemble_result
from paceline.workbench.bench.run.plan import plan_run
from unit.bench.run.schema import SCHEMA, validate


def test_the_published_schema_is_the_one_of_the_code() -> None:
    """Its module prints it: python -m paceline.workbench.bench.run.document."""
    assert json.loads(SCHEMA.read_text()) == render_schema()


def test_the_schema_is_itself_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(render_schema())


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"valid": "yes"},
        {"summary": {}},
        {"warnings": [{"id": "x"}]},
        {"intervals": {"ttft_ms.p50": {"low": 1.0}}},
    ],
)
def test_documents_of_another_shape_are_refused(change: dict[str, Any]) -> None:
    document = {**empty_document(), **change}
    with pytest.raises(jsonschema.ValidationError):
        validate(document)


def test_a_run_without_requests_is_valid_by_the_schema() -> None:
    validate(empty_document())


def empty_document() -> dict[str, Any]:
    """The report of a run that was interrupted before its first request."""
    config = RunConfig(url="http://127.0.0.1:1", workload="mixed", num_requests=1)
    phases = plan_run(config, None, None)
    result = assemble_result(config, describe_environment(["paceline"]), phases, [], [])
    document: dict[str, Any] = json.loads(json.dumps(render_document(result)))
    assert document["interrupted"]
    return document
