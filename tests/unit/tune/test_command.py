"""`paceline tune` from the command line to its files, on mock servers with a known best setting.

A request has 7 tokens. With n in flight a step takes 10 + n - 1 ms. At a draft length of 2 every
draft is accepted, so a step yields 3 tokens. So 8 in flight serve 4.7 times as many requests as 1
in flight, and drafts three times as many as none. A server with a batch of 1 serves 8 in flight one
after another.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.workbench.tune.live import servers
from unit.bench.bench_process import interrupt, start_module
from unit.tune.known_rates import KnownRates

SPECULATION = {
    "num_speculative_tokens": 2,
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_rates": [1, 1],
}
SERVER = (
    (
        f"{sys.executable} -m paceline.testing.mock_vllm --port {{port}} --max-num-seqs {{seqs}} "
        "--tpot-ms 10 --tpot-per-sequence-ms 1 --eos-every-tokens 0 --prefill-tokens-per-s 1e6 "
        f"--speculative-config '{json.dumps(SPECULATION)}'"
    )
    .replace('{"', '{{"')
    .replace("]}", "]}}")
)
SPACE = """\
restart:
  seqs: [1, 8]
live:
  draft_length: [0, 2]
  max_in_flight: [1, 8]
"""


def arguments(folder: Path, *more: str) -> list[str]:
    prompts = folder / "prompts.jsonl"
    prompts.write_text(
        "".join(f'{{"prompt": "request {n}", "max_tokens": 7}}\n' for n in range(20))
    )
    space = folder / "space.yaml"
    space.write_text(SPACE)
    return [
        *("tune", "--server-command", SERVER, "--space", str(space), "--prompts", str(prompts)),
        *("--slo-ttft-ms", "30000", "--slo-tpot-ms", "30000", "--block-seconds", "0.2"),
        *("--max-blocks", "26", "--max-starts", "2", "--json", str(folder / "tune.json"), *more),
    ]


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_interrupted_and_continued_it_finds_the_best_setting_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests, servers and the interruption are real; the rates are those of `KnownRates`."""
    monkeypatch.setattr(servers, "LiveServer", KnownRates)
    state = tmp_path / "state.jsonl"
    words = arguments(tmp_path, "--state", str(state), "--usd-per-hour", "2")
    ended = interrupt(
        start_module("unit.tune.known_rates", *words),
        lambda: state.exists() and state.read_text().count('"trial"') >= 3,
    )
    assert ended.exit_code == 130
    assert "Repeat the command to continue" in ended.errors
    partial = json.loads((tmp_path / "tune.json").read_text())
    assert partial["is_interrupted"]
    kept = state.read_bytes()
    assert len(partial["trials"]) == kept.count(b'"trial"')
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert state.read_bytes().startswith(kept)
    document = json.loads((tmp_path / "tune.json").read_text())
    assert document["schema_version"] == 1
    assert document["trials"][: len(partial["trials"])] == partial["trials"]
    winner = document["winner"]
    assert winner["restart"] == {"seqs": 8}
    assert winner["live"] == {"draft_length": 2, "max_in_flight": 8}
    assert winner["meets_slo"]
    assert winner["good_requests_per_usd"] == pytest.approx(1800 * winner["good_requests_per_s"])
    assert "--max-num-seqs 8" in " ".join(winner["command"])
    assert document["num_grid_cells"] == 8
    assert document["num_starts"] <= 3
    parts = ("num_search_blocks", "num_qualifying_blocks", "num_held_out_blocks")
    assert sum(document[part] for part in parts) == len(document["trials"]) <= 26
    assert "Winner: seqs=" in result.output
    assert "draft_length=2 max_in_flight=8" in result.output
    assert "against the best other setting of this server" in result.output


def test_a_state_of_other_options_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    state.write_text('{"kind":"header","schema_version":2,"question":{},"problem":{}}\n')
    result = invoke(*arguments(tmp_path, "--state", str(state)))
    assert result.exit_code == 2
    assert "belongs to a tuning with" in result.output


def test_a_state_of_other_prompts_or_another_timeout_is_refused(tmp_path: Path) -> None:
    """The file of the prompts keeps its name, and has another prompt in it."""
    state = tmp_path / "state.jsonl"
    words = arguments(tmp_path, "--state", str(state))
    words[2] = f"{sys.executable} -c \"exit('no {{seqs}}')\" {{port}}"
    assert invoke(*words).exit_code == 3
    assert invoke(*words).exit_code == 3
    refused = invoke(*words, "--timeout", "7")
    assert refused.exit_code == 2
    assert "belongs to a tuning with request_timeout_s 120.0; this one has 7.0" in refused.output
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace("request 3", "another one"))
    refused = invoke(*words)
    assert refused.exit_code == 2
    assert "belongs to a tuning with prompts_sha256" in refused.output


def test_a_server_that_does_not_start_is_reported(tmp_path: Path) -> None:
    words = arguments(tmp_path)
    words[2] = f"{sys.executable} -c \"print('no {{seqs}}'); exit(3)\" {{port}}"
    result = invoke(*words)
    assert result.exit_code == 3
    assert "failed: seqs=1: server-0: " in result.output
    assert "exited with 3" in result.output
    assert "No setting meets the SLO" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no SLO is given"),
        (["--slo-ttft-ms", "5", "--server-command", "x {port}"], "--server-command needs --space"),
        (
            ["--slo-ttft-ms", "5", "--server-command", "x {port}", "--model", "m"],
            "--model is for servers that paceline serve starts",
        ),
        (
            ["--slo-ttft-ms", "5", "--usd-per-hour", "1", "--usd-per-gpu-hour", "1"],
            "exclude each other",
        ),
        (["--slo-ttft-ms", "5", "--out", "/no/such/out.yaml"], "in a folder that does not exist"),
    ],
)
def test_wrong_usage_is_refused_with_the_reason(words: list[str], message: str) -> None:
    result = invoke("tune", *words)
    assert result.exit_code == 2
    assert message in result.output


def test_help_has_examples_and_paceline_lists_the_command() -> None:
    assert "Examples:" in invoke("tune", "--help").output
    assert "tune" in invoke("--help").output


def test_two_of_nine_settings_have_no_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "LiveServer", KnownRates)
    words = arguments(tmp_path)
    words[words.index("--max-blocks") + 1] = "10"
    nine = "restart:\n  seqs: [8]\nlive:\n  draft_length: [0, 1, 2]\n  max_in_flight: [1, 4, 8]\n"
    (tmp_path / "space.yaml").write_text(nine)
    result = invoke(*words)
    assert result.exit_code == 3, result.output
    assert "No winner: 2 of 9 settings were tried, and " in result.output
    assert "Winner:" not in result.output
    document = json.loads((tmp_path / "tune.json").read_text())
    assert document["winner"] is None
    assert document["best_tried"]["restart"] == {"seqs": 8}
    assert document["num_untried_that_could_be_better"] >= 2
