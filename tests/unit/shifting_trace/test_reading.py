"""What a trace file may hold, and refusals that name the place and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.shifting_trace.reading import parse_trace
from paceline.foundation.shifting_trace.values import (
    Category,
    Script,
    ShiftingTrace,
    TextSource,
    TokenRange,
    TracePhase,
)
from paceline.foundation.workloads import WorkloadError
from unit.shifting_trace.documents import document


def test_a_document_becomes_the_trace_it_describes() -> None:
    assert parse_trace(document(), "small.json") == ShiftingTrace(
        name="small",
        description="Two kinds.",
        categories=(
            Category(
                "easy",
                TextSource("predictable"),
                Script((0.9,), TokenRange(16, 16), TokenRange(10, 20)),
            ),
            Category(
                "hard",
                TextSource("code", 1.0, 32),
                Script((0.2, 0.1), TokenRange(16, 16), TokenRange(12, 12)),
            ),
        ),
        phases=(
            TracePhase("a", (("easy", 1.0),), concurrency=4, duration_s=10.0),
            TracePhase("b", (("easy", 1.0), ("hard", 3.0)), rate_per_s=2.0, duration_s=5.0),
            TracePhase("c", (("hard", 1.0),), concurrency=2, output_tokens=500),
        ),
    )


SCRIPT = ("categories", "easy", "scripted")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), "something", "t.json: format is 'something'; it must be 'paceline shifting"),
        (("version",), 2, "version is 2; this Paceline reads version 1"),
        (("speed",), 3, "speed is unknown; allowed fields are format, version, name"),
        (("name",), None, "name is missing; a trace needs name, categories and phases"),
        (("categories",), None, "categories is missing"),
        (("categories",), ["easy"], "categories must be a non-empty object"),
        (("phases",), None, "phases is missing"),
        (("categories", "easy"), {}, "category 'easy': give text, scripted or both"),
        (("categories", "easy", "mood"), 1, "category 'easy': mood is unknown"),
        (("categories", "easy", "text", "workload"), "poems", "workload is 'poems'; it must be"),
        (("categories", "easy", "text", "workload"), None, "workload is None; it must be one of"),
        (("categories", "easy", "text", "temperature"), -1, "temperature is -1; it must be at"),
        ((*SCRIPT, "acceptance"), None, "scripted: acceptance is missing"),
        ((*SCRIPT, "acceptance"), [], "acceptance is \\[\\]; it must be a non-empty list"),
        ((*SCRIPT, "acceptance"), [0.5, 1.5], "must be a non-empty list of probabilities"),
        ((*SCRIPT, "acceptance"), [float("nan")], "must be a non-empty list of probabilities"),
        ((*SCRIPT, "acceptance"), [True], "must be a list of numbers"),
        ((*SCRIPT, "prompt_tokens"), [1, 2, 3], "it must be a whole number or \\[low, high\\]"),
        ((*SCRIPT, "prompt_tokens"), 1.5, "it must be a whole number or"),
        ((*SCRIPT, "output_tokens"), [20, 10], "output_tokens: 20 to 10 tokens must satisfy"),
        ((*SCRIPT, "output_tokens"), 0, "output_tokens: 0 to 0 tokens must satisfy 1 <= low"),
        (("phases", 0, "name"), None, "phase 1: name is missing"),
        (("phases", 0, "name"), "b", "two phases have the name 'b'"),
        (("phases", 0, "load"), None, "phase 1: load is missing"),
        (("phases", 0, "load"), {}, "phase 1: give either concurrency .* or rate_per_s"),
        (("phases", 0, "load"), {"concurrency": 1, "rate_per_s": 1}, "give either concurrency"),
        (("phases", 0, "load"), {"concurrency": 0}, "load: concurrency is 0; it must be at least"),
        (("phases", 0, "load"), {"users": 3}, "load: users is unknown"),
        (("phases", 0, "duration_s"), None, "give either duration_s or output_tokens"),
        (("phases", 0, "output_tokens"), 100, "give either duration_s or output_tokens"),
        (("phases", 2, "load"), {"rate_per_s": 1}, "output_tokens ends closed loops only"),
        (("phases", 0, "mix"), None, "phase 1: mix is missing"),
        (("phases", 0, "mix"), {}, "mix must name at least one category"),
        (("phases", 0, "mix"), {"easy": 0}, "phase 1, mix: easy is 0; it must be above 0"),
        (("phases", 0, "mix"), ["easy"], "phase 1, mix holds list; it must be a JSON object"),
        (("phases", 0, "mix"), "funny", "mixes the category 'funny'; the trace has easy, hard"),
    ],
)
def test_refusals_name_the_place_and_what_is_allowed(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_trace(document(*path, value=value), "t.json")


def test_a_file_that_is_no_object_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"t\.json holds list"):
        parse_trace([], "t.json")
