"""A whole run with mock servers: result, report and plots; resumed runs and refused options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.headline import run
from benchmarks.results_file import encode_result, read_result
from paceline import demo

ARMS = ["naive", "vllm", "vllm+K=2", "paceline", "paceline+w8a8"]
CELLS = ["mixed-1", "mixed-16", "offered", "system-cached"]
WORDS = ["--dry-run", "--models", "bundled", "--arms", *ARMS, "--cells", *CELLS]
WORDS += ["--max-tokens", "8", "--slices", "1"]


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.servers.IDLE_WATCH_S", 0.1)


def test_a_run_writes_its_result_and_its_page_and_ends_its_servers(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    run.main([*WORDS, "--repeats", "1", "--results", str(tmp_path)])
    [path] = tmp_path.glob("headline-*.json.gz")
    document = read_result(path)
    assert len(document["runs"]) == len(CELLS) * len(ARMS)
    assert not any(turn["num_errors"] for turn in document["runs"])
    drafting = {turn["arm"] for turn in document["runs"] if "drafted_tokens" in turn}
    assert drafting == {"vllm+K=2", "paceline", "paceline+w8a8"}
    report = path.with_name(path.name.replace(".json.gz", ".md")).read_text()
    assert "Dry run with mock servers: the figures mean nothing." in report
    assert "| `paceline` / best static length |" in report
    assert "| `paceline+w8a8` / `paceline` |" in report
    plots = sorted(plot.name for plot in tmp_path.glob("*.svg"))
    assert [name.split("-")[-1] for name in plots] == ["bundled.svg", "published.svg"]
    assert all(f"]({name})" in report for name in plots)

    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after <= before


def test_a_resumed_run_keeps_what_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all turns there, nothing is started; one more repeat starts the servers again."""
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(
        run, "_run_model", lambda model, arguments, found, save: started.append(found)
    )
    path = _complete_result(tmp_path)
    run.main([*WORDS, "--repeats", "1", "--resume", str(path)])
    assert started == []
    run.main([*WORDS, "--repeats", "2", "--resume", str(path)])
    [document] = started
    assert document["runs"] == read_result(path)["runs"]
    assert document["offered_per_s"] == {"bundled": 3.5}
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
        "environment": {"commit": run.describe_environment([]).commit},
        "offered_per_s": {"bundled": 3.5},
        "runs": [{"model": "bundled"}] * (len(CELLS) * len(ARMS)),
    }
    path.write_bytes(encode_result(path.name, document))
    return path


def test_the_twin_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(run.subprocess, "run", lambda words, check: commands.append(words))
    words = ["--twin", str(tmp_path / "twin"), "--results", str(tmp_path)]
    arguments = run._parse(words)
    folders = run.model_folders("twin", arguments)
    assert folders.target == str(tmp_path / "twin")
    assert folders.draft == str(demo.draft_path())
    [command] = commands
    assert command[1:] == ["-m", "paceline.demo.recipe.deepen", str(demo.target_path()),
                           str(tmp_path / "twin")]  # fmt: skip
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "config.json").write_text("{}")
    run.model_folders("twin", arguments)
    assert run.model_folders("bundled", arguments).target == str(demo.target_path())
    assert len(commands) == 1


def test_quantized_folders_are_made_once_beside_the_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both w8a8 arms share a folder; each model has its own."""
    commands: list[list[str]] = []

    def make(words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        commands.append([word for word in words if word != sys.executable])
        folder = Path(words[-1])
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(run.subprocess, "run", make)
    arms = ["vllm", "vllm+layout+w8a8", "paceline", "paceline+w8a8", "paceline+awq"]
    words = ["--twin", str(tmp_path / "twin"), "--results", str(tmp_path), "--arms", *arms]
    arguments = run._parse(words)
    found = run.model_folders("twin", arguments)
    assert found.quantized == {
        "w8a8": str(tmp_path / "twin-w8a8"),
        "awq": str(tmp_path / "twin-awq"),
    }
    assert commands[0][1] == "paceline.demo.recipe.deepen"
    assert [words[-6:] for words in commands[1:]] == [
        ["quantize", found.target, "--scheme", scheme, "--out", found.quantized[scheme]]
        for scheme in ("w8a8", "awq")
    ]
    assert run.model_folders("twin", arguments) == found
    assert len(commands) == 3
    bundled = run.model_folders("bundled", arguments)
    assert bundled.quantized["w8a8"] == str(tmp_path / "bundled-w8a8")
    assert commands[3][-5] == str(demo.target_path())


def test_a_run_ends_if_the_weights_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: subprocess.CompletedProcess[str] = subprocess.CompletedProcess([], 2)
    monkeypatch.setattr(run.subprocess, "run", lambda words, check: refused)
    words = ["--twin", str(tmp_path / "twin"), "--results", str(tmp_path)]
    arguments = run._parse([*words, "--arms", "vllm", "paceline+nvfp4"])
    with pytest.raises(SystemExit, match="paceline quantize made no nvfp4 weights of"):
        run.model_folders("bundled", arguments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arms", "paceline"], "'vllm' must be among them"),
        (["--cells", "mixed-3"], "the cell is 'mixed-3'"),
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
