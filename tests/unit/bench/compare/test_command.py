"""`paceline bench compare` from the command line to its files, against live servers."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from paceline.testing.mock_vllm.spawn import spawn_mock_vllm
from paceline.workbench.bench.command import bench
from paceline.workbench.bench.compare import measure
from paceline.workbench.bench.compare.block_runner import HttpBlockRunner
from paceline.workbench.bench.compare.contrasts import Arm, Block
from unit.bench.bench_process import interrupt, start_bench
from unit.bench.simulated import SimulatedServer


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["compare", *words])


def write_prompts(path: Path, **script: object) -> str:
    path.write_text(json.dumps({"prompt": json.dumps(script), "task": "code"}))
    return str(path)


class TimeByTokens(HttpBlockRunner):
    """Takes 64 ms by the tokens of a block for its time per token, whatever this machine does."""

    async def run(self, arm: Arm, round_index: int, position: int) -> Block:
        block = await super().run(arm, round_index, position)
        return replace(block, tpot_ms=64.0 / block.output_tokens)


@pytest.fixture
def counted_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes one second of the campaign's clock, and tokens take `TimeByTokens`.

    A busy machine finishes too few rounds for a verdict, and reads short answers in one piece.
    """
    seconds = count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(seconds)))
    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(measure, "HttpBlockRunner", TimeByTokens)


@pytest.mark.usefixtures("counted_time")
def test_a_server_against_itself_writes_the_promised_document(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", delay_s=0.002)
    report = tmp_path / "report.json"
    result = invoke(
        *(threaded_server.url, threaded_server.url, "--prompts", prompts),
        *("--max-minutes", "0.3", "--block-seconds", "0.02", "--json", str(report)),
        *("--api-key", "secret", "--confidence", "0.999", "--figure", "tpot_ms"),
        *("--max-dispatch-delay-ms", "60000"),  # this machine may be busy
    )
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert document["schema_version"] == 1
    assert document["verdict"] == "no_difference"
    for figure in ("output_tokens_per_s", "ttft_ms", "tpot_ms"):
        difference = document["difference"][figure]
        assert difference["low"] <= difference["relative"] <= difference["high"]
    assert document["aa"]["low"] <= document["aa"]["relative"] <= document["aa"]["high"]
    assert document["environment"]["vllm_server"] is None
    assert document["arms"]["a"]["vllm"] == "9.9.9"
    assert len(document["blocks"]) == 4 * document["num_rounds"]
    assert "secret" not in report.read_text()
    of_blocks = requests_of_blocks(threaded_server)
    assert of_blocks == [document["num_requests_per_block"]] * (
        NUM_WARM_UP_BLOCKS + len(document["blocks"])
    )
    assert threaded_server.max_in_flight == 1


NUM_WARM_UP_BLOCKS = 4


def requests_of_blocks(server: SimulatedServer) -> list[int]:
    """The number of requests of each block that the server has seen."""
    salts = Counter(body["cache_salt"] for body in list(server.bodies))
    return [count for salt, count in salts.items() if re.search(r"-\d+-\d$", salt)]


@pytest.mark.usefixtures("counted_time")
def test_a_slower_server_is_found(tmp_path: Path) -> None:
    """A answers with 16 tokens and B with one, so B takes 16 times as long; 17 rounds planned."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "abc", "max_tokens": 16}')
    report = tmp_path / "report.json"
    with (
        spawn_mock_vllm("--tpot-ms", "1", "--eos-every-tokens", "0") as a,
        spawn_mock_vllm("--tpot-ms", "1", "--eos-every-tokens", "1") as b,
    ):
        result = invoke(
            *(a.url, b.url, "--prompts", str(prompts), "--max-minutes", "0.3"),
            *("--block-seconds", "0.01", "--json", str(report), "--figure", "tpot_ms"),
        )
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert document["verdict"] == "slower"
    assert document["difference"]["tpot_ms"]["relative"] == pytest.approx(15.0)
    assert document["figure"] == "tpot_ms"


def test_configurations_are_served_and_stopped(tmp_path: Path) -> None:
    """Two files whose gateways have a mock server as their only replica."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "abc", "max_tokens": 4}')
    with spawn_mock_vllm("--tpot-ms", "1", "--eos-every-tokens", "0") as replica:
        files = []
        for name in ("one.yaml", "two.yaml"):
            file = tmp_path / name
            file.write_text(
                f"engine: {{replicas: 0}}\nreplicas:\n  - {{url: '{replica.url}', name: r}}\n"
            )
            files.append(str(file))
        report = tmp_path / "report.json"
        result = invoke(
            *(*files, "--prompts", str(prompts), "--max-minutes", "0.01"),
            *("--block-seconds", "0.01", "--json", str(report)),
        )
    assert result.exit_code in (0, 3), result.output
    document = json.loads(report.read_text())
    assert [document["arms"][arm]["subject"] for arm in "ab"] == files
    assert document["arms"]["a"]["url"] != document["arms"]["b"]["url"]
    assert document["num_rounds"] >= 1


def test_a_configuration_that_does_not_start_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("engine: {polcy: goodput}\n")
    result = invoke(str(file), "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert f"--config {file} exited with 2" in result.output
    assert "polcy" in result.output


def test_ctrl_c_leaves_a_valid_partial_report(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Interrupted in the block after the first complete round of four."""
    prompts = write_prompts(tmp_path / "p.jsonl", delay_s=0.001)
    report = tmp_path / "report.json"
    words = [threaded_server.url, threaded_server.url, "--prompts", prompts]
    words += ["--block-seconds", "0.01", "--json", str(report)]
    num_blocks = NUM_WARM_UP_BLOCKS + 4 + 1
    ended = interrupt(
        start_bench("compare", *words),
        when=lambda: len(requests_of_blocks(threaded_server)) >= num_blocks,
    )
    assert ended.exit_code == 130, ended.errors
    document = json.loads(report.read_text())
    assert document["is_interrupted"] is True
    assert document["num_rounds"] >= 1
    assert document["difference"]["output_tokens_per_s"]["relative"] is not None


def test_a_late_load_generator_leaves_it_undecided(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """No machine dispatches within a picosecond."""
    prompts = write_prompts(tmp_path / "p.jsonl")
    result = invoke(
        *(threaded_server.url, threaded_server.url, "--prompts", prompts, "--rate", "200"),
        *("--max-minutes", "0.01", "--block-seconds", "0.02", "--max-dispatch-delay-ms", "1e-9"),
    )
    assert result.exit_code == 3
    assert "did not keep to the schedule" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.yaml", "http://127.0.0.1:1"], "A is 'absent.yaml'; it must be a server's URL"),
        (["http://127.0.0.1:1/api", "http://127.0.0.1:1"], "must be empty or /v1"),
        (["http://h:1", "http://h:2", "--rate", "1", "--concurrency", "1"], "exclude each other"),
        (["http://h:1", "http://h:2", "--margin", "0"], "not in the range"),
        (["http://h:1", "http://h:2", "--confidence", "1"], "not in the range"),
        (["http://h:1", "http://h:2", "--extra-body", "[1]"], "must be a JSON object"),
        (["http://h:1", "http://h:2", "--json", "absent/r.json"], "folder that does not exist"),
        ([], "Missing argument"),
        (["http://h:1"], "two settings of A, such as --settings off on"),
        (["http://h:1", "http://h:2", "--settings", "off", "on"], "two settings of one server, A"),
        (["http://h:1", "--settings", "off", "of"], "B is 'of'; it must be off, on"),
        (["http://h:1", "--settings", "off", "on", "--admin-url", "8001"], "must look like"),
        (["http://h:1", "http://h:2", "--admin-url", "http://h:3"], "without --settings"),
        (
            ["pyproject.toml", "--settings", "off", "on", "--admin-url", "http://h:3"],
            "pyproject.toml is served with an admin port",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_allowed(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.output


def test_an_absent_server_is_an_error_that_names_it() -> None:
    result = invoke("http://127.0.0.1:1", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "http://127.0.0.1:1/v1/models cannot be reached" in result.output


def test_a_served_configuration_without_a_governor_has_no_settings(tmp_path: Path) -> None:
    """Its only replica is a mock server, which it does not control."""
    with spawn_mock_vllm("--tpot-ms", "1") as replica:
        file = tmp_path / "one.yaml"
        file.write_text(
            f"engine: {{replicas: 0}}\nreplicas:\n  - {{url: '{replica.url}', name: r}}\n"
        )
        result = invoke(str(file), "--settings", "off", "on")
    assert result.exit_code == 1
    assert "the settings cannot be switched: http://127.0.0.1:" in result.output
    assert "the server does not draft; r: the replica has no control channel" in result.output
