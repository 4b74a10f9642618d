"""Say what is wrong with a text that should be another one: where it is cut, doubled, or lost."""

from __future__ import annotations

_SAMPLE = 12
"""Characters that show where the received text continues in the expected one."""
_SHOWN = 24


def describe_difference(received: str, expected: str) -> str:
    """What happened to the text on its way; empty if nothing did.

    >>> describe_difference("abcdefghijkl", "abcdefghijklmn")
    "cut: 'mn' is missing at the end, after 12 of 14 characters"
    >>> describe_difference("abcdefcdefghijklmnopqrstu", "abcdefghijklmnopqrstu")
    "doubled: 'cdef' comes again after 6 of 21 characters"
    >>> describe_difference("abcghijklmnopqrstu", "abcdefghijklmnopqrstu")
    "lost: 'def' is missing after 3 of 21 characters"
    >>> describe_difference("abcxyz", "abcdef")
    "changed: 'xyz' instead of 'def' after 3 of 6 characters"
    """
    if received == expected:
        return ""
    pairs = enumerate(zip(received, expected, strict=False))
    at = next((n for n, (one, other) in pairs if one != other), min(len(received), len(expected)))
    place = f"after {at} of {len(expected)} characters"
    rest = received[at:]
    if not rest:
        return f"cut: {_shown(expected[at:])} is missing at the end, {place}"
    if at == len(expected):
        return f"added: {_shown(rest)} after the end, {place}"
    sample = rest[:_SAMPLE]
    if len(rest) > 1 and (later := expected.find(sample, at + 1)) >= 0:
        return f"lost: {_shown(expected[at:later])} is missing {place}"
    if (earlier := expected.rfind(sample, 0, at - 1 + len(sample))) >= 0:
        return f"doubled: {_shown(expected[earlier:at])} comes again {place}"
    return f"changed: {_shown(rest)} instead of {_shown(expected[at:])} {place}"


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}… ({len(text)} characters)"
