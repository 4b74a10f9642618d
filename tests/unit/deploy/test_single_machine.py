"""The files for machines without Kubernetes, and the Containerfiles."""

from __future__ import annotations

import configparser
import http.server
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import jsonschema
import pytest
import yaml

from paceline.operations.deploy.resources.pods import CACHE_FOLDER, USER_ID
from paceline.runtime.config.tree import ServerSettings

_ROOT = Path(__file__).parents[3]
_FOLDER = _ROOT / "deploy"
_CONTAINERFILES = [_FOLDER / "Containerfile.cpu", _FOLDER / "Containerfile.cuda"]


def _instructions(file: Path) -> list[list[str]]:
    """Each instruction with its arguments."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("file", _CONTAINERFILES, ids=lambda file: file.name)
def test_what_an_image_copies_exists_and_is_sent_to_the_builder(file: Path) -> None:
    sent = (_ROOT / ".dockerignore").read_text().splitlines()
    copied = [
        source
        for name, arguments in _instructions(file)
        if name == "COPY" and not arguments.startswith("--from")
        for source in arguments.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (_ROOT / source).exists()
        assert f"!{source}" in sent


@pytest.mark.parametrize("file", _CONTAINERFILES, ids=lambda file: file.name)
def test_an_image_runs_as_the_user_of_the_manifests(file: Path) -> None:
    instructions = _instructions(file)
    (user,) = [arguments for name, arguments in instructions if name == "USER"]
    assert user == f"{USER_ID}:{USER_ID}"
    home = [arguments for name, arguments in instructions if name == "ENV"]
    assert any(f"HOME={CACHE_FOLDER}" in shlex.split(entry) for entry in home)


def _compose_errors(document: object) -> list[str]:
    schema = json.loads(Path(__file__).with_name("schemas").joinpath("compose.json").read_text())
    return [
        error.message for error in jsonschema.Draft201909Validator(schema).iter_errors(document)
    ]


def test_the_compose_file_fits_the_compose_specification() -> None:
    document = yaml.safe_load((_FOLDER / "compose.yaml").read_text())
    assert _compose_errors(document) == []
    document["services"]["paceline"]["health_check"] = {}
    assert _compose_errors(document)


def _verify_unit(unit: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit, with a program that this machine has."""
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is missing: install systemd")
    program = shutil.which("true")
    assert program is not None
    file = folder / "paceline.service"
    file.write_text(unit.replace("/opt/paceline/.venv/bin/paceline", program))
    return subprocess.run(
        # Units that this one needs are the machine's.
        [verifier, "verify", "--man=no", "--recursive-errors=no", str(file)],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_systemd_finds_nothing_in_the_unit(tmp_path: Path) -> None:
    unit = (_FOLDER / "paceline.service").read_text()
    done = _verify_unit(unit, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # systemd ignores what it does not know, also a protection.
    done = _verify_unit(unit.replace("NoNewPrivileges", "NoNewPrivilege"), tmp_path)
    assert done.returncode == 1
    assert "NoNewPrivilege" in done.stderr


def _service() -> configparser.SectionProxy:
    """The section [Service] of the unit."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(_FOLDER / "paceline.service")
    return unit["Service"]


def test_the_unit_may_write_where_the_sockets_of_its_engines_are() -> None:
    """ProtectSystem=strict makes everything read-only, /tmp too; a private /tmp would hide the
    engines from a process that takes over (docs/how-to/upgrade.md)."""
    service = _service()
    assert service["ProtectSystem"] == "strict"
    assert "/tmp" in service.get("ReadWritePaths", "").split()
    assert "PrivateTmp" not in service


def test_the_unit_lets_requests_complete_before_it_kills() -> None:
    service = _service()
    defaults = ServerSettings()
    assert service.getint("TimeoutStopSec") > defaults.lame_duck_s + defaults.drain_timeout_s
    # With control-group, systemd would send SIGTERM to the engines as well.
    assert service["KillMode"] == "mixed"


def test_containers_have_time_to_complete_their_requests() -> None:
    services = yaml.safe_load((_FOLDER / "compose.yaml").read_text())["services"]
    for service in services.values():
        lame_duck_s = float(service["environment"]["PACELINE_SERVER__LAME_DUCK_S"])
        grace_s = float(service["stop_grace_period"].removesuffix("s"))
        assert grace_s > lame_duck_s + ServerSettings().drain_timeout_s
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert (_ROOT / service["build"]["dockerfile"]).is_file()


def test_containers_can_load_what_torch_compiles_in_their_temporary_folder() -> None:
    """The default of a tmpfs is noexec, which forbids to load compiled kernels."""
    services = yaml.safe_load((_FOLDER / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert service["read_only"]
        (mounted,) = service["tmpfs"]
        path, _, options = mounted.partition(":")
        assert path == "/tmp"
        assert "exec" in options.split(",")


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_its_own_container_whatever_proxy_is_set(
    status: int, exit_code: int
) -> None:
    """Docker sets HTTP_PROXY in every container where its client has a proxy."""

    class Ready(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/ready"
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    services = yaml.safe_load((_FOLDER / "compose.yaml").read_text())["services"]
    (command,) = {tuple(service["healthcheck"]["test"]) for service in services.values()}
    assert command[:3] == ("CMD", "python3", "-c")
    for service in services.values():
        assert service["environment"]["PACELINE_SERVER__PROBE_PORT"] in command[3]
    with http.server.HTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = command[3].replace("8002", str(server.server_port))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""},
            check=False, capture_output=True, timeout=60,
        )  # fmt: skip
        server.shutdown()
    assert done.returncode == exit_code, done.stderr
