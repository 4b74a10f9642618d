"""`paceline bench sweep` from the command line to its document, against the simulated server."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.workbench.bench.command import bench
from paceline.workbench.bench.results import validity
from unit.bench.simulated import SimulatedServer

LENGTHS = ("--input-len", "20", "--output-len", "3")


@pytest.fixture(autouse=True)
def _a_slow_load_generator_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_LOOP_LAG_MS", "MAX_CPU_FRACTION", "MAX_STALLED_FRACTION"):
        monkeypatch.setattr(validity, name, math.inf)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["sweep", *words, "--max-dispatch-delay-ms", "60000"])


def test_given_rates_are_measured_in_order_with_prompts_of_their_own(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    report = tmp_path / "sweep.json"
    words = ("--rates", "80,40", "--duration", "0.5", "--slo", "ttft=60s", "--json", str(report))
    result = invoke(threaded_server.url, *LENGTHS, *words)
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert [(s["rate_per_s"], s["is_kept"]) for s in document["steps"]] == [(40, True), (80, True)]
    assert (document["highest_kept_rate_per_s"], document["lowest_lost_rate_per_s"]) == (80, None)
    assert document["valid"]
    summaries = [step["report"]["summary"] for step in document["steps"]]
    assert all(summary["goodput"]["attained_fraction"] == 1.0 for summary in summaries)
    prompts = [body["prompt"] for body in threaded_server.bodies if body["max_tokens"] > 1]
    assert len(set(prompts)) == len(prompts)
    assert "the server kept all of these rates; its limit is above 80 requests/s" in result.output


def test_a_sweep_ends_at_the_first_rate_that_is_not_kept(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Each answer takes 0.15 s more than the one before: at any rate they pile up."""

    async def slow_down(number: int) -> None:
        threaded_server.extra_delay_s += 0.01

    threaded_server.before_chunk = slow_down
    report = tmp_path / "sweep.json"
    words = ("--rates", "40,80,160", "--duration", "1", "--json", str(report))
    result = invoke(threaded_server.url, *LENGTHS, *words)
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert [(s["rate_per_s"], s["is_kept"]) for s in document["steps"]] == [(40, False)]
    assert document["num_skipped"] == 2
    assert "2 higher rates were not measured" in result.output


def test_without_rates_the_limit_is_searched_for(
    threaded_server: SimulatedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is cut after two rates: the first one is that of one request in flight."""
    monkeypatch.setattr("paceline.workbench.bench.sweep.measure.MAX_SEARCHED", 2)
    report = tmp_path / "sweep.json"
    threaded_server.extra_delay_s = 0.01
    result = invoke(threaded_server.url, *LENGTHS, "--duration", "1", "--json", str(report))
    assert result.exit_code == 0, result.output
    steps = json.loads(report.read_text())["steps"]
    rates = [step["rate_per_s"] for step in steps]
    assert len(rates) == 2
    assert max(rates) == pytest.approx(2 * min(rates))
    assert max(rates) < 70  # Three chunks of 10 ms.


def test_a_search_with_runs_that_are_too_short_ends_and_says_so(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Answers take 0.6 s, and at a lower rate 0.3 s would be too short, too."""
    report = tmp_path / "sweep.json"
    threaded_server.extra_delay_s = 0.2
    result = invoke(threaded_server.url, *LENGTHS, "--duration", "0.3", "--json", str(report))
    document = json.loads(report.read_text())
    assert [step["served_fraction"] for step in document["steps"]] == [None]
    assert (document["highest_kept_rate_per_s"], document["lowest_lost_rate_per_s"]) == (None, None)
    assert "it is not known whether the server keeps any rate" in result.output
    assert "--duration is too short: at " in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rates", "1,zero"), "'zero' is not a valid float"),
        (("--rates", "0"), "0.0 is not in the range x>0"),
        (("--rates", ""), "'' is not a valid float"),
        (("--trace", "x"), "No such option '--trace'"),
        (("--input-len", "5"), "--input-len and --output-len need each other"),
    ],
)
def test_wrong_usage_is_named(
    threaded_server: SimulatedServer, words: tuple[str, ...], message: str
) -> None:
    result = invoke(threaded_server.url, *words)
    assert result.exit_code == 2
    assert message in result.output


def test_a_server_that_refuses_everything_is_an_error(threaded_server: SimulatedServer,
                                                      tmp_path: Path) -> None:  # fmt: skip
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"prompt": json.dumps({"fail": "status"})}))
    words = ("--prompts", str(prompts), "--rates", "40", "--duration", "0.3")
    result = invoke(threaded_server.url, *words)
    assert result.exit_code == 1
    assert "no request succeeded" in result.output
