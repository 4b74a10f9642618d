"""`paceline plan replay` from a file to the report and the document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.demo import draft_path, target_path
from paceline.foundation.recording.reading import Recording
from paceline.foundation.recording.records import End, encode
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop, Phase
from paceline.workbench.plan.replay.values import FIGURES
from unit.plan.replay.simulated import MACHINE, classes, recorded, requests

FAST = ("--seconds", "5", "--replicates", "5", "--load", "closed:12")


def write(recording: Recording, path: Path) -> Path:
    assert recording.end is not None
    lines = (recording.header, *recording.requests, *recording.blocks, recording.end)
    path.write_bytes(b"".join(map(encode, lines)))
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(recorded(), tmp_path_factory.mktemp("replay") / "r.jsonl")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        main, ["plan", "replay", *map(str, arguments)], catch_exceptions=False
    )


def test_the_document_has_every_figure_and_what_was_recorded(file: Path, tmp_path: Path) -> None:
    written = tmp_path / "replay.json"
    result = run(file, *FAST, "--draft-length", "2", "--usd-per-gpu-hour", "2", "--json", written)
    assert result.exit_code == 0, result.output
    document = json.loads(written.read_text())
    assert (document["schema_version"], document["kind"]) == (1, "plan replay")
    assert set(document["predicted"]) == set(FIGURES)
    for estimate in document["predicted"].values():
        assert estimate["low"] <= estimate["value"] <= estimate["high"]
    assert document["predicted"]["draft_length"]["value"] == pytest.approx(2.0)
    assert document["setting"]["draft length"] == "2"
    assert document["setting"]["load"] == "12 requests at a time"
    recorded_part = document["recorded"]
    assert recorded_part["num_requests"] == 250
    assert recorded_part["requests_per_s"] == pytest.approx(1.5, rel=0.2)
    assert 0.6 < recorded_part["first_position_acceptance"] < 0.8


def test_the_report_has_the_figures_and_the_setting(file: Path) -> None:
    result = run(file, *FAST, "--draft-length", "off")
    assert (
        "Replayed: draft length 0; load 12 requests at a time; drafter draft_model" in result.stdout
    )
    assert "output tokens/s" in result.stdout
    assert "90% interval" in result.stdout
    assert "USD" not in result.stdout


def test_one_block_of_steps_is_shown_without_an_interval(tmp_path: Path) -> None:
    one = write(replace(recorded(), blocks=recorded().blocks[5:6]), tmp_path / "r.jsonl")
    written = tmp_path / "replay.json"
    result = run(one, *FAST, "--draft-length", "2", "--json", written)
    rate = json.loads(written.read_text())["predicted"]["output_tokens_per_s"]
    assert (rate["low"], rate["high"]) == (None, None)
    line = next(line for line in result.stdout.splitlines() if "output tokens/s  " in line)
    assert line.endswith("none")


def test_arrivals_too_rare_for_the_simulated_time_are_refused(tmp_path: Path) -> None:
    """All requests arrived in the first 3 minutes of 300 hours."""
    end = End(at_s=300 * 3600.0, reason="stopped")
    file = write(replace(recorded(), end=end), tmp_path / "r.jsonl")
    result = run(file, "--replicates", "5", "--seconds", "5", "--draft-length", "1")
    assert result.exit_code == 2
    assert "no request arrives in 5 s of the recorded load" in " ".join(result.stderr.split())


def test_json_on_standard_output_is_alone(file: Path) -> None:
    result = run(file, *FAST, "--draft-length", "1", "--json", "-")
    assert json.loads(result.stdout)["num_replicates"] == 5


def test_the_recorded_policy_is_the_default(file: Path) -> None:
    result = run(file, *FAST, "--json", "-")
    assert json.loads(result.stdout)["setting"]["draft length"] == "goodput"


def test_other_hardware_scales_the_cost(file: Path) -> None:
    """An H100 has 11 times the bandwidth of an L4 and more arithmetic."""
    arguments = (*FAST, "--draft-length", "2", "--json", "-", "--recorded-on", "l4")
    here = json.loads(run(file, *arguments).stdout)["predicted"]
    model = ("--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "h100")
    there = json.loads(run(file, *arguments, *model).stdout)["predicted"]
    ratio = there["output_tokens_per_s"]["value"] / here["output_tokens_per_s"]["value"]
    assert 4 < ratio < 12
    assert there["usd_per_million_output_tokens"] is not None


def test_the_same_hardware_scales_nothing(file: Path) -> None:
    arguments = (*FAST, "--draft-length", "2", "--json", "-")
    plain = json.loads(run(file, *arguments).stdout)["predicted"]["output_tokens_per_s"]["value"]
    same = ("--recorded-on", "cpu", "--gpu", "cpu", "--usd-per-gpu-hour", "1")
    models = ("--model", str(target_path()), "--draft", str(draft_path()))
    scaled = json.loads(run(file, *arguments, *same, *models).stdout)["predicted"]
    assert scaled["output_tokens_per_s"]["value"] == pytest.approx(plain, rel=0.15)


def test_another_drafter_is_named(file: Path, tmp_path: Path) -> None:
    other = recorded(is_other_drafter=True, count=60, seed=8)
    header = replace_header(other, method="eagle3")
    drafter = write(replace(other, header=header), tmp_path / "other.jsonl")
    result = run(file, *FAST, "--draft-length", "2", "--drafter-acceptance", drafter, "--json", "-")
    assert json.loads(result.stdout)["setting"]["drafter"] == "eagle3"


def replace_header(recording: Recording, **changes: object):  # type: ignore[no-untyped-def]
    import msgspec

    return msgspec.structs.replace(recording.header, **changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--draft-length", "65"), "--draft-length is 65; it must be from 0 (off) to 64"),
        (("--draft-length", "best"), "--draft-length is 'best'; it must be a number, off, or one"),
        (("--draft-length", "fixed"), "needs its parameters"),
        (("--load", "3"), "--load is '3'; it must be recorded, a factor such as 2x"),
        (("--load", "closed:0"), "--load is 'closed:0'"),
        (("--load", "nanx"), "it must be from 0.001 to 1000 times"),
        (("--load", "0x"), "it must be from 0.001 to 1000 times"),
        (("--gpu", "h100"), "--gpu needs --recorded-on"),
        (("--recorded-on", "h900"), "h900"),
    ],
)
def test_wrong_options_are_refused(file: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(file, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("{}\n")
    result = run(wrong)
    assert result.exit_code == 2
    assert "line 1 is no line of a recording" in result.stderr


def test_a_length_without_graphs_is_refused(tmp_path: Path) -> None:
    header = replace_header(recorded(), allowed_lengths=(0, 1, 3, 7))
    file = write(replace(recorded(), header=header), tmp_path / "r.jsonl")
    result = run(file, "--draft-length", "2")
    assert "which has no CUDA graphs in the recorded engine; it must be one of 0, 1, 3, 7" in (
        " ".join(result.stderr.split())
    )


def test_a_model_called_otherwise_is_still_planned() -> None:
    result = CliRunner().invoke(main, ["plan", "Qwen/Qwen3-8B", "--gpu", "h100"])
    assert result.exit_code == 0


@pytest.fixture(scope="module")
def closed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six requests at a time."""
    phase = Phase("recorded", ClosedLoop(6), classes(), 60.0, requests=requests(3000, 2))
    policy = create_policy("goodput", max_draft_length=MACHINE.max_draft_length)
    _, recording = record_phase(MACHINE, policy, phase, policy_name="goodput", seed=1)
    return write(recording, tmp_path_factory.mktemp("closed") / "r.jsonl")


def test_a_recorded_closed_loop_is_replayed_closed(closed_file: Path, tmp_path: Path) -> None:
    """So a setting that is slower gives fewer tokens, and no queue."""
    found = {}
    for length in ("off", "4"):
        written = tmp_path / f"{length}.json"
        few = ("--seconds", "20", "--replicates", "5")
        result = run(closed_file, *few, "--draft-length", length, "--json", written)
        assert result.exit_code == 0, result.output
        assert "load 6 requests at a time, as the recorded closed loop" in result.stdout
        document = json.loads(written.read_text())
        assert not any("closed loop" in warning for warning in document["warnings"])
        found[length] = document["predicted"]["output_tokens_per_s"]["value"]
    assert found["4"] > 1.15 * found["off"]


def test_recorded_arrivals_of_a_closed_loop_are_warned_of(closed_file: Path) -> None:
    few = ("--seconds", "5", "--replicates", "5")
    for load in ("recorded", "2x"):
        result = run(closed_file, *few, "--load", load)
        assert "came from a closed loop of 6" in " ".join(result.stdout.split())
