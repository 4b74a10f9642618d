"""A file of keys is read when it changes, and changed atomically by one writer at a time."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from paceline.runtime.gateway.keys import file as key_file
from paceline.runtime.gateway.keys.file import KeyFile, change_text
from paceline.runtime.gateway.keys.record import (
    MAX_FILE_BYTES,
    KeyRecord,
    KeysUnusable,
    hash_secret,
    render_line,
)
from paceline.runtime.gateway.keys.ring import Tenant
from unit.gateway.keys.records import SECRET, record


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with one key, checked at every call."""
    monkeypatch.setattr(key_file, "KEY_CHECK_PERIOD_S", 0.0)
    path = tmp_path / "keys"
    change_text(path, lambda _: render_line(record()))
    return path


def knows(keys: KeyFile, key_id: str = "abcdefgh") -> bool:
    return isinstance(keys.ring().authenticate(f"Bearer pl-{key_id}-{SECRET}", 0), Tenant)


def test_a_new_file_is_readable_by_its_owner_only(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["keys"]


def test_changes_are_noticed_while_the_gateway_runs(path: Path) -> None:
    keys = KeyFile(path)
    assert knows(keys)
    change_text(path, lambda text: text + render_line(record(id="abcdefg2")))
    assert knows(keys, "abcdefg2")
    change_text(path, lambda _: "")
    assert not knows(keys)
    path.write_text(render_line(record()))  # as an editor does that writes in place
    assert knows(keys)


@pytest.mark.parametrize(
    "shared",
    [
        record(id="adminaaa", secret_sha256=hash_secret("b" * 32)),
        record(id="adminaaa", secret_sha256=hash_secret("c" * 32)),  # the id alone
        record(id="otheraaa", secret_sha256=hash_secret("b" * 32)),  # the secret alone
    ],
)
def test_a_key_of_another_port_is_refused_at_the_start_and_not_read_later(
    path: Path, shared: KeyRecord, caplog: pytest.LogCaptureFixture
) -> None:
    other = path.with_name("clients")
    other.write_text(render_line(record(id="adminaaa", secret_sha256=hash_secret("b" * 32))))
    keys = KeyFile(path, other)
    change_text(path, lambda text: text + render_line(shared))
    assert knows(keys)
    assert len(keys.ring()) == 1
    assert f"has the key {shared.id}, which is also in {other}" in caplog.text
    with pytest.raises(KeysUnusable, match="which is also in"):
        KeyFile(path, other)


def test_a_file_that_becomes_that_of_the_other_port_leaves_the_old_keys_in_force(
    path: Path,
) -> None:
    other = path.with_name("clients")
    other.write_text(render_line(record(id="clientaa")))
    change_text(path, lambda text: text.replace(hash_secret(SECRET), hash_secret("b" * 32)))
    keys = KeyFile(path, other)
    path.unlink()
    path.symlink_to(other)
    assert not knows(keys, "clientaa")


def test_the_file_is_checked_once_per_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_bad_file_leaves_the_old_keys_in_force_and_is_logged_once(
    path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeyFile(path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert all(knows(keys) for _ in range(3))
    (entry,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert str(path) in entry.getMessage()
    assert "the keys read before stay in force" in entry.getMessage()
    with pytest.raises(KeysUnusable):
        KeyFile(path)
    change = render_line(record(id="abcdefg2"))
    path.write_text(change)
    assert knows(keys, "abcdefg2")


def test_a_file_that_becomes_readable_again_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the permissions changes neither the content nor the time of the last write."""
    keys = KeyFile(path)
    change_text(path, lambda _: render_line(record(id="abcdefg2")))
    with monkeypatch.context() as patch:
        patch.setattr(key_file, "_read", _refuse)
        assert knows(keys)
    path.chmod(0o640)
    assert knows(keys, "abcdefg2")


def _refuse(path: Path, other: Path | None) -> None:
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


def test_a_warning_is_logged_for_a_file_that_others_may_change(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.chmod(0o620)
    KeyFile(path)
    assert "is writable by other users" in caplog.text


def test_a_file_that_becomes_empty_admits_nobody_and_is_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeyFile(path)
    for content in ("", "\n\n", "# none\n", "\ufeff"):
        path.write_text(render_line(record()))
        assert knows(keys)
        caplog.clear()
        path.write_text(content)
        assert not knows(keys)
        assert "has no keys, so its port refuses every request" in caplog.text


def test_a_byte_order_mark_is_no_part_of_the_first_key(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert knows(KeyFile(path))


def test_a_file_that_becomes_a_folder_leaves_the_old_keys_in_force(path: Path) -> None:
    keys = KeyFile(path)
    path.unlink()
    path.mkdir()
    assert knows(keys)
