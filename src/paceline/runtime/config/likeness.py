"""Names that were meant to be those of Paceline: of the settings file, and of its variables.

A misspelt name would leave every setting at its default, such as keys that are not required.
"""

from __future__ import annotations

import difflib
import re

from paceline.foundation.command_line.near_names import nearest

_MIN_LIKENESS = 0.85
"""One letter too many, missing, wrong or exchanged with its neighbour. `baseline` and `pipeline`
have 0.75. Chosen empirically."""
_FORMATS = ("yaml", "yml", "json", "toml")


def is_like_paceline(word: str) -> bool:
    """Whether a word is `paceline` in any letters, or with a typing error.

    >>> is_like_paceline("PACLINE"), is_like_paceline("pipeline")
    (True, False)
    """
    return difflib.SequenceMatcher(None, word.casefold(), "paceline").ratio() >= _MIN_LIKENESS


def is_meant_as_settings_file(name: str) -> bool:
    """Whether a file called so was probably meant to be `paceline.yaml`: in other letters, with a
    typing error, in another format, hidden, or with something appended.

    >>> is_meant_as_settings_file(".Paceline.yml~"), is_meant_as_settings_file("paceline.log")
    (True, False)
    """
    stem, _, rest = re.sub(r"[\s_-]", "", name).strip(".").partition(".")
    suffix = rest.casefold().partition(".")[0]
    return is_like_paceline(stem) and nearest(suffix, _FORMATS) is not None
