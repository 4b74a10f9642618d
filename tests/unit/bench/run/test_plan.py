"""What a run sends, planned from its settings without a server."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from paceline.foundation.load.config import RunConfig
from paceline.foundation.load.loads import ClosedLoop, OpenLoop, RecordedArrivals
from paceline.foundation.load.phase_file import PhaseConfig
from paceline.foundation.workloads import FillerText, WorkloadError
from paceline.workbench.bench.run.plan import TracePrompts, load_run_trace, plan_run
from paceline.workbench.bench.run.repeat import PhaseSource

URL = "http://127.0.0.1:8000"


def test_a_run_without_phases_is_one_phase() -> None:
    config = RunConfig(url=URL, workload="hard", num_requests=5, seed=3, max_tokens=9)
    (phase,) = plan_run(config, None, None)
    assert (phase.workload, phase.load, phase.num_requests) == ("hard", ClosedLoop(1), 5)
    assert (phase.temperature, phase.max_tokens, phase.seed) == (1.0, 9, 3)
    assert (phase.start_s, phase.end_s) == (0.0, None)


def test_phases_follow_each_other_with_seeds_of_their_own() -> None:
    phases = (
        PhaseConfig("a", 10.0, ClosedLoop(1), workload="code"),
        PhaseConfig("b", 5.0, OpenLoop(4.0), workload="code", max_tokens=7),
    )
    config = RunConfig(url=URL, concurrency=None, phases=phases, seed=3)
    first, second = plan_run(config, None, None)
    assert [(p.start_s, p.end_s, p.seed) for p in (first, second)] == [(0, 10, 3), (10, 15, 4)]
    assert first.prompts != second.prompts
    assert (first.max_tokens, second.max_tokens) == (None, 7)


def test_a_trace_gives_requests_and_times(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 1000 * n, "input_length": 10, "output_length": 4} for n in range(3)]
    trace.write_text("\n".join(map(json.dumps, lines)))
    config = RunConfig(
        url=URL, concurrency=None, trace_file=str(trace), trace_speed=2.0, trace_unit="ms"
    )
    (phase,) = plan_run(config, load_run_trace(config), FillerText("text " * 9, 3.0))
    assert phase.load == RecordedArrivals()
    assert [prompt.due_s for prompt in phase.prompts] == [0.0, 0.5, 1.0]
    assert {len(prompt.text or "") for prompt in phase.prompts} == {30}
    with pytest.raises(ValueError, match="give a filler text"):
        plan_run(config, load_run_trace(config), None)


def test_a_system_prompt_precedes_all_prompts(tmp_path: Path) -> None:
    file = tmp_path / "system.txt"
    file.write_text("Be brief.\n")
    config = RunConfig(url=URL, workload="json", num_requests=1, system_prompt_file=str(file))
    (phase,) = plan_run(config, None, None)
    systems = {prompt.messages[0]["content"] for prompt in phase.prompts if prompt.messages}
    assert systems == {"Be brief."}


def test_an_absent_system_prompt_is_refused() -> None:
    config = RunConfig(url=URL, num_requests=1, system_prompt_file="absent.txt")
    with pytest.raises(WorkloadError, match=r"cannot read absent\.txt"):
        plan_run(config, None, None)


def test_repeats_continue_with_the_next_prompts() -> None:
    config = RunConfig(url=URL, workload="code", num_requests=3)
    (phase,) = plan_run(config, None, None)
    source = PhaseSource(phase, phase.sampling(config, "m", "bench-"))
    first = list(itertools.islice(source.specs(), 3))
    second = list(itertools.islice(source.specs(), 3))
    assert [spec.index for spec in first + second] == list(range(6))
    assert len({spec.body for spec in first + second}) == 6
    assert first[0].request_id == "bench-0-0"


def test_prompts_that_repeat_are_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Prompts of a trace are made when they are asked for, in each round again."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"at_s": 0, "prompt": "a"}\n{"at_s": 1, "prompt": "b"}\n')
    config = RunConfig(url=URL, concurrency=1, num_requests=5, trace_file=str(trace))
    (phase,) = plan_run(config, load_run_trace(config), None)
    asked_for: list[int] = []
    get = TracePrompts.__getitem__

    def counted(prompts: TracePrompts, number: int) -> object:
        asked_for.append(number)
        return get(prompts, number)

    monkeypatch.setattr(TracePrompts, "__getitem__", counted)
    source = PhaseSource(phase, phase.sampling(config, "m", ""))
    specs = list(itertools.islice(source.specs(), 5))
    assert [json.loads(spec.body)["prompt"] for spec in specs] == ["a", "b", "a", "b", "a"]
    assert [number for number in asked_for if number < 2] == [0, 1, 0, 1, 0]


def test_a_trace_begins_anew_in_each_repeat(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"at_s": 0, "prompt": "a"}\n{"at_s": 1, "prompt": "b"}\n')
    config = RunConfig(url=URL, concurrency=None, trace_file=str(trace), repeats=2)
    (phase,) = plan_run(config, load_run_trace(config), None)
    source = PhaseSource(phase, phase.sampling(config, "m", ""))
    specs = [*source.specs(), *source.specs()]
    assert [spec.index for spec in specs] == [0, 1, 2, 3]
    assert [json.loads(spec.body)["prompt"] for spec in specs] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concurrency": None}, "give either a concurrency"),
        ({"rate_per_s": 2.0}, "give either a concurrency"),
        ({"num_requests": None}, "so that the run ends"),
        ({"final_rate_per_s": 2.0}, "a rate that changes"),
        ({"repeats": 0}, "repeats is 0; it must be at least 1"),
        (
            {
                "concurrency": None,
                "phases": (PhaseConfig("a", 1.0, ClosedLoop(1), workload="code"),),
            },
            "phases have durations of their own",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig(**{"url": URL, "num_requests": 5, **settings})  # type: ignore[arg-type]


def test_the_prompts_of_a_long_trace_are_made_when_they_are_sent(tmp_path: Path) -> None:
    """A million tokens each: all at once would be gigabytes."""
    trace = tmp_path / "trace.csv"
    rows = "".join(f"{n},1000000,4\n" for n in range(5000))
    trace.write_text("at_s,input_length,output_length\n" + rows)
    config = RunConfig(url=URL, concurrency=None, trace_file=str(trace), num_warmup=2)
    (phase,) = plan_run(config, load_run_trace(config), FillerText("text " * 9, 3.0))
    assert (len(phase.prompts), phase.offsets_s[-1]) == (5000, 4999.0)
    assert len(phase.prompts[-1].text or "") == 3_000_000
    assert phase.prompts[4998:][1] == phase.prompts[4999]
    with pytest.raises(IndexError):
        phase.prompts[5000]
