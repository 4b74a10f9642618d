"""How the addresses of a DNS name change from one answer to the next."""

from __future__ import annotations

from paceline.runtime.gateway.fleet.dns_addresses import MAX_ADDRESSES, update_addresses


def test_new_addresses_join_and_missing_ones_leave_after_two_answers_without_them() -> None:
    first = update_addresses({}, ["a", "b"])
    assert (first.joining, first.leaving) == (("a", "b"), ())
    known = {"a": 0, "b": 0}
    once = update_addresses(known, ["b", "c"])
    assert (once.joining, once.leaving, once.num_absences) == (("c",), (), {"a": 1, "b": 0})
    twice = update_addresses(once.num_absences, ["b"])
    assert (twice.leaving, twice.num_absences) == (("a",), {"b": 0})


def test_an_address_that_returns_resets_its_absence_count() -> None:
    once = update_addresses({"a": 0, "b": 0}, ["b"])
    assert update_addresses(once.num_absences, ["a", "b"]).num_absences == {"a": 0, "b": 0}


def test_an_empty_answer_changes_nothing() -> None:
    """A broken resolver must not empty the fleet."""
    change = update_addresses({"a": 1}, [])
    assert (change.joining, change.leaving, change.num_absences) == ((), (), {"a": 1})


def test_the_number_of_addresses_is_bounded() -> None:
    assert len(update_addresses({}, map(str, range(10_000))).joining) == MAX_ADDRESSES
