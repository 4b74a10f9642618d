"""The vocabulary of the mock model and its tokenizer for texts and chats.

Ids 0 to 255 are bytes: a text is tokenized into its UTF-8 bytes. Higher ids are words, fragments
of multi-byte characters, and special tokens. Each message of a chat is tokenized as

    <|role|> content <|end|>

and `<|assistant|>` follows the last one. The roles are system, user, assistant and tool; any other
role counts as user.
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
    # Texts that break clients which search for markers instead of parsing
    *('"}', '\\"', "\\n", "</s>", "\x00\x1f", "\x7f\x08", "\u2028", "\ufeff"),
    *("data: [DONE]", "\n\ndata: [DONE]\n\n", '{"error":', '"usage":{', '"finish_reason":"stop"'),
)
_FRAGMENTS = (
    b"\xf0\x9f",
    b"\x9f\x98",
    *(bytes((0x98, last)) for last in range(0x80, 0xA0)),  # two halves of an emoji
    b"\x97\xa5",
    b"\x9c\xac",
)
_SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")

FIRST_WORD: Final = 256
FIRST_FRAGMENT: Final = FIRST_WORD + len(_WORDS)
FIRST_SPECIAL: Final = FIRST_FRAGMENT + len(_FRAGMENTS)
VOCABULARY_SIZE: Final = FIRST_SPECIAL + len(_SPECIAL)

TOKEN_BYTES: Final = (
    *(bytes((value,)) for value in range(256)),
    *(word.encode() for word in _WORDS),
    *_FRAGMENTS,
    *(name.encode() for name in _SPECIAL),
)
"""The bytes that each token adds to the text; special tokens add them only if not skipped."""

END: Final = FIRST_SPECIAL
"""The end-of-sequence (EOS) token."""
ROLES: Final = {
    name: FIRST_SPECIAL + 1 + index
    for index, name in enumerate(("system", "user", "assistant", "tool"))
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
"""The first bytes of a character → the tokens that may follow; all of them lead to valid UTF-8."""


def encode_text(text: str) -> list[int]:
    """Tokenize a text into its UTF-8 bytes. Lone surrogates become "?"."""
    return list(text.encode("utf-8", "replace"))


def encode_chat(messages: Iterable[tuple[str, str]], *, add_generation_prompt: bool) -> list[int]:
    """Tokenize (role, content) pairs with the chat template above."""
    ids: list[int] = []
    for role, content in messages:
        ids.append(ROLES.get(role, ROLES["user"]))
        ids += encode_text(content)
        ids.append(END)
    if add_generation_prompt:
        ids.append(ROLES["assistant"])
    return ids


def decode(ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
    """Return the text of some tokens, with U+FFFD for bytes that are not valid UTF-8."""
    return bytes_of(ids, skip_special_tokens=skip_special_tokens).decode("utf-8", "replace")


def bytes_of(ids: Sequence[int], *, skip_special_tokens: bool = True) -> bytes:
    last = FIRST_SPECIAL if skip_special_tokens else VOCABULARY_SIZE
    return b"".join(TOKEN_BYTES[token] for token in ids if token < last)


def pack_ids(ids: Sequence[int]) -> bytes:
    """Return the ids as little-endian 32-bit integers, for hashing."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unfinished_character(ids: Sequence[int]) -> bytes:
    """Return the bytes of the unfinished character at the end of these tokens, or b"".

    Only the unfinished characters that are keys of `CONTINUATIONS` are recognized.
    """
    tail = b""
    for token in ids[-3:]:
        tail = b"" if token >= FIRST_SPECIAL else tail + TOKEN_BYTES[token]
    for length in (3, 2, 1):
        if tail[-length:] in CONTINUATIONS and len(tail) >= length:
            return tail[-length:]
    return b""
