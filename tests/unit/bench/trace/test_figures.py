"""The figures of a run that was seen, and what makes it invalid."""

from __future__ import annotations

from dataclasses import replace

import pytest
from yarl import URL

from paceline.foundation.load.records import RequestOutcome
from paceline.workbench.bench.results.counters import CounterReading
from paceline.workbench.bench.results.speculation import SpeculationCounters
from paceline.workbench.bench.trace.config import AcceptanceMode
from paceline.workbench.bench.trace.figures import TraceFigures, compute_figures
from paceline.workbench.bench.trace.measure import TraceMeasurement
from unit.bench.trace.runs import closed, make_trace, measurement, record, scripted

TRACE = make_trace(
    [scripted("easy", 0.9), scripted("hard", 0.3)],
    [closed("a", 1, "easy", 10.0), closed("b", 1, "hard", 10.0)],
)


def reading(num_drafts: int, accepted_first: int) -> CounterReading:
    counters = SpeculationCounters(2 * num_drafts, accepted_first, num_drafts, (accepted_first, 0))
    return CounterReading(URL("http://127.0.0.1/metrics"), counters, None)


def ended(**settings: object) -> TraceMeasurement:
    """A run of both phases, 100 and 50 tokens."""
    run = measurement(TRACE, **settings)
    run.log.starts_s, run.log.ends_s = [0.0, 10.0], [10.0, 20.0]
    run.log.records = [record(0, 0.0, 9.0, 100), record(1, 10.0, 19.0, 50, phase=1)]
    return run


def accepting(first: float, second: float, **settings: object) -> TraceFigures:
    """A run in which these fractions of 10,000 first draft tokens were accepted in each phase."""
    run = ended(**settings)
    run.log.readings = {
        (0, False): reading(0, 0),
        (0, True): reading(10_000, round(10_000 * first)),
        (1, False): reading(10_000, 0),
        (1, True): reading(20_000, round(10_000 * second)),
    }
    return compute_figures(run)


def test_tokens_of_an_answer_count_in_the_phase_in_which_they_arrive() -> None:
    run = ended()
    run.log.records.append(replace(record(2, 5.0, 15.0, 40), chunk_times_s=(8.0, 9.0, 12.0, 15.0)))
    first, second = compute_figures(run).phases
    assert (first.output_tokens, second.output_tokens) == (120, 70)
    assert (first.num_requests, second.num_requests) == (2, 1)


def test_acceptance_as_scripted_is_valid() -> None:
    """Of the second phase anything from 0.3 to 0.9 is possible: easy answers end in it."""
    for second in (0.3, 0.6):
        assert accepting(0.9, second).is_valid


@pytest.mark.parametrize(("first", "second", "where"), [(0.5, 0.3, "'a'"), (0.9, 0.1, "'b'")])
def test_a_server_that_ignores_the_script_makes_the_run_invalid(
    first: float, second: float, where: str
) -> None:
    figures = accepting(first, second)
    assert not figures.is_valid
    (warning,) = (w for w in figures.warnings if w.id != "other_traffic")
    assert (warning.id, warning.invalidates) == ("acceptance", True)
    assert f"in phase {where} the server accepted" in warning.message
    assert "use --acceptance synthetic" in warning.message


def test_a_server_without_counters_leaves_the_acceptance_unchecked() -> None:
    figures = compute_figures(ended())
    (warning,) = (w for w in figures.warnings if w.id != "other_traffic")
    assert (warning.id, warning.invalidates) == ("acceptance_unchecked", False)
    assert "in phase 'a' (2 phases in all)" in warning.message


def test_a_server_that_drafts_nothing_has_nothing_to_check() -> None:
    run = ended()
    run.log.readings = {
        (phase, is_end): reading(0, 0) for phase in (0, 1) for is_end in (False, True)
    }
    assert compute_figures(run).warnings == ()


def test_by_text_nothing_is_scripted() -> None:
    assert accepting(0.1, 0.1, acceptance=AcceptanceMode.TEXT).is_valid


def test_with_synthetic_acceptance_each_phase_has_a_server_of_its_own() -> None:
    settings = {
        "acceptance": AcceptanceMode.SYNTHETIC,
        "url": None,
        "serve_command": "serve",
        "draft_length": 2,
    }
    assert accepting(0.9, 0.3, **settings).is_valid
    figures = accepting(0.9, 0.6, **settings)
    (warning,) = (w for w in figures.warnings if w.id != "other_traffic")
    assert "the trace scripts 0.3. Use {speculative_config} in --serve" in warning.message


def test_failed_requests_make_a_run_invalid() -> None:
    run = ended()
    failed = replace(
        record(2, 1.0, 2.0, 1),
        outcome=RequestOutcome.TIMEOUT,
        error="too slow",
        chunk_times_s=(),
        output_tokens=None,
    )
    run.log.records.append(failed)
    figures = compute_figures(run)
    assert not figures.is_valid
    assert "1 of 3 requests failed, e.g. too slow" in figures.warnings[0].message


def test_an_interrupted_run_has_the_phases_that_ended() -> None:
    run = ended()
    run.is_interrupted = True
    run.log.ends_s = [10.0]
    figures = compute_figures(run)
    assert [phase.name for phase in figures.phases] == ["a"]
    assert figures.output_tokens_per_s == 10
    assert "interrupted after 1 of 2 phases" in figures.warnings[0].message


def test_without_usage_rates_are_unknown() -> None:
    run = ended()
    run.log.records[0] = replace(run.log.records[0], output_tokens=None)
    figures = compute_figures(run)
    assert figures.output_tokens_per_s is None
    assert [phase.output_tokens_per_s for phase in figures.phases] == [None, None]


def test_a_scaled_run_says_so() -> None:
    (warning,) = compute_figures(ended(time_scale=0.5, acceptance=AcceptanceMode.TEXT)).warnings
    assert (warning.id, warning.invalidates) == ("scaled", False)
