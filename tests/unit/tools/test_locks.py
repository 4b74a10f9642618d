"""The locks' hashes are written beside their pins, and the page of licences covers every pin."""

from __future__ import annotations

from pathlib import Path

import pytest
from locks.hashes import read_lock, render_lock
from locks.licences import LOCKS, pins_of

PROJECT = Path(__file__).parents[3]
LOCK = """# Comment.
Alpha_one==1.0 \\
    --hash=sha256:old
torch==2.13.0+cpu
beta==2.0
"""


def test_hashes_replace_those_of_an_earlier_run() -> None:
    pins, lines = read_lock(LOCK)
    assert pins == ["Alpha_one==1.0", "beta==2.0"]
    assert render_lock(lines, {"alpha-one": {"b", "a"}, "beta": {"c"}}) == (
        "# Comment.\n"
        "Alpha_one==1.0 \\\n    --hash=sha256:a \\\n    --hash=sha256:b\n"
        "torch==2.13.0+cpu\n"
        "beta==2.0 \\\n    --hash=sha256:c\n"
    )


def test_a_pin_without_a_hash_is_an_error() -> None:
    _, lines = read_lock("alpha==1.0\n")
    with pytest.raises(ValueError, match=r"alpha==1\.0 has no hash"):
        render_lock(lines, {})


@pytest.mark.parametrize("lock", sorted(PROJECT.glob("requirements/*.lock")), ids=lambda p: p.name)
def test_every_pin_but_torch_has_a_hash(lock: Path) -> None:
    """torch's CPU build comes from an index of its own; `scripts/install.sh` treats it apart."""
    text = lock.read_text()
    pins, _ = read_lock(text)
    assert pins
    for pin in pins:
        assert f"{pin} \\\n    --hash=sha256:" in text, (
            f"{pin}: run python -m locks.hashes {lock.name}"
        )


def test_the_licences_of_all_pins_are_listed() -> None:
    """After a change of a lock: python -m locks.licences > docs/third-party-licences.md."""
    page = (PROJECT / "docs" / "third-party-licences.md").read_text()
    for lock in LOCKS:
        for name, version in pins_of((PROJECT / lock).read_text()):
            assert f"| {name} | {version} | " in page
