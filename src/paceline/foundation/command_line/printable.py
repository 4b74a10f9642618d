"""Text of another server, made harmless for a terminal, and text that can be encoded."""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
"""C0 and C1, with ESC: they move the cursor, set the title, write to the clipboard."""
_BIDI_CONTROLS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""They show the characters after them in another order."""
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
_REPLACED = dict.fromkeys((*_CONTROLS, *_BIDI_CONTROLS), "\N{REPLACEMENT CHARACTER}") | _SURROGATES


def printable(text: object) -> str:
    """The text on one line, without characters that control a terminal or cannot be encoded.

    >>> printable("a\\x1b[2Jb\\u202ec")
    'a\ufffd[2Jb\ufffdc'
    """
    return str(text).translate(_REPLACED)


def printable_lines(text: object) -> str:
    """The same for a text that may have several lines.

    >>> printable_lines("a\\x1b\\nb")
    'a\ufffd\\nb'
    """
    return "\n".join(map(printable, str(text).split("\n")))


def well_formed(text: str) -> str:
    """The text with another character for each lone surrogate, which UTF-8 cannot encode.

    JSON may hold one, and so may the path of a file whose name is not UTF-8.

    >>> well_formed("a\\ud800b\\n")
    'a\ufffdb\\n'
    """
    return text if text.isascii() else text.translate(_SURROGATES)
