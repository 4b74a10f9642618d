"""Fields of a file: absent ones are None, wrong ones are refused with place, name and rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paceline.foundation.workloads import FieldReader, WorkloadError


def test_absent_and_null_fields_are_none() -> None:
    fields = FieldReader({"a": None}, "here")
    assert "a" not in fields
    assert fields.text("a") is None
    assert fields.word("b") is None
    assert fields.count("a") is None
    assert fields.number("b") is None
    assert fields.flag("a") is None
    assert fields.items("a") is None
    assert fields.one_of(("a", "b")) is None


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda f: f.text("n"), "here: n is int; it must be a string"),
        (lambda f: f.word("empty"), "here: empty is ''; it must be a non-empty string"),
        (lambda f: f.count("x"), "here: x is 1.5; it must be a whole number"),
        (lambda f: f.count("n", lowest=5), "here: n is 3; it must be at least 5"),
        (lambda f: f.count("many"), "here: many is 10000001; it must be at most 10,000,000"),
        (lambda f: f.number("yes"), "here: yes is True; it must be a number"),
        (lambda f: f.number("nan"), "here: nan is nan; it must be a finite number"),
        (lambda f: f.number("n", above=3), "here: n is 3; it must be above 3"),
        (lambda f: f.flag("n"), "here: n is 3; it must be true or false"),
        (lambda f: f.items("none"), r"here: none is \[\]; it must be a non-empty list"),
        (lambda f: f.refuse_unknown(["n"]), "here: x is unknown; allowed fields are n"),
        (lambda f: f.one_of(["n", "x"]), "here: n and x exclude each other; give one of them"),
    ],
)
def test_wrong_fields_are_refused(read: Callable[[FieldReader], object], message: str) -> None:
    item = {"n": 3, "x": 1.5, "empty": "", "yes": True, "nan": float("nan"), "none": []}
    item["many"] = 10_000_001
    with pytest.raises(WorkloadError, match=message):
        read(FieldReader(item, "here"))


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(WorkloadError, match="here holds list; it must be a JSON object"):
        FieldReader([], "here")
