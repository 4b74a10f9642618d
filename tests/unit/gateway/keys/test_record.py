"""Keys are random and read back; a file of records is parsed, or refused at a line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.keys.record import (
    MAX_KEYS,
    KeysUnusable,
    hash_secret,
    join_key,
    make_key,
    parse_records,
    render_line,
    split_key,
)
from unit.gateway.keys.records import SECRET, record


def test_a_key_has_at_least_128_random_bits_and_reads_back() -> None:
    keys = {make_key() for _ in range(100)}
    assert len({secret for _, secret in keys}) == 100
    for key_id, secret in keys:
        assert len(secret) * 5 >= 128  # 32 letters of which each holds five bits
        assert split_key(join_key(key_id, secret)) == (key_id, secret)


@settings(deadline=None)
@given(st.lists(st.text("abc234\n# {}\"':,", max_size=30), max_size=5))
def test_a_file_of_any_text_is_read_or_refused_with_a_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    if all(not line.strip() or line.startswith("#") for line in text.split("\n")):
        assert parse_records(text) == ()
    else:  # no text of this alphabet is a record
        with pytest.raises(KeysUnusable, match=r"^line \d+: "):
            parse_records(text)


@pytest.mark.parametrize(
    ("line", "reason"),
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
        (render_line(record()).replace("[]", '["a-b"]'), "not the name of a field"),
        (render_line(record(id="abcdefg2")), "is also on line 2"),
        ('{"expires_at":null,' + render_line(record())[1:], "'expires_at' is repeated"),
        ('{"tenant":"root",' + render_line(record())[1:], "'tenant' is repeated"),
        ('{"captured":true,"captured":false}', "'captured' is repeated"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(line: str, reason: str) -> None:
    text = "# keys\n" + render_line(record(id="abcdefg2")) + line
    with pytest.raises(KeysUnusable) as caught:
        parse_records(text)
    assert str(caught.value).startswith("line 3: ")
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


HIDDEN = render_line(record(id="hiddenaa"))


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\f", "\v", "\r", "\x1c", "\x1e"])
def test_a_comment_ends_where_an_editor_ends_the_line(end: str) -> None:
    """What an operator reads as a comment is no key."""
    text = f"# an old key:{end}{HIDDEN}{render_line(record())}"
    assert [one.id for one in parse_records(text)] == ["abcdefgh"]


@pytest.mark.parametrize("end", ["\u2028", "\f", "\r"])
def test_two_keys_on_one_line_are_refused(end: str) -> None:
    with pytest.raises(KeysUnusable, match="line 1: it is not a JSON object"):
        parse_records(f"{render_line(record()).strip()}{end}{HIDDEN}")


def test_lines_may_end_as_on_windows() -> None:
    text = f"# keys\n\n{render_line(record())}".replace("\n", "\r\n")
    assert [one.id for one in parse_records(text)] == ["abcdefgh"]


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
