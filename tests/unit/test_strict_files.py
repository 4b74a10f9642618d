"""YAML and JSON that people write have one meaning, or are refused."""

from __future__ import annotations

import pytest
import yaml

from paceline.foundation.files.strict_files import (
    StrictFileError,
    dump_yaml,
    load_json,
    load_yaml,
    load_yaml_documents,
)

REPEATED = {
    "a section": "keys: {file: a}\nkeys: {metrics_need_key: false}\n",
    "a setting": "keys:\n  file: a\n  file: b\n",
    "in flow style": "keys: {file: a, file: b}\n",
    "in an entry of a list": "replicas:\n  - {url: 'http://a:1', key_file: k, key_file: }\n",
    "deep in a list of lists": "a: [[{b: 1, b: 2}]]\n",
    "quoted and plain": "keys: {file: a}\n'keys': {}\n",
    "a number and its text": "1: a\n'1': b\n",
    "two spellings of true": "true: a\nTrue: b\n",
    "in JSON": '{"keys": {"file": "a"}, "keys": {}}',
}


@pytest.mark.parametrize("text", REPEATED.values(), ids=REPEATED)
def test_a_repeated_key_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(StrictFileError, match="is repeated; give it once"):
        load_yaml(text)


REFUSED = {
    "a merge key": ("keys: {<<: {file: a}, file: b}\n", "merge key"),
    "a merge of several": ("b: {<<: [{x: 1}, {x: 2}]}\n", "merge key"),
    "a merge in a list": ("b: [{<<: {x: 1}}]\n", "merge key"),
    "a second document": ("keys: {file: a}\n---\nserver: {port: 1}\n", "another document"),
    "an empty second document": ("keys: {file: a}\n---\n", "another document"),
    "a value that contains itself": ("a: &a {b: *a}\n", "anchors and aliases"),
    "an anchor without an alias": ("a: &a 1\n", "anchors and aliases"),
    "an anchored key": ("&a a: 1\n", "anchors and aliases"),
    "an alias without an anchor": ("a: *b\n", "anchors and aliases"),
    "aliases that multiply": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "anchors"),
    "deep nesting": ("[" * 1000, "levels of nesting"),
    "an octal number": ("port: 010\n", "leading zeros"),
    "a number of minutes": ("max_deadline_s: 1:30\n", "colons"),
    "a negative octal number": ("a: -017\n", "leading zeros"),
    "a number with underscores": ("a: 8_0\n", "underscores"),
    "a fraction with underscores": ("a: 1_0.5\n", "underscores"),
    "a hexadecimal number with underscores": ("a: 0x_f\n", "underscores"),
    "a number of many digits": (f"a: {'9' * 5000}\n", "too large"),
    "a number of many hexadecimal digits": (f"a: 0x{'f' * 5000}\n", "too large"),
    "a number beyond 64 bits": (f"a: -{2**63}\n", "too large"),
    "a line separator": ("# a comment\u2028keys: {file: a}\n", r"U\+2028"),
    "a paragraph separator in a text": ("a: 'b\u2029c'\n", r"U\+2029"),
    "a next line": ("a: 1 # a comment\x85b: 2\n", r"U\+0085"),
    "a binary file": ("\x7fELF\x00\x01", "not allowed"),
    "a mapping as a key": ("? {a: b}\n: c\n", "a key must be a text"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_readers_take_differently_is_refused(text: str, message: str) -> None:
    with pytest.raises(StrictFileError, match=message):
        load_yaml(text)


@pytest.mark.parametrize(
    "value",
    [
        *("!!bool maybe", "!!timestamp foo", "!!binary YQ==", "!!int many", "!!null x", "!!str 1"),
        *("!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!map {}", "!!seq []", "!own x"),
        *("!!python/name:os.system", "! x", "!<tag:yaml.org,2002:bool> yes", "{!!bool x: 1}"),
    ],
)
def test_no_tag_is_read_as_a_type(value: str) -> None:
    with pytest.raises(StrictFileError, match=r"tags .* are not allowed"):
        load_yaml(f"a: {value}\n")


def test_an_error_names_its_line() -> None:
    with pytest.raises(StrictFileError, match=r"\(line 3, column 1\)"):
        load_yaml("a: 1\nb: 2\na: 3\n")


def test_only_true_and_false_are_booleans_and_only_decimals_are_numbers() -> None:
    text = (
        "[off, yes, No, true, False, 1000, 0x10, 12e4, 1.5, 1.5e+2, .inf, null, ~, '010', "
        "2027-01-31]"
    )
    assert load_yaml(text) == [
        *("off", "yes", "No", True, False, 1000, 16, "12e4", 1.5, 150.0, float("inf"), None, None),
        *("010", "2027-01-31"),
    ]


def test_a_byte_order_mark_is_no_text() -> None:
    assert load_yaml("\ufeffa: [1]\n") == {"a": [1]}


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    shared = [1]
    assert load_yaml(dump_yaml({"a": shared, "b": shared})) == {"a": [1], "b": [1]}


def test_files_with_several_documents_are_read_where_they_are_usual() -> None:
    assert load_yaml_documents("a: 1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    with pytest.raises(StrictFileError, match="repeated"):
        load_yaml_documents("a: 1\n---\nb: 2\nb: 3\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "repeated"),
        ('[{"a": {"b": 1, "b": 2}}]', "repeated"),
        ("[NaN]", "not a JSON number"),
        ("[-Infinity]", "not a JSON number"),
        ("[1e999]", "too large"),
        ("[" * 100_000, "recursion"),
        ("", "Expecting value"),
    ],
)
def test_json_has_one_meaning_too(text: str, message: str) -> None:
    with pytest.raises(StrictFileError, match=message):
        load_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "0595",
        "-09",
        "1:30",
        "+.8",
        "12e4",
        "off",
        "~",
        "",
        "0x1",
        "1_0",
        "true",
        "<<",
        "010",
        "1_0.5",
        "0x_f",
        "a\u2028b",
        "a\x85b",
    ],
)
def test_every_text_that_is_written_is_read_again_by_both_kinds_of_readers(text: str) -> None:
    written = dump_yaml({"revision": text})
    assert load_yaml(written) == yaml.safe_load(written) == {"revision": text}
