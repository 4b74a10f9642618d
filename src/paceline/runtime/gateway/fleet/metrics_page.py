"""Find samples on a page of Prometheus text, whatever a server has written on it.

Pure. It searches for a name and skips the rest: vLLM's page has some hundred kilobytes, and parsing
all of it would delay the streams on the same event loop. Time is linear in the page: every search
is bounded, and the patterns cannot go back.
"""

from __future__ import annotations

import re

MAX_VALUE = 2.0**53
"""Larger values are ignored, like NaN and infinity: no server counts that far, and up to here
integers are exact in JSON, in messages to workers and in a browser."""
MAX_SAMPLES = 4096
"""A metric with more samples is not used. A histogram of 30 buckets of 64 engines has 1,920."""
_MAX_SAMPLE_CHARS = 4096
"""A longer one is ignored. vLLM's have some hundred."""

_REST = re.compile(
    r"""(?P<labels>\{(?:[^"{}\n]++|"(?:[^"\\\n]++|\\.)*+")*+\})?[ \t]++"""
    r"""(?P<value>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)(?=\s|\Z)"""
)
"""What follows a metric name. Label values may contain braces; a time or an exemplar may follow."""
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]++|\\.)*+)"')


class MetricsPage:
    """One page. `samples` may be asked for any number of names."""

    def __init__(self, text: str) -> None:
        self._text = "\n" + text

    def samples(self, name: str) -> dict[str, float]:
        """The values by labels as they stand on the page; the last one of a repeated sample.

        Without negative values, NaN, infinity and values above `MAX_VALUE`. Empty for a metric
        with more than `MAX_SAMPLES` samples.

        >>> MetricsPage('a{b="}"} 1 # {c="d"} 7\\na 2e0\\nab 3\\na{b="x"} NaN\\n').samples("a")
        {'{b="}"}': 1.0, '': 2.0}
        """
        found: dict[str, float] = {}
        start, text = f"\n{name}", self._text
        at = text.find(start)
        num_samples = 0
        while at >= 0:
            at += len(start)
            sample = _REST.match(text, at, at + _MAX_SAMPLE_CHARS)
            if sample is not None:
                num_samples += 1
                if num_samples > MAX_SAMPLES:
                    return {}
                value = float(sample["value"])
                if 0 <= value <= MAX_VALUE:
                    found[sample["labels"] or ""] = value
            at = text.find(start, at)
        return found

    def has_prefix(self, prefix: str) -> bool:
        """Whether a line of the page begins with this text."""
        return f"\n{prefix}" in self._text


def labels_of(text: str) -> dict[str, str]:
    """The labels of one sample, with escapes as they stand.

    >>> labels_of('{a="1",le="+Inf",}')
    {'a': '1', 'le': '+Inf'}
    """
    return dict(_LABEL.findall(text))
