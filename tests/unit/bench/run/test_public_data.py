"""Data sets in their public forms, read by `paceline bench run` and sent at the recorded pace.

The samples are small and of our own making; each trace has a pause of 0.1 s and one of 0.4 s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paceline.workbench.bench.command import bench
from unit.bench.run.schema import validate
from unit.bench.simulated import SimulatedServer

MOONCAKE = (
    '{"timestamp": 27000, "input_length": 600, "output_length": 5, "hash_ids": [46, 47]}\n'
    '{"timestamp": 27100, "input_length": 700, "output_length": 3, "hash_ids": [46, 48]}\n'
    '{"timestamp": 27500, "input_length": 20, "output_length": 6, "hash_ids": [49]}\n'
)
BAILIAN = "".join(
    json.dumps(
        {
            "chat_id": number,
            "parent_chat_id": -1,
            "timestamp": seconds,
            "input_length": 40,
            "output_length": 4,
            "type": "text",
            "turn": 1,
            "hash_ids": [number, 5, 6],
        }
    )
    + "\n"
    for number, seconds in enumerate((61.114, 61.214, 61.614))
)
BURSTGPT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,,2.1,ChatGPT,47,8,55,Conversation log\n"
    "5.1,,0.3,ChatGPT,108,3,111,Conversation log\n"
    "5.3,,0.1,ChatGPT,0,0,0,Conversation log\n"
    "5.5,,0.9,GPT-4,41,6,47,API log\n"
    "9,,0.9,GPT-4,41,0,41,API log\n"
)
AZURE_2023 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:17:03.9799600,40,4\r\n"
    "2023-11-16 18:17:04.0799600,44,5\r\n"
    "2023-11-16 18:17:04.4799600,4,5\r\n"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,62,5\n"
    "2024-05-10 00:00:00.109930+00:00,40,3\n"
    "2024-05-10 00:00:00.509930+00:00,40,3\n"
    "2024-05-10 00:00:01+00:00,40,0\n"
)
AZURE_2025 = (
    "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
    "2024-10-15 00:00:00.00,1,62,5\n"
    "2024-10-15 00:00:00.10,0,40,3\n"
    "2024-10-15 00:00:00.50,0,40,3\n"
)
VIDUR = (
    "arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    "0.0,62,5,67,12.4\n0.1,40,3,43,13.3\n0.5,40,3,43,13.3\n"
)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["run", *words, "--max-dispatch-delay-ms", "60000"])


def run_trace(server: SimulatedServer, tmp_path: Path, text: str, *words: str) -> dict[str, Any]:
    """The report, with the records under `records`."""
    trace, report, records = (tmp_path / name for name in ("trace", "r.json", "r.jsonl"))
    trace.write_text(text)
    files = ("--json", str(report), "--records", str(records))
    result = invoke(server.url, "--trace", str(trace), *files, *words)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(report.read_text())
    validate(document)
    document["records"] = [json.loads(line) for line in records.read_text().splitlines()]
    return document


@pytest.mark.parametrize(
    ("text", "form", "unit", "duration_s", "num_left_out"),
    [
        (MOONCAKE, "Mooncake", "ms", 0.5, 0),
        (BAILIAN, "Qwen-Bailian", "s", 0.5, 0),
        (BURSTGPT, "BurstGPT", "s", 4.0, 2),
        (AZURE_2023, "Azure", "date", 0.5, 0),
        (AZURE_2024, "Azure", "date", 0.99007, 1),
        (AZURE_2025, "Azure", "date", 0.5, 0),
        (VIDUR, "Vidur", "s", 0.5, 0),
    ],
)
def test_public_traces_are_sent_at_their_pace(
    threaded_server: SimulatedServer,
    tmp_path: Path,
    text: str,
    form: str,
    unit: str,
    duration_s: float,
    num_left_out: int,
) -> None:
    document = run_trace(threaded_server, tmp_path, text)
    assert document["config"]["trace"] == {
        "form": form,
        "time_unit": unit,
        "duration_s": pytest.approx(duration_s),
        "num_requests": 3,
        "num_sessions": 3,
        "num_left_out": num_left_out,
    }
    assert [r["scheduled_s"] for r in document["records"]] == pytest.approx(
        [0.0, 0.1, 0.5], abs=1e-6
    )
    sent_s = [r["sent_s"] for r in document["records"]]
    assert sent_s[2] - sent_s[0] >= 0.5 * 0.98
    warnings = [warning["message"] for warning in document["warnings"]]
    assert any(message.startswith(f"{num_left_out} records are not") for message in warnings) == (
        num_left_out > 0
    )


def test_a_trace_may_be_sent_at_another_load(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Its sessions are sent once, and their times no longer count."""
    day = BAILIAN.replace("61.614", "86461.614")
    for load in (("--concurrency", "2"), ("--rate", "500")):
        document = run_trace(threaded_server, tmp_path, day, "--trace-unit", "s", *load)
        assert document["summary"]["num_requests"] == 3
        assert document["summary"]["window_s"] < 60
    document = run_trace(threaded_server, tmp_path, MOONCAKE, "--concurrency", "1",
                         "--num-requests", "5")  # fmt: skip
    assert document["summary"]["num_requests"] == 5


def test_sessions_without_times_need_a_load(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    rows = [
        {"session_id": session, "delay": delay, "input_length": 20, "output_length": 4}
        for session in "ab"
        for delay in (0, 20)
    ]
    text = "\n".join(map(json.dumps, rows))
    document = run_trace(threaded_server, tmp_path, text, "--concurrency", "2")
    assert [(r["index"], r["turn"]) for r in document["records"]] == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    assert document["config"]["trace"]["num_sessions"] == 2
    result = invoke(threaded_server.url, "--trace", str(tmp_path / "trace"))
    assert result.exit_code == 2
    assert "states no times at which its sessions begin; give --concurrency" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing in the file states its unit"),
        (("--trace-unit", "min"), "'min' is not one of 's', 'ms', 'us', 'ns'"),
        (("--trace-unit", "s", "--concurrency", "2", "--rate", "3"), "exclude each other"),
        (("--trace-unit", "s", "--concurrency", "2", "--max-in-flight", "3"), "--max-in-flight"),
    ],
)
def test_what_is_not_clear_is_wrong_usage(
    threaded_server: SimulatedServer, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(
            json.dumps({"timestamp": time, "input_length": 40, "output_length": 4}) + "\n"
            for time in (0.0, 0.7, 1.5)
        )
    )
    result = invoke(threaded_server.url, "--trace", str(trace), *words)
    assert result.exit_code == 2
    assert message in result.output
    assert threaded_server.num_received == 0


def test_a_unit_without_a_trace_is_wrong_usage(threaded_server: SimulatedServer) -> None:
    result = invoke(threaded_server.url, "--trace-unit", "ms")
    assert result.exit_code == 2
    assert "--trace-unit describes the file of --trace; give --trace" in result.output


def test_sharegpt_is_sent_as_sessions(threaded_server: SimulatedServer, tmp_path: Path) -> None:
    script = json.dumps({"chunks": ["he", "llo"]})
    said = [
        {"from": "human", "value": script},
        {"from": "gpt", "value": "x" * 40},
        {"from": "human", "value": script},
        {"from": "gpt", "value": "y" * 44},
    ]
    prompts, report = tmp_path / "ShareGPT.json", tmp_path / "r.json"
    prompts.write_text(json.dumps([{"id": "a", "conversations": said}, {"conversations": []}]))
    words = ("--prompts", str(prompts), "--num-requests", "2", "--json", str(report))
    result = invoke(threaded_server.url, *words)
    assert result.exit_code == 0, result.output
    assert "1 records are not sent, because they have no message of a user" in result.output
    bodies = threaded_server.bodies
    assert [body["max_tokens"] for body in bodies] == [10, 11]
    assert [message["content"] for message in bodies[1]["messages"]] == [script, "hello", script]


def test_a_system_prompt_may_begin_with_a_byte_order_mark(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    system = tmp_path / "system.txt"
    system.write_text("Be brief.\r\n", encoding="utf-8-sig")
    words = ("--workload", "json", "--num-requests", "1", "--system-prompt", str(system))
    invoke(threaded_server.url, *words)
    assert threaded_server.bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}
