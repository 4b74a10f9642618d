"""The held-out choice depends on the name alone and has the requested share."""

from __future__ import annotations

from paceline.foundation.distillation.held_out import is_held_out


def test_the_share_is_held_out_and_no_share_or_all_of_it_is_possible() -> None:
    names = [f"name {number}" for number in range(2000)]
    assert 350 < sum(is_held_out(name, 200) for name in names) < 450
    assert not any(is_held_out(name, 0) for name in names)
    assert all(is_held_out(name, 1000) for name in names)


def test_the_choice_never_changes() -> None:
    """The first four bytes of the digests, modulo 1,000, are 21, 24 and 178."""
    names = ["heapq.py", "copyreg.py", "abc.py"]
    assert [is_held_out(name, 24) for name in names] == [True, False, False]
    assert [is_held_out(name, 178) for name in names] == [True, True, False]
