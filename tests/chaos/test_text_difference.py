"""A difference of two texts is named: cut, lost, doubled, added or changed."""

from __future__ import annotations

import pytest

from chaos.text_difference import describe_difference

WHOLE = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("received", "difference"),
    [
        (WHOLE, ""),
        (WHOLE[:-2], "cut: '89' is missing at the end, after 34 of 36 characters"),
        ("", "cut: 'abcdefghijklmnopqrstuvwx'… (36 characters) is missing at the end, after 0 "),
        (WHOLE[:6] + WHOLE[2:], "doubled: 'cdef' comes again after 6 of 36 characters"),
        (WHOLE[:6] + WHOLE[2:6], "doubled: 'cdef' comes again after 6 of 36 characters"),
        (WHOLE[:3] + WHOLE[6:], "lost: 'def' is missing after 3 of 36 characters"),
        (WHOLE[3:], "lost: 'abc' is missing after 0 of 36 characters"),
        (WHOLE + "x", "added: 'x' after the end, after 36 of 36 characters"),
        (WHOLE[:3] + "?" + WHOLE[4:], "changed: '?efghijklmnopqrstuvwxyz0'…"),
    ],
)
def test_what_happened_to_a_text_is_named(received: str, difference: str) -> None:
    found = describe_difference(received, WHOLE)
    assert found.startswith(difference)
    assert bool(found) is bool(difference)
