"""A whole run with mock servers: result, report and plots; resumed runs and refused options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.headline import run
from benchmarks.results_file import encode_result, read_result
from paceline.foundation.results.environment import describe_environment

ARMS = ["naive", "llama.cpp", "vllm", "vllm+layout+K=2", "paceline", "paceline+w8a8"]
CELLS = ["chat-1", "json-sampled-4", "code-64", "system-cached"]
WORDS = ["--dry-run", "--arms", *ARMS, "--cells", *CELLS]
NUM_TURNS = len(ARMS) * len(CELLS) - 2  # naive runs chats only


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.servers.IDLE_WATCH_S", 0.1)
    monkeypatch.setattr("benchmarks.headline.campaign.measure_bandwidth", lambda: 2e10)


def test_a_run_writes_its_result_and_its_page_and_ends_its_servers(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    run.main([*WORDS, "--repeats", "1", "--results", str(tmp_path)])
    [path] = tmp_path.glob("headline-*.json.gz")
    document = read_result(path)
    assert len(document["runs"]) == NUM_TURNS
    assert not any(turn["num_errors"] for turn in document["runs"])
    drafting = {turn["arm"] for turn in document["runs"] if "drafted_tokens" in turn}
    assert drafting == {"vllm+layout+K=2", "paceline", "paceline+w8a8"}
    report = path.with_name(path.name.replace(".json.gz", ".md")).read_text()
    assert "Dry run with mock servers: the figures mean nothing." in report
    assert "| `paceline` / best static length |" in report
    assert "| `paceline+w8a8` / `paceline` |" in report
    plots = sorted(plot.name for plot in tmp_path.glob("*.svg"))
    assert [name.split("-")[-1] for name in plots] == ["published.svg", "servers.svg"]
    assert all(f"]({name})" in report for name in plots)

    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after <= before


def test_a_resumed_run_keeps_what_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all turns there, nothing is started; one more repeat starts the servers again."""
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(run, "_measure", lambda arguments, found, result: started.append(found))
    path = _complete_result(tmp_path)
    run.main([*WORDS, "--repeats", "1", "--resume", str(path)])
    assert started == []
    run.main([*WORDS, "--repeats", "2", "--resume", str(path)])
    [document] = started
    assert document["runs"] == read_result(path)["runs"]
    assert document["bandwidth_bytes_per_s"] == {"0": 2e10}
    assert document["plan"]["repeats"] == 2


def test_another_plan_or_commit_is_not_resumed(tmp_path: Path) -> None:
    path = _complete_result(tmp_path)
    with pytest.raises(SystemExit, match="the result has another plan"):
        run.main([*WORDS, "--repeats", "1", "--seed", "1", "--resume", str(path)])
    result = read_result(path)
    result["environment"]["commit"] = "0123456"
    path.write_bytes(encode_result(path.name, result))
    with pytest.raises(SystemExit, match="the result is of commit 0123456"):
        run.main([*WORDS, "--repeats", "1", "--resume", str(path)])


def _complete_result(folder: Path) -> Path:
    """One repeat of the plan of `WORDS`; its turns hold no figures."""
    plan = run.build_plan(run._parse([*WORDS, "--repeats", "1", "--results", str(folder)]))
    path = folder / "x.json"
    document = {
        "plan": plan,
        "environment": {"commit": describe_environment([]).commit},
        "bandwidth_bytes_per_s": {"0": 2e10},
        "runs": [{"repeat": 0}] * NUM_TURNS,
    }
    path.write_bytes(encode_result(path.name, document))
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arms", "paceline"], "'vllm' must be among them"),
        (["--cells", "chat-3"], "the cell is 'chat-3'"),
        (["--repeats", "0"], "--repeats is 0; it must be at least 1"),
        (["--usd-per-hour", "nan"], "--usd-per-hour is nan; it must be above 0 and finite"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.main([*words, "--results", str(tmp_path)])
    assert message in capsys.readouterr().err


def test_a_run_needs_a_place_for_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main([])
    assert "give --results FOLDER" in capsys.readouterr().err


def test_servers_that_do_not_fit_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.headline.run.psutil.virtual_memory", lambda: Memory(4 << 30))
    words = ["--arms", "vllm", "paceline", "--results", str(tmp_path), "--allow-dirty"]
    with pytest.raises(SystemExit, match="the 2 servers need about 5 GiB, and 4 GiB are free"):
        run.main(words)


@dataclass
class Memory:
    """What psutil says of a machine's memory."""

    available: int
