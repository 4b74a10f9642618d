"""Flags, error messages and exit codes of `paceline serve`."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.demo import draft_path
from paceline.runtime.serve.startup_checks import startup


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings file of the checkout out of the tests."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["serve", *arguments], env=env)


def test_flags_become_settings() -> None:
    result = run(
        *("./m", "--draft", "ngram", "--policy", "off", "--draft-length-max", "4"),
        *("--replicas", "2", "--host", "::1", "--port", "1", "--admin-port", "2"),
        *("--print-config", "--", "--max-num-seqs", "4"),
    )
    assert result.exit_code == 0, result.output
    settings = yaml.safe_load(result.output)
    engine, server = settings["engine"], settings["server"]
    assert (engine["model"], engine["draft"], engine["policy"]) == ("./m", "ngram", "off")
    assert (engine["draft_length_max"], engine["replicas"]) == (4, 2)
    assert engine["vllm_args"] == ["--max-num-seqs", "4"]
    assert (server["host"], server["port"], server["admin_port"]) == ("::1", 1, 2)


def test_arguments_for_vllm_are_not_taken_as_the_model() -> None:
    result = run("--print-config", "--", "--max-num-seqs", "4")
    assert yaml.safe_load(result.output)["engine"]["model"] == "bundled"


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (
            ("--policy", "fast"),
            {},
            "engine.policy (from flag --policy): policy is 'fast'; it must be one of goodput, ",
        ),
        (("--bogus",), {}, "No such option"),
        (("a", "b"), {}, "unexpected extra argument"),
        (("--config", "none.yaml"), {}, "none.yaml cannot be read"),
        (("--draft-length-max", "0"), {}, "draft_length_max is '0' (from flag --draft-length-max)"),
        (("/no/such/model",), {}, "/no/such/model does not exist"),
        (("--host", "::1", "--host", "0.0.0.0"), {}, "--host is given 2 times; give it once"),
        (("--port", "1", "--port", "1"), {}, "--port is given 2 times"),
        (("--config", "a.yaml", "--config", "b.yaml"), {}, "--config is given 2 times"),
        (("--config", ""), {}, "--config is empty; give a value, or leave it out"),
        (("--host", " "), {}, "--host is empty"),
        (("--draft", ""), {}, "--draft is empty"),
        (("",), {}, "MODEL is empty"),
        ((), {"PACELINE_SERVER__PROT": "1"}, "did you mean PACELINE_SERVER__PORT?"),
        (("--replicas", "64"), {}, "Set replicas to at most"),
        (("--draft", "ngram", "--", "--uds", "/x"), {}, "engine.vllm_args has --uds"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_reason(
    arguments: tuple[str, ...], env: dict[str, str], message: str
) -> None:
    result = run(*arguments, env=env)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("server: {port: 8000}", "there is nothing to serve; set engine.replicas (--replicas)"),
        (
            "replicas: [{url: 'http://a:1/v1'}]",
            "replicas.0: url is http://a; leave out everything after",
        ),
        ("replicas: [{dns: 'a:1'}, {model: m}]", "replicas.1: give either url"),
        (
            "replicas: [{dns: 'a:1', key_file: none.key}]",
            "replicas.0: key_file cannot be read: No su",
        ),
        ("replicas: [{dns: 'a:1', key_file: two.key}]", "key is empty or contains spaces"),
        ("replicas: [{dns: 'a:1'}, {dns: 'a:1', name: b}]", "the dns 'a:1' twice"),
    ],
)
def test_invalid_remote_replicas_exit_with_2(content: str, message: str) -> None:
    Path("paceline.yaml").write_text(content)
    Path("two.key").write_text("s3cret words\n")
    result = run("--replicas", "0")
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    assert message in result.output
    assert "s3cret" not in result.output


def test_a_port_that_is_chosen_at_the_start_cannot_be_taken_over() -> None:
    Path("paceline.yaml").write_text("replicas: [{dns: 'a:1'}]")
    result = run("--replicas", "0", "--port", "0", "--take-over")
    assert result.exit_code == 2
    assert "server.port is 0, so there is no port to take over; set it (--port)" in result.output


def test_a_remote_replica_must_not_have_the_name_of_a_local_engine() -> None:
    Path("paceline.yaml").write_text("replicas: [{dns: 'a:1', name: engine-0}]")
    result = run("--draft", "ngram")
    assert result.exit_code == 2
    assert "engine-0', which is the name of a local engine" in result.output


def test_a_taken_port_exits_with_1_before_an_engine_starts(taken_port: int) -> None:
    """No engine is reported, and none has begun a log."""
    result = subprocess.run(
        [
            *(sys.executable, "-c", "from paceline.cli import main; main()"),
            *("serve", "--port", str(taken_port), "--admin-port", "0"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PACELINE_ENGINE__LOG_FOLDER": "logs"},
    )
    assert result.returncode == 1
    assert f"Port {taken_port} on 127.0.0.1 cannot be opened" in result.stderr
    assert "engine-0" not in result.stderr
    assert not Path("logs").exists()


def start(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The real command, which must end by itself."""
    return subprocess.run(
        [sys.executable, "-c", "from paceline.cli import main; main()", "serve", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PACELINE_ENGINE__KV_CACHE_BYTES": str(64 * 1024**2), **environ},
    )


RAY = ("--", "--distributed-executor-backend", "ray")


def test_a_refused_check_ends_the_start_before_anything_is_opened(taken_port: int) -> None:
    """Without the check, the next thing is the port."""
    arguments = ("--port", str(taken_port), "--admin-port", "0", *RAY)
    refused = start(*arguments)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        "paceline: engine.vllm_args has --distributed-executor-backend ray, but "
    )
    assert "(check ray; engine.skip_checks leaves it out)" in refused.stderr
    skipped = start(*arguments, PACELINE_ENGINE__SKIP_CHECKS='["ray"]')
    assert skipped.returncode == 1
    assert f"Port {taken_port} on 127.0.0.1 cannot be opened" in skipped.stderr


def test_check_reports_and_starts_nothing() -> None:
    fine = start("--check")
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "passed      vocabulary   target and draft have the same 4,096 tokens" in fine.stdout
    assert "refused" not in fine.stdout
    assert re.search(
        r"\nmodel +paceline-demo\ndrafter +draft model \S+: the drafter of", fine.stdout
    )
    assert re.search(r"\nadmin port +127.0.0.1", fine.stdout)
    wrong = start("--check", *RAY)
    assert wrong.returncode == 1
    assert "\nrefused     ray " in wrong.stdout
    assert " 1 refused" in wrong.stdout


def test_checks_that_cannot_be_carried_out_are_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "gather_facts", lambda *_, **__: 1 // 0)
    assert run("--check").exit_code == 1


def test_a_warning_does_not_end_the_start(taken_port: int) -> None:
    """Drafts of a tokenizer with other ids are served, and hardly ever accepted."""
    shutil.copytree(draft_path(), "draft")
    file = Path("draft/tokenizer.json")
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {token: (id + 1) % 4096 for token, id in vocabulary.items()}
    file.write_text(json.dumps(tokenizer))
    config = {"method": "draft_model", "model": "draft", "num_speculative_tokens": 4}
    result = start(
        *("--draft", "none", "--port", str(taken_port), "--admin-port", "0"),
        *("--", "--speculative-config", json.dumps(config)),
    )
    assert "paceline: WARNING: the draft draft has as many tokens as the target" in result.stderr
    assert f"Port {taken_port} on 127.0.0.1 cannot be opened" in result.stderr


def test_help_answers_without_the_heavy_parts() -> None:
    """`paceline --help` and `paceline serve --help` import neither torch nor aiohttp."""
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from paceline.cli import main\n"
        "for arguments in (['--help'], ['serve', '--help']):\n"
        "    result = CliRunner().invoke(main, arguments)\n"
        "    assert 'Examples' in result.output, result.output\n"
        "heavy = {'torch', 'vllm', 'aiohttp', 'uvicorn'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr


NUMBERS = ["010", "8_0", "\uff18\uff10", "0x50", "8.5", "+-1", "8\u00b2", "eighty", "00"]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("flag", ["--port", "--admin-port", "--replicas", "--draft-length-max"])
def test_a_flag_takes_the_numbers_that_a_variable_takes(flag: str, value: str) -> None:
    section = "server" if "port" in flag else "engine"
    name = f"PACELINE_{section}__{flag[2:].replace('-', '_')}".upper()
    for result in (
        CliRunner().invoke(main, ["serve", "--print-config", flag, value]),
        CliRunner().invoke(main, ["serve", "--print-config"], env={name: value}),
    ):
        assert result.exit_code == 2
        assert f"{section}.{flag[2:].replace('-', '_')} is {value!r} (from " in result.output


@pytest.mark.parametrize("arguments", [["--"], ["some/model", "--"], ["--port", "81", "--"]])
def test_no_arguments_after_the_dashes_do_not_replace_those_of_the_file(
    arguments: list[str],
) -> None:
    result = CliRunner().invoke(main, ["serve", "--print-config", *arguments])
    assert result.exit_code == 2
    assert "-- is the last argument" in result.output
