"""What tokens does the simulated model have, and how do bytes and chats become tokens?

Ids 0 to 255 are the bytes: a prompt's text is its UTF-8 bytes. Above them are words, pieces of
characters that take several bytes, and special tokens. A chat is tokenised as, for each message,

    <|role|> content <|end|>

and `<|assistant|>` at the end, where the roles are system, user, assistant and tool (all others
count as user).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_COMMON_WORDS = """
the of and to in is that it for was on with as by be at this from or an are not have one had word
but what all were when we there can your which said if will each how up out then she many some so
would
""".split()  # noqa: SIM905 - a paragraph reads better than a list
_WORDS = (
    *(f" {word}" for word in _COMMON_WORDS),
    *(
        ". ",
        ", ",
        ": ",
        "; ",
        "! ",
        "? ",
        " -",
        " (",
        ") ",
        ".\n",
        "\n\n",
        "\t\t",
        "\r\n",
        " 0",
        "42",
    ),
    *("al", "ion", "es", "ing", "ed", "ly", "tion", "er", " def", " return", "():", " = ", "``"),
    # What trips parsers that search for marks instead of reading
    *('"}', '\\"', "\\n", "</s>", "\x00\x1f", "\x7f\x08", "\u2028", "\ufeff"),
    *("data: [DONE]", "\n\ndata: [DONE]\n\n", '{"error":', '"usage":{', '"finish_reason":"stop"'),
)
_PIECES = (
    b"\xf0\x9f",
    b"\x9f\x98",
    *(bytes((0x98, last)) for last in range(0x80, 0xA0)),  # two halves of an emoji
    b"\x97\xa5",
    b"\x9c\xac",
)
_SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")

FIRST_WORD: Final = 256
FIRST_PIECE: Final = FIRST_WORD + len(_WORDS)
FIRST_SPECIAL: Final = FIRST_PIECE + len(_PIECES)
VOCABULARY_SIZE: Final = FIRST_SPECIAL + len(_SPECIAL)

TOKEN_BYTES: Final = (
    *(bytes((value,)) for value in range(256)),
    *(word.encode() for word in _WORDS),
    *_PIECES,
    *(name.encode() for name in _SPECIAL),
)
"""What each token adds to the text; for special tokens, when they are not skipped."""

END: Final = FIRST_SPECIAL
"""The token that ends an answer (EOS)."""
ROLES: Final = {
    name: FIRST_SPECIAL + 1 + place
    for place, name in enumerate(("system", "user", "assistant", "tool"))
}

NUM_WORDS: Final = len(_WORDS)


def _id_of(text: bytes) -> int:
    return TOKEN_BYTES.index(text)


CHARACTER_STARTS: Final = (
    0xF0,  # an emoji in two to four tokens
    _id_of(b"\xf0\x9f"),
    0xE6,  # a character in two or three
    0xC3,  # one in two
)
CONTINUATIONS: Final[Mapping[bytes, tuple[int, ...]]] = {
    b"\xf0": (0x9F, _id_of(b"\x9f\x98")),
    b"\xf0\x9f": (0x98, *(_id_of(bytes((0x98, last))) for last in range(0x80, 0xA0))),
    b"\xf0\x9f\x98": tuple(range(0x80, 0xC0)),
    b"\xe6": (_id_of(b"\x97\xa5"), _id_of(b"\x9c\xac"), 0x97, 0x9C),
    b"\xe6\x97": (0xA5,),
    b"\xe6\x9c": (0xAC,),
    b"\xc3": (0xA9, 0xBC, 0xA0),
}
"""The start of a character → the tokens that may follow it; all of them lead to valid UTF-8."""


def encode_text(text: str) -> list[int]:
    """The tokens of a text: its UTF-8 bytes. Lone surrogates become U+FFFD."""
    return list(text.encode("utf-8", "replace"))


def encode_chat(messages: Iterable[tuple[str, str]], *, add_generation_prompt: bool) -> list[int]:
    """The tokens of (role, content) pairs after the template above."""
    ids: list[int] = []
    for role, content in messages:
        ids.append(ROLES.get(role, ROLES["user"]))
        ids += encode_text(content)
        ids.append(END)
    if add_generation_prompt:
        ids.append(ROLES["assistant"])
    return ids


def decode(ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
    """The whole text of some tokens; U+FFFD for what is no UTF-8."""
    return bytes_of(ids, skip_special_tokens=skip_special_tokens).decode("utf-8", "replace")


def bytes_of(ids: Sequence[int], *, skip_special_tokens: bool = True) -> bytes:
    last = FIRST_SPECIAL if skip_special_tokens else VOCABULARY_SIZE
    return b"".join(TOKEN_BYTES[token] for token in ids if token < last)


def pack_ids(ids: Sequence[int]) -> bytes:
    """The ids as little-endian 32-bit numbers, for hashing."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unfinished_character(ids: Sequence[int]) -> bytes:
    """The start of a character with which these tokens end; empty when they end with a whole one.

    Only starts that `CONTINUATIONS` knows count.
    """
    tail = b""
    for token in ids[-3:]:
        tail = b"" if token >= FIRST_SPECIAL else tail + TOKEN_BYTES[token]
    for length in (3, 2, 1):
        if tail[-length:] in CONTINUATIONS and len(tail) >= length:
            return tail[-length:]
    return b""
