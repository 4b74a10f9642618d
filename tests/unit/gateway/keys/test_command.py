"""`paceline keys` creates, lists and revokes keys, and the file holds no secret."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.runtime.gateway.keys.file import KeyFile
from paceline.runtime.gateway.keys.record import split_key
from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.keys.roles import Role


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose settings name the files."""
    monkeypatch.chdir(tmp_path)
    Path("paceline.yaml").write_text("keys: {file: api-keys, admin_key_file: admin-keys}\n")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments])


def create(*arguments: str) -> str:
    result = run("create", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def holder(path: str, key: str) -> object:
    return KeyFile(Path(path)).ring().authenticate(f"Bearer {key}", time.time())


def test_a_created_key_is_printed_once_and_opens_the_gateway() -> None:
    key = create("--tenant", "acme", "--grant", "priority", "--grant", "ignore_eos")
    assert re.fullmatch(r"pl-[a-z2-7]{8}-[a-z2-7]{32}", key)
    found = holder("api-keys", key)
    assert isinstance(found, Tenant)
    assert (found.name, found.granted_fields) == ("acme", {"priority", "ignore_eos"})
    _, secret = split_key(key) or ("", "")
    assert secret not in Path("api-keys").read_text()
    assert secret not in run("list").output
    assert Path("api-keys").stat().st_mode & 0o777 == 0o600


def test_the_list_shows_the_created_keys() -> None:
    first = create("--tenant", "acme", "--grant", "priority")
    second = create("--tenant", "beta", "--expires", "2999-01-31")
    listed = [re.split(r" {2,}", line) for line in run("list").stdout.splitlines()]
    assert listed[0] == ["ID", "TENANT", "CREATED", "EXPIRES", "GRANTED"]
    assert listed[1][:2] == [first[3:11], "acme"]
    assert listed[1][3:] == ["never", "priority"]
    assert listed[2][:2] == [second[3:11], "beta"]
    assert listed[2][3:] == ["2999-01-31T00:00:00+00:00", "-"]


def test_a_revoked_key_is_removed_and_the_others_stay() -> None:
    Path("api-keys").write_text("# ours\n")
    keys = [create("--tenant", name) for name in ("a", "b", "c")]
    assert run("revoke", keys[1][3:11]).exit_code == 0
    assert [isinstance(holder("api-keys", key), Tenant) for key in keys] == [True, False, True]
    assert Path("api-keys").read_text().startswith("# ours\n")


def test_admin_keys_have_a_file_of_their_own() -> None:
    key = create("--admin", "--tenant", "ops")
    assert isinstance(holder("admin-keys", key), Tenant)
    assert not Path("api-keys").exists()
    assert run("list", "--admin").stdout.count("ops") == 1
    assert run("revoke", "--admin", key[3:11]).exit_code == 0


def test_admin_keys_have_a_role_and_others_have_none() -> None:
    for arguments, role in (((), Role.ADMIN), (("--role", "read"), Role.READ)):
        found = holder("admin-keys", create("--admin", "--tenant", "ops", *arguments))
        assert isinstance(found, Tenant)
        assert found.role is role
    listed = [line.split() for line in run("list", "--admin").stdout.splitlines()]
    assert [row[-1] for row in listed] == ["ROLE", "admin", "read"]
    create("--tenant", "a")
    assert '"role":null' in Path("api-keys").read_text()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("90d", timedelta(days=90)),
        ("12h", timedelta(hours=12)),
        ("2999-01-31", datetime(2999, 1, 31, tzinfo=UTC)),
        ("2999-01-31T12:00+01:00", datetime(2999, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_expiry_is_a_span_or_a_date(given: str, expected: timedelta | datetime) -> None:
    create("--tenant", "a", "--expires", given)
    line = json.loads(Path("api-keys").read_text())
    created = datetime.fromisoformat(line["created_at"])
    moment = expected if isinstance(expected, datetime) else created + expected
    assert datetime.fromisoformat(line["expires_at"]) == moment
    assert abs((datetime.now(UTC) - created).total_seconds()) < 60


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("create",), "Missing option '--tenant'"),
        (("create", "--tenant", "a b"), "tenant is 'a b'; it must be 1 to 64 letters"),
        (("create", "--tenant", "a", "--grant", "cache_salt"), "cannot be granted"),
        (("create", "--tenant", "a", "--grant", "a-b"), "not the name of a field"),
        (("create", "--tenant", "a", "--admin", "--grant", "priority"), "leave it out"),
        (("create", "--tenant", "a", "--role", "read"), "add --admin"),
        (("create", "--tenant", "a", "--admin", "--role", "root"), "not one of"),
        (("create", "--tenant", "a", "--expires", "soon"), "it must be a number of days"),
        (("create", "--tenant", "a", "--expires", "99999d"), None),
        (("create", "--tenant", "a", "--expires", "2001-01-31"), "which has passed"),
        (("create", "--tenant", "a", "--expires", "0d"), "which has passed"),
        (("revoke", "abcdefgh"), "has no key with the id 'abcdefgh'"),
        (("list", "--config", "none.yaml"), "none.yaml cannot be read"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_reason(
    arguments: tuple[str, ...], reason: str | None
) -> None:
    Path("api-keys").touch()
    result = run(*arguments)
    assert result.exit_code == (2 if reason else 0)
    assert reason is None or reason in result.output


def test_without_a_file_the_setting_is_named() -> None:
    Path("paceline.yaml").unlink()
    for arguments in (("create", "--tenant", "a"), ("list",), ("revoke", "abcdefgh")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "keys.file is not set" in result.output
    assert "keys.admin_key_file is not set" in run("list", "--admin").output
    assert isinstance(holder("other", create("--tenant", "a", "--file", "other")), Tenant)


def test_a_file_that_cannot_be_used_exits_with_2_and_is_unchanged() -> None:
    Path("api-keys").write_text("# first\nnonsense\n")
    for arguments in (("create", "--tenant", "a"), ("list",), ("revoke", "abcdefgh")):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert "api-keys, line 2: it is not a JSON object" in result.output
    assert Path("api-keys").read_text() == "# first\nnonsense\n"
    assert run("list", "--file", "none/keys").exit_code == 2
    assert run("create", "--tenant", "a", "--file", "none/keys").exit_code == 2


@pytest.mark.parametrize("command", [(), ("create",), ("list",), ("revoke",)])
def test_every_help_has_examples(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "paceline keys create --tenant acme" in result.output


def test_a_key_may_opt_out_of_the_capture() -> None:
    key = create("--tenant", "clinic", "--no-capture")
    found = holder("api-keys", key)
    assert isinstance(found, Tenant)
    assert not found.may_be_captured
    assert "(not captured)" in run("list").stdout
    other = holder("api-keys", create("--tenant", "acme"))
    assert isinstance(other, Tenant)
    assert other.may_be_captured
    assert '"captured"' not in Path("api-keys").read_text().splitlines()[1]
    refused = run("create", "--admin", "--tenant", "ops", "--no-capture")
    assert "--no-capture is for the data port" in refused.stderr


def test_keys_of_the_data_port_never_enter_a_file_of_admin_keys() -> None:
    """There, a key without a role may do everything."""
    create("--admin", "--tenant", "ops", "--file", "admin-keys")
    before = Path("admin-keys").read_text()
    result = run("create", "--tenant", "acme", "--file", "admin-keys")
    assert result.exit_code == 2
    assert "add --admin, or give another file" in result.output
    assert Path("admin-keys").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tenant", "a", "--tenant", "b"), "--tenant is given 2 times"),
        (("--tenant", "a", "--expires", "1d", "--expires", "9999d"), "--expires is given 2 times"),
        (
            ("--tenant", "a", "--admin", "--role", "read", "--role", "admin"),
            "--role is given 2 times",
        ),
        (("--tenant", "a", "--file", "k", "--file", "l"), "--file is given 2 times"),
        (("--tenant", "a", "--file", ""), "--file is empty"),
        (("--tenant", "a", "--expires", " "), "--expires is empty"),
        (("--tenant", "a", "--grant", ""), "--grant is empty"),
    ],
)
def test_an_option_that_is_repeated_or_empty_creates_no_key(
    arguments: tuple[str, ...], reason: str
) -> None:
    result = run("create", *arguments)
    assert result.exit_code == 2
    assert reason in result.output
    assert not any(Path(name).exists() for name in ("api-keys", "admin-keys", "k", "l"))
