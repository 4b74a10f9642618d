"""The files for machines without Kubernetes, and the Containerfiles."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import pytest
import yaml

from paceline.config.tree import ServerSettings
from paceline.deploy.resources.pods import CACHE_FOLDER, USER_ID

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


def test_the_unit_lets_requests_complete_before_it_kills() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(_FOLDER / "paceline.service")
    service = unit["Service"]
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
