"""What a name may be, whether it comes from a file, an administrator or a replica.

A name ends in metrics, JSON, logs, error messages, and messages between processes. One rule for all
of them: characters that can be printed, and not too many.
"""

from __future__ import annotations

MAX_MODEL_CHARS = 256
"""Of a model id. The longest names on Hugging Face have 96 + 1 + 96 characters, and llama.cpp's
server lists the path of its file."""
MAX_REVISION_CHARS = 100
MAX_VERSION_CHARS = 100


def is_name(text: object, max_chars: int) -> bool:
    """Whether the value is text of 1 to `max_chars` characters, all printable, no blank at an end.

    >>> is_name("org/some-model", 20), is_name("a\\nb", 20), is_name(" a", 20), is_name("", 20)
    (True, False, False, False)
    """
    return (
        isinstance(text, str)
        and 1 <= len(text) <= max_chars
        and text.isprintable()  # no control characters, no surrogates, no reversed text
        and text == text.strip()
    )


def check_name(field: str, text: str, max_chars: int) -> None:
    """Raise `ValueError` with the name of the field unless `is_name`. The text is not quoted."""
    if not is_name(text, max_chars):
        problem = "is empty" if not text else f"has {len(text)} characters"
        raise ValueError(
            f"{field} {problem}; it must be 1 to {max_chars} printable characters without a blank "
            "at either end, or be left out"
        )
