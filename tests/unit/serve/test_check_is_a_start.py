"""What a start would refuse before it serves, the check refuses with the same exit code."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.foundation.machine import abstract_sockets
from paceline.runtime.gateway.http import listening
from paceline.runtime.gateway.keys.record import KeyRecord, hash_secret, make_key, render_line
from paceline.runtime.gateway.leaving_notice import Notice, PortAddress
from paceline.runtime.serve import run as serve_run
from paceline.runtime.serve.handover import taking_over
from paceline.runtime.serve.plan import ServePlan

REPLICAS = "replicas: [{url: 'http://127.0.0.1:9'}]\n"


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, and a start that ends once it has opened its ports."""
    monkeypatch.chdir(tmp_path)

    async def serve(plan: ServePlan, **_: Any) -> None:
        gateway = plan.gateway
        with listening.bind(gateway.host, gateway.port, "port"):
            listening.bind(gateway.admin_host, gateway.admin_port, "admin_port").close()

    monkeypatch.setattr(serve_run, "serve", serve)


def outcomes(text: str, *arguments: str, **environ: str) -> tuple[Result, Result]:
    """The results of the check and of the start with these settings, on free ports."""
    Path("paceline.yaml").write_text(text)
    given = list(arguments)
    environ: dict[str, str | None] = {**environ}
    if "model:" in text:
        environ["PACELINE_ENGINE__MODEL"] = None  # it would decide before the file
    if "port:" not in text:
        environ = {"PACELINE_SERVER__PORT": "0", "PACELINE_SERVER__ADMIN_PORT": "0", **environ}
    if "replicas:" in text:
        given = ["--replicas", "0", *given]
    before = tree()
    check = CliRunner().invoke(main, ["serve", "--check", *given], env=environ)
    assert tree() == before, "the check has created something"
    start = CliRunner().invoke(main, ["serve", *given], env=environ)
    assert check.exit_code == start.exit_code, (check.output, start.output)
    return check, start


def tree() -> set[str]:
    return {str(path) for path in Path().rglob("*")}


def key_line(**changes: Any) -> str:
    key_id, secret = make_key()
    record: dict[str, Any] = {
        "id": key_id,
        "tenant": "acme",
        "secret_sha256": hash_secret(secret),
        "created_at": "2026-01-01T00:00:00Z",
    }
    return render_line(msgspec_convert(record | changes))


def msgspec_convert(record: dict[str, Any]) -> KeyRecord:
    import msgspec

    return msgspec.convert(record, KeyRecord)


def _write(name: str, content: str | bytes) -> None:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


UNUSABLE: dict[str, tuple[Callable[[], object], str, str]] = {
    "a key file that is missing": (lambda: None, "keys: {file: none}", "does not exist"),
    "a key file that is a folder": (lambda: Path("d").mkdir(), "keys: {file: d}", "Is a directory"),
    "a key file that is a pipe": (lambda: os.mkfifo("p"), "keys: {file: p}", "it is not a file"),
    "a key file with one broken line": (
        lambda: _write("k", key_line() + "{broken\n" + key_line()), "keys: {file: k}", "line 2",
    ),
    "a key file that repeats the end of a key": (
        lambda: _write("k", key_line()[:-2] + ',"expires_at":null,"expires_at":null}\n'),
        "keys: {file: k}", "'expires_at' is repeated",
    ),
    "a key file in another encoding": (
        lambda: _write("k", b"\xff\xfe{\x00"), "keys: {file: k}", "not UTF-8",
    ),
    "an admin key file that is a broken link": (
        lambda: Path("k").symlink_to("unmounted"), "keys: {admin_key_file: k}", "does not exist",
    ),
    "one file for the keys of both ports": (
        lambda: _write("k", key_line()), "keys: {file: k, admin_key_file: k}", "the same file",
    ),
    "a link to the keys of the other port": (
        lambda: (_write("k", key_line()), Path("a").symlink_to("k")),
        "keys: {file: k, admin_key_file: a}", "the same file",
    ),
    "a hard link to the keys of the other port": (
        lambda: (_write("k", key_line()), os.link("k", "a")),
        "keys: {file: k, admin_key_file: a}", "the same file",
    ),
    "a copy of the keys of the other port": (
        lambda: (_write("k", key_line()), shutil.copy("k", "a")),
        "keys: {file: k, admin_key_file: a}", "which is also in k",
    ),
    "one key among others in both files": (
        lambda: (
            _write("k", key_line() + key_line(id="sharedaa")),
            _write("a", key_line(id="sharedaa", role="read") + key_line()),
        ),
        "keys: {file: k, admin_key_file: a}", "the key sharedaa, which is also in k",
    ),
    "one secret under two ids": (
        lambda: (
            _write("k", key_line(secret_sha256="0" * 64)),
            _write("a", key_line(secret_sha256="0" * 64)),
        ),
        "keys: {file: k, admin_key_file: a}", "which is also in k",
    ),
    "an audit in the settings": (
        lambda: None, "keys: {audit_file: ./paceline.yaml}", "and the settings file are the same",
    ),
    "an audit in the default file of the secret": (
        lambda: _write("k", key_line()), "keys: {file: k, audit_file: k.salt}", "the same file",
    ),
    "admin keys in the default file of the secret": (
        lambda: (_write("k", key_line()), _write("k.salt", key_line())),
        "keys: {file: k, admin_key_file: k.salt}", "the same file",
    ),
    "a link to the default file of the secret": (
        lambda: (_write("k", key_line()), Path("a").symlink_to("k.salt")),
        "keys: {file: k, audit_file: a}", "the same file",
    ),
    "an audit in a hard link to the keys": (
        lambda: (_write("k", key_line()), os.link("k", "a")),
        "keys: {file: k, audit_file: a}", "the same file",
    ),
    "an audit in the file of keys": (
        lambda: _write("k", key_line()), "keys: {file: k, audit_file: ./k}", "the same file",
    ),
    "a secret of another form": (
        lambda: (_write("k", key_line()), _write("s", "secret")),
        "keys: {file: k, salt_file: s}", "64 hexadecimal digits",
    ),
    "a secret in a folder that is missing": (
        lambda: _write("k", key_line()), "keys: {file: k, salt_file: d/s}", "does not exist",
    ),
    "a secret without keys": (lambda: None, "keys: {salt_file: s}", "there are no API keys"),
    "an audit file that is a folder": (
        lambda: Path("d").mkdir(), "keys: {audit_file: d}", "cannot be written",
    ),
    "an audit file in a folder that is missing": (
        lambda: None, "keys: {audit_file: d/a}", "its folder does not exist",
    ),
    "an audit file that is a pipe without a reader": (
        lambda: os.mkfifo("p"), "keys: {audit_file: p}", "cannot be written",
    ),
    "a capture folder that is a file": (
        lambda: _write("f", ""), "capture: {folder: f}", "cannot be used",
    ),
    "a capture folder below a file": (
        lambda: _write("f", ""), "capture: {folder: f/x/y}", "cannot be used",
    ),
    "a hook that ends the process": (
        lambda: (_write("hook_that_exits.py", "raise SystemExit(0)"),),
        "capture: {folder: c, redact: 'hook_that_exits:f'}", "cannot be imported",
    ),
    "a hook that is no function": (
        lambda: None, "capture: {folder: c, redact: 'os:sep'}", "not a function",
    ),
    "a host of another machine": (
        lambda: None,
        "server: {host: 192.0.2.1, port: 0, admin_port: 0}",
        "not one of this machine",
    ),
    "a host that no name has": (
        lambda: None, "server: {host: a..b, port: 0, admin_port: 0}", "set server.host",
    ),
    "one port twice": (
        lambda: None, "server: {port: 8791, admin_port: 8791}", "are both 8791",
    ),
    "one port on all addresses and on one": (
        lambda: None, "server: {port: 8791, admin_port: 8791, host: 0.0.0.0}", "are both 8791",
    ),
    "a log folder that is a file": (
        lambda: _write("f", ""), "engine: {draft: none, log_folder: f}", "engine.log_folder",
    ),
    "a draft folder that is missing": (
        lambda: None, "engine: {draft: ./my-draft}", "./my-draft does not exist",
    ),
    "a model folder that is not mounted": (
        lambda: None, "engine: {model: ../models/x, draft: none}", "../models/x does not exist",
    ),
    "a model that is a broken link": (
        lambda: (Path("org").mkdir(), Path("org/model").symlink_to("/unmounted")),
        "engine: {model: org/model, draft: none}", "a link to a folder that does not exist",
    ),
    "a draft model of the user's own that is missing": (
        lambda: None,
        "engine: {draft: none, vllm_args: [--speculative-config, '{\"model\": \"/no/draft\"}']}",
        "/no/draft, in engine.vllm_args, does not exist",
    ),
}  # fmt: skip
"""What prepares it, the settings, and a part of the reason."""


@pytest.mark.parametrize(("prepare", "settings", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_opened_is_a_fault_of_the_settings_for_both(
    prepare: Callable[[], object], settings: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    prepare()
    text = settings + "\n" + ("" if "engine:" in settings else REPLICAS)
    check, start = outcomes(text)
    assert check.exit_code == 2, check.output
    assert reason in check.output
    assert reason in start.output


ENTRIES = {
    "two entries with one name": (
        "[{url: 'http://a:1', name: x}, {url: 'http://b:1', name: x}]", "the name 'x' twice",
    ),
    "one address in two spellings": (
        "[{url: 'http://A:80/'}, {url: 'http://a'}]", "twice",
    ),
    "a key file that is a folder": ("[{url: 'http://a:1', key_file: .}]", "cannot be read"),
    "a key file that is a pipe": ("[{url: 'http://a:1', key_file: pipe}]", "it is not a file"),
    "a key file that is a device": ("[{url: 'http://a:1', key_file: /dev/zero}]", "not a file"),
    "a key file without end": ("[{url: 'http://a:1', key_file: sparse}]", "is longer than"),
    "a key instead of its file": ("[{url: 'http://a:1', key_file: sk-1}]", "not the key"),
    "a key file that is empty": ("[{url: 'http://a:1', key_file: empty}]", "key is empty"),
    "a line end in a host": ('[{url: "http://10.0.0\\n.1:1"}]', "control characters"),
    "a blank in a host": ("[{url: 'http://a b:1'}]", "url"),
    "an empty label in a host": ("[{url: 'http://a..b:1'}]", "url"),
    "port 0": ("[{url: 'http://h:0'}]", "url"),
    "a host of 5,000 characters": (f"[{{url: 'http://{'a' * 5000}'}}]", "url"),
    "a model id of 5,000 characters": (
        f"[{{url: 'http://a:1', model: {'x' * 5000}}}]", "model",
    ),
    "a line end in a model id": ('[{url: "http://a:1", model: "m\\r\\nx"}]', "control characters"),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "reason"), ENTRIES.values(), ids=ENTRIES)
def test_an_entry_of_replicas_that_cannot_be_one_is_refused_by_both(
    entries: str, reason: str
) -> None:
    _write("empty", "")
    os.mkfifo("pipe")
    with open("sparse", "wb") as file:
        file.truncate(2**40)
    check, _ = outcomes(f"replicas: {entries}\n")
    assert check.exit_code == 2, check.output
    assert reason in check.output
    assert "sk-1" not in check.output


KEY_FILES = {
    "the secret of the cache salts": "s",
    "the default file of that secret": "k.salt",
    "a link to the keys of clients": "link",
    "a hard link to the keys of operators": "hard",
    "the audit": "./audit",
    "the settings": "paceline.yaml",
}


@pytest.mark.parametrize("key_file", KEY_FILES.values(), ids=KEY_FILES)
def test_a_file_of_this_server_is_not_sent_to_a_replica_as_its_key(key_file: str) -> None:
    """Each of them could be read as a key: one word."""
    for name in ("k", "a"):
        _write(name, key_line())
    os.link("a", "hard")
    Path("link").symlink_to("k")
    _write("audit", '{"at":"2026"}\n')
    salt = {"s": "salt_file: s, "}.get(key_file, "")
    for name in ("s", "k.salt"):
        _write(name, "0" * 64 + "\n")
    check, _ = outcomes(
        f"keys: {{file: k, {salt}admin_key_file: a, audit_file: audit}}\n"
        f"replicas: [{{url: 'http://a:1'}}, {{url: 'http://b:1', key_file: {key_file}}}]\n"
    )
    assert check.exit_code == 2, check.output
    assert "and replicas.1.key_file are the same file" in check.output


def test_several_replicas_may_have_the_same_key() -> None:
    _write("shared", "sk-1\n")
    check, _ = outcomes(
        "replicas: [{url: 'http://a:1', key_file: shared}, {url: 'http://b:1', key_file: shared}]\n"
    )
    assert check.exit_code == 0, check.output


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def free_port() -> Iterator[int]:
    """Bound, so that no other test gets it, and not listened on, so that it can be opened."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.mark.parametrize("setting", ["port", "admin_port"])
def test_a_taken_port_is_found_by_the_check_and_not_taken_by_it(
    setting: str, taken_port: int
) -> None:
    other = {"port": "admin_port", "admin_port": "port"}[setting]
    check, _ = outcomes(f"server: {{{setting}: {taken_port}, {other}: 0}}\n{REPLICAS}")
    assert check.exit_code == 1
    assert f"Port {taken_port} on 127.0.0.1 cannot be opened" in check.output


def test_a_check_of_a_replacement_finds_a_port_that_no_own_server_has(taken_port: int) -> None:
    text = f"server: {{port: {taken_port}, admin_port: 0}}\n{REPLICAS}"
    check, _ = outcomes(text, "--take-over")
    assert check.exit_code == 1
    assert f"Port {taken_port} on 127.0.0.1 cannot be opened" in check.output


def test_a_check_of_a_replacement_finds_a_host_of_another_machine(free_port: int) -> None:
    text = f"server: {{port: {free_port}, admin_port: 0, host: 192.0.2.1}}\n{REPLICAS}"
    check, _ = outcomes(text, "--take-over")
    assert check.exit_code == 2


def offer(monkeypatch: pytest.MonkeyPatch, *sockets: socket.socket) -> None:
    """A running server that hands these sockets over."""

    class Taken:
        def __init__(self) -> None:
            self.sockets = sockets

        def close(self) -> None:
            pass

    monkeypatch.setattr(taking_over.TakeOver, "begin", lambda host, port: Taken())


def test_a_check_of_a_replacement_leaves_the_ports_that_the_running_server_has_out(
    taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("paceline.yaml").write_text(f"server: {{port: {taken_port}, admin_port: 0}}\n{REPLICAS}")
    with socket.socket() as data:
        data.bind(("127.0.0.1", 0))
        arguments = ["serve", "--check", "--take-over", "--replicas", "0"]
        offer(monkeypatch, data)  # it has another data port
        assert CliRunner().invoke(main, arguments).exit_code == 1
        data_port = data.getsockname()[1]
        given = ["--port", str(data_port)]
        assert CliRunner().invoke(main, [*arguments, *given]).exit_code == 0
        given += ["--admin-port", str(taken_port)]  # of somebody else
        assert CliRunner().invoke(main, [*arguments, *given]).exit_code == 1


@contextlib.contextmanager
def notice_about(port: int) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(Notice(os.getpid(), PortAddress("127.0.0.1", port)).path)
        listener.listen()
        yield


@pytest.mark.parametrize(
    ("noticed", "is_own", "code"),
    [("data", True, 0), ("admin", True, 1), ("data", False, 1), ("none", True, 1)],
)
def test_only_the_ports_that_an_own_process_is_about_to_free_are_not_checked(
    noticed: str, is_own: bool, code: int,
    taken_port: int, free_port: int, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: is_own)
    Path("paceline.yaml").write_text(
        f"server: {{port: {taken_port}, admin_port: {free_port}}}\n{REPLICAS}"
    )
    port = {"data": taken_port, "admin": free_port, "none": None}[noticed]
    with contextlib.nullcontext() if port is None else notice_about(port):
        arguments = ["serve", "--check", "--replicas", "0"]
        assert CliRunner().invoke(main, arguments).exit_code == code


def test_a_name_of_this_machine_that_others_reach_needs_an_admin_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """/etc/hosts may give localhost any address."""
    resolved = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))
    monkeypatch.setattr(listening.socket, "getaddrinfo", lambda *_, **__: [resolved])
    check, _ = outcomes(f"server: {{port: 0, admin_port: 0, admin_host: localhost}}\n{REPLICAS}")
    assert check.exit_code == 2
    assert "there is no key for it; set keys.admin_key_file" in check.output


def test_a_folder_for_sockets_whose_path_is_too_long_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("t" * 60)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    check, _ = outcomes("engine: {draft: none}\n")
    assert check.exit_code == 2
    assert "Set TMPDIR to a shorter one" in check.output


def test_a_model_that_must_not_be_fetched_and_is_not_there_is_found() -> None:
    environ = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "cache"}
    check, _ = outcomes("engine: {model: someone/else, draft: none}\n", **environ)
    assert check.exit_code == 2
    assert "someone/else is not in the cache of Hugging Face" in check.output


@pytest.mark.parametrize("content", ["", "# none yet\n\n", "\ufeff" + key_line()])
def test_a_key_file_without_keys_or_with_a_byte_order_mark_can_be_used(content: str) -> None:
    """Without keys it admits nobody."""
    _write("k", content)
    check, _ = outcomes(f"keys: {{file: k}}\n{REPLICAS}")
    assert check.exit_code == 0, check.output
