"""`paceline bench run` from the command line to its files, against the simulated server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.foundation.workloads import load_workloads
from paceline.workbench.bench.command import bench
from unit.bench.run.schema import validate
from unit.bench.simulated import SimulatedServer


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["run", *words])


def write_prompts(path: Path, *scripts: dict[str, object]) -> str:
    lines = (json.dumps({"prompt": json.dumps(script), "task": "code"}) for script in scripts)
    path.write_text("\n".join(lines))
    return str(path)


def test_a_run_writes_the_promised_document(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Eight requests of 3 chunks and 6 tokens; the server drafts 8, accepts 4 in 2 drafts each."""
    prompts = write_prompts(tmp_path / "p.jsonl", {"tokens": 6})
    report, records = tmp_path / "report.json", tmp_path / "records.jsonl"
    result = invoke(
        threaded_server.url + "/v1",
        *("--prompts", prompts, "--num-requests", "8", "--concurrency", "2", "--warmup", "3"),
        *("--json", str(report), "--records", str(records), "--api-key", "secret"),
    )
    assert result.exit_code == 0, result.output
    assert "output tokens/s" in result.output
    document = json.loads(report.read_text())
    validate(document)
    assert document["schema_version"] == 1
    assert document["valid"] is True
    summary = document["summary"]
    assert (summary["num_requests"], summary["num_errors"]) == (8, 0)
    assert summary["output_tokens"] == 48
    assert summary["output_tokens_per_chunk"] == 2.0
    assert summary["output_tokens_per_s"] == pytest.approx(48 / summary["window_s"])
    assert summary["requests_per_s"] == pytest.approx(8 / summary["window_s"])
    for name in ("ttft_ms", "tpot_ms", "inter_chunk_ms"):
        assert 0 <= summary[name]["p50"] <= summary[name]["p90"] <= summary[name]["p99"]
    assert document["speculation"]["acceptance_rate"] == 0.5
    assert document["speculation"]["acceptance_length"] == 3.0
    assert document["speculation"]["drafted_tokens"] == 64  # without those of the warm-up
    environment = document["environment"]
    assert environment["vllm_server"] == "9.9.9"
    assert environment["python"].startswith("3.")
    assert document["config"]["model"] == "simulated"
    assert document["config"]["temperature"] == 0.0
    assert any("prefix cache" in note for note in document["notes"])
    assert "secret" not in report.read_text()
    assert len(records.read_text().splitlines()) == 8
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.jsonl", "records.jsonl", "report.json"]


def test_errors_are_counted_shown_and_fail_the_run(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", {}, {"fail": "status"})
    report = tmp_path / "report.json"
    words = [
        threaded_server.url,
        "--prompts",
        prompts,
        "--num-requests",
        "4",
        "--json",
        str(report),
    ]
    result = invoke(*words)
    assert result.exit_code == 1
    assert "2 of 4 requests failed" in result.output
    assert "no such thing" in result.output
    summary = json.loads(report.read_text())["summary"]
    assert summary["num_errors"] == 2
    assert summary["errors_by_outcome"] == {"http_error": 2}
    assert summary["error_samples"] == ["status 400: no such thing"]
    assert invoke(*words, "--allow-errors").exit_code == 0


def test_a_run_without_any_success_fails_whatever_is_allowed(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", {"fail": "status"})
    result = invoke(
        threaded_server.url, "--prompts", prompts, "--num-requests", "2", "--allow-errors"
    )
    assert result.exit_code == 1
    assert "no request succeeded" in result.output


def test_open_loop_sends_at_the_rate_and_sampled_requests_carry_seeds(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", {})
    result = invoke(
        threaded_server.url,
        *("--prompts", prompts, "--num-requests", "20", "--rate", "200", "--seed", "5"),
        *("--temperature", "0.7", "--top-p", "0.9", "--max-tokens", "7", "--model", "mine"),
        *("--extra-body", '{"top_k": 20}', "--max-dispatch-delay-ms", "60000"),
    )
    assert result.exit_code == 0, result.output
    assert sorted(body["seed"] for body in threaded_server.bodies) == list(range(5, 25))
    body = threaded_server.bodies[0]
    assert (body["model"], body["max_tokens"], body["top_k"]) == ("mine", 7, 20)
    assert "open loop, 200 requests/s" in result.output


def test_a_load_generator_that_is_late_makes_the_run_invalid(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """No machine dispatches within a picosecond."""
    prompts = write_prompts(tmp_path / "p.jsonl", {})
    report = tmp_path / "report.json"
    result = invoke(
        threaded_server.url,
        *("--prompts", prompts, "--num-requests", "5", "--rate", "100"),
        *("--max-dispatch-delay-ms", "1e-9", "--json", str(report)),
    )
    assert result.exit_code == 1
    assert "not valid" in result.output
    document = json.loads(report.read_text())
    assert document["valid"] is False
    assert document["warnings"][0]["id"] == "dispatch_delay"
    assert result.output.startswith("This run is NOT VALID")


def test_without_counters_acceptance_is_unknown_and_says_what_to_give(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    threaded_server.has_metrics = False
    prompts = write_prompts(tmp_path / "p.jsonl", {})
    report = tmp_path / "report.json"
    result = invoke(
        threaded_server.url, "--prompts", prompts, "--num-requests", "1", "--json", str(report)
    )
    assert result.exit_code == 0, result.output
    speculation = json.loads(report.read_text())["speculation"]
    assert speculation["acceptance_rate"] is None
    assert speculation["acceptance_length"] is None
    assert "--admin-url" in speculation["note"]


def test_an_admin_url_without_counters_is_an_error(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    threaded_server.has_metrics = False
    prompts = write_prompts(tmp_path / "p.jsonl", {})
    result = invoke(threaded_server.url, "--prompts", prompts, "--admin-url", threaded_server.url)
    assert result.exit_code == 1
    assert "answered with status 404" in result.output


def test_an_absent_server_is_an_error_that_names_it(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", {})
    result = invoke("http://127.0.0.1:1", "--prompts", prompts)
    assert result.exit_code == 1
    assert "http://127.0.0.1:1/v1/models cannot be reached" in result.output
    assert "Give the address of a running server, or start one" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workload", "poems"], "'poems' is not one of"),
        (["--concurrency", "0"], "0 is not in the range"),
        (["--concurrency", "2", "--rate", "3"], "exclude each other"),
        (["--rate", "0"], "not in the range"),
        (["--temperature", "-1"], "not in the range"),
        (["--top-p", "1.5"], "not in the range"),
        (["--extra-body", "{"], "is not JSON"),
        (["--extra-body", "[1]"], "must be a JSON object"),
        (["--prompts", "absent.jsonl"], "does not exist"),
        (["--json", "absent/report.json"], "folder that does not exist"),
        (["ftp://127.0.0.1"], "must look like http://127.0.0.1:8000"),
        (["http://127.0.0.1:8000/api"], "must be empty or /v1"),
        (["http://127.0.0.1:99999"], "URL is"),
        (["--admin-url", "8001"], "must look like"),
        (["--unknown"], "No such option"),
        (["--ramp-to", "5"], "--ramp-to needs --rate"),
        (["--rate", "5", "--ramp-to", "9"], "and --duration"),
        (["--burstiness", "0.5"], "--burstiness shapes the arrivals of --rate"),
        (["--max-in-flight", "5"], "--max-in-flight bounds --rate and --trace"),
        (["--slo", "fast"], "--slo is 'fast': 'fast' is no bound"),
        (["--repeats", "0"], "0 is not in the range"),
        (["--trace", "absent.jsonl"], "does not exist"),
        (["--phases", "absent.yaml"], "does not exist"),
        (["--adaptation-tolerance", "1"], "not in the range"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_allowed(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.output


def test_help_shows_examples() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "paceline bench run --workload predictable --concurrency 8" in result.output


def test_help_lists_every_workload_with_its_description() -> None:
    output = invoke("--help").output
    for workload in load_workloads().values():
        assert re.search(rf"^ +{workload.name} +{re.escape(workload.description)}$", output, re.M)


def test_the_command_line_loads_without_the_heavy_imports() -> None:
    """`paceline --help` must stay fast: aiohttp and NumPy come only with a run."""
    import subprocess

    code = "import sys, paceline.workbench.bench.command as _; "
    code += "print({'aiohttp', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_bounds_beside_phases_are_wrong_usage(tmp_path: Path) -> None:
    phases = tmp_path / "phases.yaml"
    phases.write_text("phases: []")
    result = invoke("--phases", str(phases), "--num-requests", "5")
    assert result.exit_code == 2
    assert "--phases gives each phase a duration" in result.output
    result = invoke("--phases", str(phases))
    assert result.exit_code == 2
    assert "phases is []; it must be a non-empty list" in result.output


def test_phases_are_reported_each_with_its_figures(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """Two phases of 0.4 s, repeated twice; every answer has 3 chunks and 6 tokens."""
    write_prompts(tmp_path / "mine.jsonl", {"tokens": 6, "delay_s": 0.01})
    phases, report = tmp_path / "phases.yaml", tmp_path / "report.json"
    phases.write_text(
        "phases:\n"
        "- {name: calm, duration_s: 0.4, prompts: mine.jsonl, load: {concurrency: 1}}\n"
        "- {name: busy, duration_s: 0.4, prompts: mine.jsonl, load: {rate_per_s: 60}}\n"
    )
    result = invoke(
        threaded_server.url,
        *("--phases", str(phases), "--repeats", "2", "--json", str(report)),
        *("--slo", "ttft=60s", "--adaptation-window", "0.05", "--max-dispatch-delay-ms", "60000"),
    )
    document = json.loads(report.read_text())
    validate(document)
    calm, busy = document["phases"]
    assert (calm["name"], busy["name"]) == ("calm", "busy")
    assert busy["load"] == "open loop, 60 requests/s"
    assert (calm["adaptation"], len(busy["adaptation"])) == ([], 2)
    num_requests = [phase["summary"]["num_requests"] for phase in (calm, busy)]
    assert min(num_requests) >= 1
    assert sum(num_requests) == document["summary"]["num_requests"]
    assert document["summary"]["goodput"]["attained_fraction"] == 1.0
    assert len(document["repeats"]) == len(document["series"]) == 2
    # The server drafts 8 tokens for each answer and accepts 4.
    assert calm["speculation"]["acceptance_rate"] == 0.5
    assert document["speculation"]["drafted_tokens"] == 8 * sum(num_requests)
    assert "calm" in result.output
    assert "goodput" in result.output


def test_a_trace_of_lengths_is_sent_with_texts_of_these_lengths(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """The server counts two characters per token, which the first request finds out."""
    trace, report = tmp_path / "trace.jsonl", tmp_path / "report.json"
    trace.write_text('{"timestamp": 7000, "input_length": 300, "output_length": 9}\n')
    result = invoke(
        threaded_server.url,
        *("--trace", str(trace), "--json", str(report), "--max-dispatch-delay-ms", "60000"),
    )
    assert result.exit_code == 0, result.output
    probe, body = threaded_server.bodies
    assert probe["max_tokens"] == 1
    assert len(body["prompt"]) == 600
    assert (body["max_tokens"], body["ignore_eos"]) == (9, True)
    summary = json.loads(report.read_text())["summary"]
    assert (summary["num_requests"], summary["prompt_tokens"]) == (1, 300)


def test_a_trace_is_replayed_at_its_times(threaded_server: SimulatedServer, tmp_path: Path) -> None:
    """Lines with text keep their text; their times are divided by the speed."""
    trace, report = tmp_path / "trace.jsonl", tmp_path / "report.json"
    lines = [
        {"timestamp": 5000 + 100 * n, "prompt": json.dumps({"tokens": 2}), "task": f"t{n}"}
        for n in range(4)
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    records = tmp_path / "records.jsonl"
    result = invoke(
        threaded_server.url,
        *("--trace", str(trace), "--trace-unit", "ms", "--trace-speed", "2"),
        *("--max-in-flight", "1"),
        *("--json", str(report), "--records", str(records), "--max-dispatch-delay-ms", "60000"),
    )
    assert result.exit_code == 0, result.output
    due_s = [json.loads(line)["scheduled_s"] for line in records.read_text().splitlines()]
    assert due_s == pytest.approx([0.0, 0.05, 0.1, 0.15])
    document = json.loads(report.read_text())
    validate(document)
    assert set(document["summary"]["by_task"]) == {"t0", "t1", "t2", "t3"}
    assert "by task" in result.output
    assert "times in ms) at 2 times its speed" in " ".join(result.output.split())


def test_sessions_grow_by_the_answers(threaded_server: SimulatedServer, tmp_path: Path) -> None:
    """The second request holds the first question, its answer, and the second question."""
    script = json.dumps({"chunks": ["he", "llo"]})
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(
        json.dumps({"messages": [{"role": "user", "content": script}], "turns": [script]})
    )
    records = tmp_path / "records.jsonl"
    result = invoke(
        threaded_server.url,
        *("--prompts", str(prompts), "--num-requests", "2", "--records", str(records)),
    )
    assert result.exit_code == 0, result.output
    assert [m["content"] for m in threaded_server.bodies[1]["messages"]] == [
        script,
        "hello",
        script,
    ]
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(line["index"], line["turn"]) for line in lines] == [(0, 0), (0, 1)]
    assert "answer" not in lines[0]
    ids = [threaded_server.header(number, "x-request-id") for number in range(2)]
    assert ids == [line["request_id"] for line in lines]


def test_a_page_for_readers_is_written(threaded_server: SimulatedServer, tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.jsonl", {"tokens": 6})
    page = tmp_path / "run.html"
    words = ["--prompts", prompts, "--num-requests", "4", "--html", str(page)]
    result = invoke(threaded_server.url, *words, "--max-dispatch-delay-ms", "60000")
    assert result.exit_code == 0, result.output
    assert "All 4 requests succeeded." in page.read_text()


def test_a_run_that_counts_the_drafts_of_others_says_so(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    """While each answer is written, other clients' drafts of 400 tokens are counted."""

    async def count_others(number: int) -> None:
        threaded_server.drafted += 400

    threaded_server.before_chunk = count_others
    prompts = write_prompts(tmp_path / "p.jsonl", {"tokens": 6})
    report = tmp_path / "report.json"
    words = ("--prompts", prompts, "--num-requests", "8", "--json", str(report))
    result = invoke(threaded_server.url, *words, "--max-dispatch-delay-ms", "60000")
    assert result.exit_code == 0, result.output
    warnings = {w["id"]: w for w in json.loads(report.read_text())["warnings"]}
    assert "of which this run received 48" in warnings["other_traffic"]["message"]
    assert "drafted), other clients included" in result.output


def test_acceptance_by_request_is_reported_where_answers_show_it(
    threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    counts = {"num_draft_tokens": 10, "num_accepted_draft_tokens": 7, "num_spec_steps": 5}
    shown = {"metrics": {"speculative_decoding": counts}}
    prompts = write_prompts(tmp_path / "p.jsonl", {"tokens": 6, "beside_usage": shown}, {})
    report, records = tmp_path / "report.json", tmp_path / "records.jsonl"
    result = invoke(
        threaded_server.url,
        *("--prompts", prompts, "--num-requests", "4", "--json", str(report)),
        *("--records", str(records), "--max-dispatch-delay-ms", "60000"),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    validate(document)
    acceptance = document["summary"]["acceptance"]
    assert (acceptance["num_requests"], acceptance["acceptance_rate"]) == (2, 0.7)
    assert acceptance["acceptance_length"] == 1 + 14 / 10
    assert document["summary"]["by_task"]["code"]["acceptance"]["acceptance_rate"] == 0.7
    rates = [json.loads(line)["acceptance_rate"] for line in records.read_text().splitlines()]
    assert sorted(rates, key=str) == [0.7, 0.7, None, None]
    assert "acceptance rate 0.700, acceptance length 2.40; by request p10 0.70" in result.output
