"""Whose key is it, and what happens to the file it stands in?"""

from __future__ import annotations

import hmac
import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.gateway import GatewaySettings
from paceline.gateway.http.errors import Problem
from paceline.gateway.keys import file as key_file
from paceline.gateway.keys.file import KeyFile, change_text
from paceline.gateway.keys.key_text import hash_secret, join_key, make_key, split_key
from paceline.gateway.keys.record import (
    MAX_FILE_BYTES,
    MAX_KEYS,
    KeyRecord,
    KeysUnusable,
    parse_records,
    render_line,
)
from paceline.gateway.keys.ring import KeyRing, Tenant, granted_to
from paceline.gateway.keys.salt import read_or_create_secret, salt_of
from paceline.gateway.settings import KeySettings

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
EXPIRES = CREATED + timedelta(days=1)
SECRET = "a" * 32


def record(**changes: object) -> KeyRecord:
    values: dict[str, object] = {
        "id": "abcdefgh",
        "tenant": "acme",
        "secret_sha256": hash_secret(SECRET),
        "created_at": CREATED,
    }
    return KeyRecord(**{**values, **changes})  # type: ignore[arg-type]


RING = KeyRing(
    [
        record(granted_fields=("priority",)),
        record(id="expiring", tenant="late", expires_at=EXPIRES),
    ]
)


def test_a_key_has_at_least_128_random_bits_and_reads_back() -> None:
    keys = {make_key() for _ in range(100)}
    assert len({secret for _, secret in keys}) == 100
    for key_id, secret in keys:
        assert len(secret) * 5 >= 128  # 32 letters of which each holds five bits
        assert split_key(join_key(key_id, secret)) == (key_id, secret)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_known_key_is_its_tenant(scheme: str) -> None:
    found = RING.authenticate(f"{scheme} pl-abcdefgh-{SECRET}", 0)
    assert found == Tenant("acme", frozenset({"priority"}), "abcdefgh")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        SECRET,
        f"pl-abcdefgh-{SECRET}",
        f"Basic pl-abcdefgh-{SECRET}",
        f"Bearer pl-abcdefgh-{'b' * 32}",
        f"Bearer pl-abcdefgh-{SECRET}a",
        f"Bearer pl-abcdefgh-{SECRET[:-1]}",
        f"Bearer pl-abcdefgh-{SECRET.upper()}",
        f"Bearer pl-unknown2-{SECRET}",
        f"Bearer pl--{SECRET}",
        f"Bearer pl-abcdefgh-{hash_secret(SECRET)[:32]}",
        "Bearer pl-abcdefgh-é" + "a" * 31,
        "Bearer " + "x" * 100_000,
    ],
)
def test_anything_else_is_a_401_that_asks_for_a_bearer(authorization: str | None) -> None:
    problem = RING.authenticate(authorization, 0)
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code) == (401, "invalid_api_key")
    assert (b"www-authenticate", b"Bearer") in problem.headers()
    assert SECRET not in problem.message


def test_unknown_ids_and_wrong_secrets_read_alike_and_compare_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One comparison of two hashes in each case, so the clock tells nothing either."""
    compared = []

    def compare(given: str, expected: str) -> bool:
        compared.append((len(given), len(expected)))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    answers = [
        RING.authenticate(f"Bearer pl-{key_id}-{'c' * 32}", 0)
        for key_id in ("abcdefgh", "unknown2")
    ]
    assert answers[0] == answers[1]
    assert compared == [(64, 64), (64, 64)]


def test_a_key_ends_at_its_date_and_only_its_holder_learns_that() -> None:
    holder, other = f"Bearer pl-expiring-{SECRET}", f"Bearer pl-expiring-{'b' * 32}"
    before_s, at_s = EXPIRES.timestamp() - 0.001, EXPIRES.timestamp()
    assert isinstance(RING.authenticate(holder, before_s), Tenant)
    expired, wrong = RING.authenticate(holder, at_s), RING.authenticate(other, at_s)
    assert isinstance(expired, Problem)
    assert isinstance(wrong, Problem)
    assert "expired at 2026-01-02" in expired.message
    assert "expired" not in wrong.message


def test_grants_add_up_and_never_hold_the_cache_salt() -> None:
    tenant = Tenant("acme", frozenset({"priority"}), "abcdefgh")
    assert granted_to(tenant, frozenset({"ignore_eos", "cache_salt"})) == {"priority", "ignore_eos"}
    assert granted_to(None, frozenset({"cache_salt"})) == {"cache_salt"}


@settings(deadline=None)
@given(st.lists(st.text("abc234\n# {}\"':,", max_size=30), max_size=5))
def test_a_file_of_any_text_is_read_or_refused_with_a_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    if all(not line.strip() or line.startswith("#") for line in text.splitlines()):
        assert parse_records(text) == ()
    else:  # no such text is a record
        with pytest.raises(KeysUnusable, match=r"^line \d+: "):
            parse_records(text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not a JSON object"),
        ("[]", "Expected `object`"),
        ("{}", "missing required field"),
        (render_line(record()).replace('"tenant"', '"tenamt"'), "unknown field"),
        (render_line(record()).replace("acme", "a b"), "tenant is 'a b'"),
        (render_line(record()).replace("abcdefgh", "ABCDEFGH"), "id is not 8 characters"),
        (render_line(record()).replace(hash_secret(SECRET), SECRET), "secret_sha256 is not 64"),
        (render_line(record()).replace("00:00:00Z", "00:00:00"), "created_at"),
        (render_line(record()).replace("[]", '["cache_salt"]'), "cannot be granted to a tenant"),
        (render_line(record()).replace("[]", '["a-b"]'), "no field's name"),
        (render_line(record(id="abcdefg2")), "is that of line 2"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(line: str, said: str) -> None:
    text = "# keys\n" + render_line(record(id="abcdefg2")) + line
    with pytest.raises(KeysUnusable) as caught:
        parse_records(text)
    assert str(caught.value).startswith("line 3: ")
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_holds_a_bounded_number_of_keys() -> None:
    def numbered(count: int) -> str:
        letters = "abcdefghijklmnopqrstuvwxyz"
        ids = (
            f"{letters[i // 17576 % 26]}{letters[i // 676 % 26]}{letters[i // 26 % 26]}"
            f"{letters[i % 26]}aaaa"
            for i in range(count)
        )
        line = render_line(record(id="zzzzzzzz"))
        return "".join(line.replace("zzzzzzzz", key_id) for key_id in ids)

    assert len(parse_records(numbered(MAX_KEYS))) == MAX_KEYS
    with pytest.raises(KeysUnusable, match=f"line {MAX_KEYS + 1}: there are more than"):
        parse_records(numbered(MAX_KEYS + 1))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with one key, looked at every time."""
    monkeypatch.setattr(key_file, "_CHECK_INTERVAL_S", 0.0)
    path = tmp_path / "keys"
    change_text(path, lambda _: render_line(record()))
    return path


def knows(keys: KeyFile, key_id: str = "abcdefgh") -> bool:
    return isinstance(keys.ring().authenticate(f"Bearer pl-{key_id}-{SECRET}", 0), Tenant)


def test_a_new_file_is_its_owners_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys"]


def test_changes_are_noticed_while_the_gateway_runs(path: Path) -> None:
    keys = KeyFile(path)
    assert knows(keys)
    change_text(path, lambda text: text + render_line(record(id="abcdefg2")))
    assert knows(keys, "abcdefg2")
    change_text(path, lambda _: "")
    assert not knows(keys)
    path.write_text(render_line(record()))  # by an editor that writes in place
    assert knows(keys)


def test_the_file_is_looked_at_once_per_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    now_s = [100.0]
    monkeypatch.setattr(key_file.time, "monotonic", lambda: now_s[0])
    keys = KeyFile(path)
    change_text(path, lambda _: "")
    now_s[0] = 100.9
    assert knows(keys)
    now_s[0] = 101.0
    assert not knows(keys)


@pytest.mark.parametrize("content", [b"{", b"\xff", b" " * (MAX_FILE_BYTES + 1), None])
def test_a_bad_file_leaves_the_old_keys_in_force_and_is_told_once(
    path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeyFile(path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert all(knows(keys) for _ in range(3))
    (told,) = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert str(path) in told.getMessage()
    assert "the keys read before stay in force" in told.getMessage()
    with pytest.raises(KeysUnusable):
        KeyFile(path)
    change = render_line(record(id="abcdefg2"))
    path.write_text(change)
    assert knows(keys, "abcdefg2")


def test_a_file_that_may_be_read_again_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking away and giving back the right to read changes neither content nor date of it."""
    keys = KeyFile(path)
    change_text(path, lambda _: render_line(record(id="abcdefg2")))
    with monkeypatch.context() as patch:
        patch.setattr(key_file, "_read", _refuse)
        assert knows(keys)
    path.chmod(0o640)
    assert knows(keys, "abcdefg2")


def _refuse(path: Path) -> None:
    raise KeysUnusable(f"{path} cannot be read: Permission denied")


def test_a_failed_change_leaves_the_file_as_it_was(path: Path) -> None:
    before = path.read_text()
    with pytest.raises(ZeroDivisionError):
        change_text(path, lambda _: str(1 // 0))
    assert path.read_text() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["keys"]


def test_a_change_keeps_mode_and_link(path: Path) -> None:
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path)
    change_text(link, lambda text: text + "# changed\n")
    assert path.read_text().endswith("# changed\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()


def test_writers_wait_for_one_another(path: Path) -> None:
    change_text(path, lambda _: "")
    writers = [
        threading.Thread(target=change_text, args=(path, lambda text, i=i: f"{text}# {i}\n"))
        for i in range(20)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(path.read_text().split()) == sorted(["#"] * 20 + [str(i) for i in range(20)])


def test_a_file_that_others_may_change_is_warned_of(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.chmod(0o620)
    KeyFile(path)
    assert "may be changed by other users" in caplog.text


def test_the_salts_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    secret = read_or_create_secret(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_or_create_secret(path) == secret
    assert read_or_create_secret(tmp_path / "other") != secret
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", "salt"]


def test_gateways_that_start_together_use_one_secret(tmp_path: Path) -> None:
    found: list[bytes] = []
    readers = [
        threading.Thread(target=lambda: found.append(read_or_create_secret(tmp_path / "salt")))
        for _ in range(16)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 16
    assert len(set(found)) == 1


@pytest.mark.parametrize("content", ["", "secret", "AB" * 32, "ab" * 33])
def test_a_salt_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "salt"
    path.write_text(content)
    with pytest.raises(KeysUnusable, match="64 hexadecimal digits") as caught:
        read_or_create_secret(path)
    assert "secret" not in str(caught.value).replace("the secret of", "")


def test_a_salt_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match=r"set keys\.salt_file"):
        read_or_create_secret(tmp_path / "none" / "salt")


def test_salts_are_those_of_the_formula_and_fit_vllm() -> None:
    """The expected value is from: printf acme | openssl dgst -sha256 -mac HMAC -macopt
    hexkey:00…00 -binary | base64, with - for + and _ for /."""
    assert salt_of(bytes(32), "acme") == "yafkdrrLv4fmDDC6JhJZW1oaC9HcsbqNvTfDC-H-yKg"
    for tenant in map(str, range(200)):
        salt = salt_of(b"k" * 32, tenant)
        assert len(salt) == 43
        assert not set(salt) & set("@/\\\0")  # vLLM 0.32 refuses these


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("127.0.0.1", False), ("127.9.9.9", False), ("::1", False), ("localhost", False),
        ("0.0.0.0", True), ("::", True), ("10.0.0.7", True), ("gateway.internal", True), ("", True),
    ],
)  # fmt: skip
def test_an_admin_port_on_the_network_needs_a_key(host: str, is_refused: bool) -> None:
    keys = KeySettings(admin_key_file=Path("admin-keys"))
    assert GatewaySettings(admin_host=host, keys=keys).admin_host == host
    if is_refused:
        with pytest.raises(ValueError, match=r"there is no key for it; set keys\.admin_key_file"):
            GatewaySettings(admin_host=host)
    else:
        assert GatewaySettings(admin_host=host).admin_host == host


def test_metrics_cannot_need_a_key_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="there is no admin key"):
        KeySettings(metrics_need_key=True)


def test_the_salt_lies_beside_the_keys_unless_told_otherwise() -> None:
    assert KeySettings(file=Path("a/keys")).salt_path == Path("a/keys.salt")
    assert KeySettings(file=Path("k"), salt_file=Path("s")).salt_path == Path("s")
    assert KeySettings(salt_file=Path("s")).salt_path is None
