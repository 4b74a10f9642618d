"""Files of phases: what they may hold, and refusals that name the phase and the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.load.loads import ClosedLoop, OpenLoop
from paceline.foundation.load.phase_file import PhaseConfig, load_phases
from paceline.foundation.workloads import WorkloadError

DAY = """
phases:
  - {name: quiet, duration_s: 60, workload: code, load: {concurrency: 1}}
  - name: burst
    duration_s: 30.5
    prompts: mine.jsonl
    temperature: 0.7
    max_tokens: 64
    load: {rate_per_s: 8, burstiness: 0.25, final_rate_per_s: 16, max_in_flight: 64}
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_names_the_load_and_the_requests_of_each_phase(tmp_path: Path) -> None:
    quiet, burst = load_phases(write(tmp_path / "day.yaml", DAY))
    assert quiet == PhaseConfig("quiet", 60.0, ClosedLoop(1), workload="code")
    assert burst == PhaseConfig(
        "burst",
        30.5,
        OpenLoop(8.0, 0.25, 16.0, 64),
        prompts_file=str(tmp_path / "mine.jsonl"),
        temperature=0.7,
        max_tokens=64,
    )
    assert (quiet.workload_label, burst.workload_label) == ("code", "mine.jsonl")


def test_phases_take_the_temperature_of_their_workload(tmp_path: Path) -> None:
    hard = PhaseConfig("a", 1.0, ClosedLoop(1), workload="hard")
    own = PhaseConfig("b", 1.0, ClosedLoop(1), prompts_file="mine.jsonl")
    cool = PhaseConfig("c", 1.0, ClosedLoop(1), workload="hard", temperature=0.5)
    assert [p.effective_temperature for p in (hard, own, cool)] == [1.0, 0.0, 0.5]


def phase(**fields: object) -> str:
    """A file of one phase; a field of None is left out."""
    whole = {"name": "a", "duration_s": 1, "workload": "code", "load": {"concurrency": 1}}
    given = {name: value for name, value in {**whole, **fields}.items() if value is not None}
    return json.dumps({"phases": [given]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is neither YAML nor JSON"),
        ("[]", "holds list; it must be a JSON object"),
        ("{}", "phases is missing; it must be a non-empty list"),
        ('{"phases": []}', "must be a non-empty list"),
        ('{"phases": [], "name": 1}', "name is unknown; allowed fields are phases"),
        (phase(rate=3), "phase 1: rate is unknown; allowed fields are name, duration_s"),
        (phase(name=None), "phase 1: name is missing"),
        (phase(duration_s=None), "phase 1: duration_s is missing"),
        (phase(duration_s=0), "phase 1: duration_s is 0; it must be above 0"),
        (phase(workload="poems"), "workload is 'poems'; it must be one of chat, code"),
        (phase(prompts="x.jsonl"), "workload and prompts exclude each other"),
        (phase(workload=None), "the requests are missing; give workload"),
        (phase(load=None), "load is missing; give load"),
        (phase(load={}), "load: give concurrency .* or rate_per_s"),
        (phase(load={"concurrency": 0}), "load: concurrency is 0; it must be at least 1"),
        (phase(load={"rate_per_s": "4"}), "load: rate_per_s is '4'; it must be a number"),
        (phase(load={"rate_per_s": 4, "concurrency": 1}), "exclude each other"),
        (phase(load={"concurrency": 1, "burstiness": 2}), "burstiness is unknown"),
        (phase(load={"rate_per_s": 4, "burst": 2}), "burst is unknown; allowed fields are"),
        (phase(temperature=-1), "temperature is -1; it must be at least 0"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_phases(write(tmp_path / "bad.yaml", text))


def test_two_phases_of_one_name_are_refused(tmp_path: Path) -> None:
    text = DAY.replace("burst\n", "quiet\n")
    with pytest.raises(WorkloadError, match="two phases have the name 'quiet'"):
        load_phases(write(tmp_path / "bad.yaml", text))


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot read"):
        load_phases(tmp_path / "absent.yaml")
