"""A piece of a document whose figures are computed from a raw result."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

ReadResult = Callable[[str], Mapping[str, Any]]
"""Returns the raw result of this name, such as `soak-kills-2026-11-21.json`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Text of a document with a field for every figure, and the figures."""

    template: str
    figures: Mapping[str, object]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The printed text in pieces: (text, whether it is a computed figure).

        >>> list(claim("{rate:.0f} tokens/s", rate=353.2).pieces())
        [('353', True), (' tokens/s', False)]
        """
        formatter = string.Formatter()
        for literal, field, spec, _ in formatter.parse(normalize(self.template)):
            if literal:
                yield literal, False
            if field is not None:
                value, _ = formatter.get_field(field, (), self.figures)
                yield normalize(format(value, spec)), True

    def render(self) -> str:
        """The text as the document must print it."""
        return "".join(text for text, _ in self.pieces())


class DocumentClaims(Protocol):
    """What a module in `documents/` holds."""

    DOCUMENT: str
    """Path from the root of the repository."""
    NOT_MEASURED: Mapping[str, tuple[str, ...]]
    """Texts whose numbers come from no raw result, by reason: settings, targets, versions."""

    def claims(self, read: ReadResult) -> Iterator[Claim]:
        """The claims of the document."""


def claim(template: str, **figures: object) -> Claim:
    """A claim with these figures. Fields use `str.format`: `{rate.median:.0f}`."""
    return Claim(template, figures)


def normalize(text: str) -> str:
    r"""Write every run of white space as one space, and every minus sign as a hyphen.

    >>> normalize("from \N{MINUS SIGN}3\n to 4")
    'from -3 to 4'
    """
    return re.sub(r"\s+", " ", text.replace("\u2212", "-"))
