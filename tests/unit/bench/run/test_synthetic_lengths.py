"""`--input-len`, `--output-len` and `--length-spread`, from the command line to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.workbench.bench.command import bench
from unit.bench.run.schema import validate
from unit.bench.simulated import SimulatedServer


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["run", *words, "--max-dispatch-delay-ms", "60000"])


def test_prompts_and_answers_have_the_given_lengths(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """The server counts two characters per token. Its answers have 3 tokens, not 20."""
    report = tmp_path / "report.json"
    words = ("--input-len", "300", "--output-len", "20", "--length-spread", "0.1")
    run = ("--num-requests", "6", "--repeats", "2", "--json", str(report))
    result = invoke(threaded_server.url, *words, *run)
    assert result.exit_code == 0, result.output
    probe, *bodies = threaded_server.bodies
    assert probe["max_tokens"] == 1
    assert len({body["prompt"] for body in bodies}) == 12
    assert all(540 <= len(body["prompt"]) <= 660 for body in bodies)
    assert all(18 <= body["max_tokens"] <= 22 and body["ignore_eos"] for body in bodies)
    document = json.loads(report.read_text())
    validate(document)
    assert document["config"]["synthetic"] == {
        "input_tokens": 300, "output_tokens": 20, "spread_fraction": 0.1,
    }  # fmt: skip
    messages = [w["message"] for w in document["warnings"] if w["id"] == "lengths"]
    assert len(messages) == 1
    assert messages[0].startswith("the answers have 3.0 tokens on average where ")
    assert "synthetic, 300 tokens in and 20 out, each within 10 %" in result.output


def test_a_server_that_refuses_ignore_eos_is_measured_without_it(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """As a Paceline does unless it is granted: answers may be shorter, and a warning says so."""
    threaded_server.takes_ignore_eos = False
    report = tmp_path / "report.json"
    words = ("--input-len", "40", "--output-len", "20", "--num-requests", "2")
    result = invoke(threaded_server.url, *words, "--json", str(report))
    assert result.exit_code == 0, result.output
    assert all("ignore_eos" not in body for body in threaded_server.bodies[1:])
    assert [body["max_tokens"] for body in threaded_server.bodies[2:]] == [20, 20]
    identities = [warning["id"] for warning in json.loads(report.read_text())["warnings"]]
    assert "ignore_eos" in identities
    assert "lengths" not in identities


def test_a_rate_has_as_many_different_prompts_as_it_needs(
    threaded_server: SimulatedServer,
) -> None:
    words = ("--input-len", "40", "--output-len", "3", "--rate", "60", "--duration", "0.5")
    result = invoke(threaded_server.url, *words)
    assert result.exit_code == 0, result.output
    _, *bodies = threaded_server.bodies
    assert len({body["prompt"] for body in bodies}) == len(bodies)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--input-len", "9"), "--input-len and --output-len need each other"),
        (("--output-len", "9"), "--input-len and --output-len need each other"),
        (("--length-spread", "0.5"), "--length-spread varies --input-len and --output-len"),
        (("--input-len", "0", "--output-len", "9"), "0 is not in the range x>=1"),
        (("--input-len", "9", "--output-len", "9", "--length-spread", "1"), "1.0 is not in"),
        (
            ("--input-len", "9", "--output-len", "9", "--workload", "json"),
            "--input-len and --workload exclude each other",
        ),
    ],
)
def test_lengths_that_contradict_are_wrong_usage(
    threaded_server: SimulatedServer, words: tuple[str, ...], message: str
) -> None:
    result = invoke(threaded_server.url, *words)
    assert result.exit_code == 2
    assert message in result.output
