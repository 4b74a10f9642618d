"""The report of a comparison: the verdict in plain words, the differences, how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paceline.foundation.results import elements
from paceline.foundation.results.text import moment, number, percent, plural, render_governors
from paceline.workbench.bench.report.plots import IntervalRow, Series, interval_plot, time_plot
from paceline.workbench.bench.report.run_page import warnings

_FIGURES = {
    "output_tokens_per_s": ("Output tokens/s", "tokens/s"),
    "ttft_ms": ("Time to first token", "ms"),
    "tpot_ms": ("Time per output token", "ms"),
}
_VERDICTS = {
    "faster": ("{b} is faster than {a}", "good"),
    "slower": ("{b} is slower than {a}", "bad"),
    "no_difference": ("No difference that matters", ""),
    "undecided": ("Undecided", ""),
}
_TURNS_OF_SERVERS = (
    "Both servers ran all the time and took turns: while one was under load, the other was idle."
)
_TURNS_OF_SETTINGS = "One server had both settings in turns: it was switched before every block."
_CONFIG = {
    "workload": "workload",
    "prompts_file": "prompts of your own",
    "temperature": "temperature",
    "concurrency": "requests in flight (closed loop)",
    "rate_per_s": "requests per second (open loop)",
    "max_tokens": "most tokens per answer",
    "block_s": "aim for a block in s",
    "margin": "margin, as a fraction",
    "confidence": "confidence over all looks",
    "max_minutes": "most minutes",
    "seed": "seed",
}


def title(document: Mapping[str, Any]) -> str:
    return f"Comparison of two {'settings' if _has_settings(document) else 'servers'}"


def subtitle(document: Mapping[str, Any]) -> str:
    arms = [f"{name.upper()}: {_identity(arm)}" for name, arm in document["arms"].items()]
    if _has_settings(document):
        arms.insert(0, str(document["arms"]["a"].get("subject")))
    return f"{'; '.join(arms)}; {moment(document['environment']['date_utc'])}"


def sections(document: Mapping[str, Any]) -> Iterator[str]:
    """The sections of the page in order."""
    heading, css_class = _VERDICTS[document["verdict"]]
    heading = heading.format(a=_name(document, "a"), b=_name(document, "b"))
    yield elements.section(
        "In short",
        elements.paragraph(heading, f"verdict {css_class}".strip()),
        *(elements.paragraph(sentence, "lead") for sentence in summary_sentences(document)),
    )
    if document["notes"]:
        yield warnings(document["notes"])
    yield elements.section(
        "Differences", _table(document), *_difference_plot(document), *_block_plot(document)
    )
    yield elements.section(
        "How it was measured",
        elements.paragraph(
            f"{_TURNS_OF_SETTINGS if _has_settings(document) else _TURNS_OF_SERVERS} A round has "
            "four blocks, two for each, of the same requests at the same times; a coin decides "
            "between the orders A B B A and B A A B. Drift of the machine therefore affects both "
            "alike."
        ),
        elements.paragraph(
            "A was also compared with itself: the later of its two blocks of each round with the "
            "earlier. That shows whether time or the order of the blocks changes the figures."
        ),
        elements.paragraph(document.get("method", "")),
        elements.properties(document["config"], _CONFIG),
        _looks(document),
    )
    yield elements.section("Machine and versions", elements.environment(document["environment"]))


def summary_sentences(document: Mapping[str, Any]) -> Iterator[str]:
    """The result and its reach, without statistics terms."""
    key = document["figure"]
    name, _ = _FIGURES[key]
    difference = document["difference"][key]
    verdict = document["verdict"]
    if difference["low"] is not None and verdict in ("faster", "slower"):
        more = "more" if difference["relative"] > 0 else "less"
        yield (
            f"{name}: B has {percent(abs(difference['relative']))} {more} than A. The true "
            f"difference lies between {percent(difference['low'], signed=True)} and "
            f"{percent(difference['high'], signed=True)} with {_confidence(document)} certainty."
        )
    elif difference["low"] is not None and verdict == "no_difference":
        yield (
            f"{name}: any difference lies between {percent(difference['low'], signed=True)} and "
            f"{percent(difference['high'], signed=True)} with {_confidence(document)} certainty, "
            f"within the margin of {percent(document['config']['margin'])}."
        )
    else:
        yield f"There is no verdict: {document['reason']}."
    aa = document["aa"]
    if aa["low"] is not None:
        yield (
            f"A compared with itself differs by {percent(aa['relative'], signed=True)} "
            f"({percent(aa['low'], signed=True)} to {percent(aa['high'], signed=True)}), which is "
            "the noise of this machine."
        )
    errors = sum(arm["num_errors"] for arm in document["arms"].values())
    requests = sum(arm["num_requests"] for arm in document["arms"].values())
    yield (
        f"{document['num_rounds']} rounds with {plural(requests, 'request')}, "
        f"{'none' if not errors else f'{errors:,}'} of which failed."
    )


def _has_settings(document: Mapping[str, Any]) -> bool:
    return document["arms"].get("a", {}).get("setting") is not None


def _identity(arm: Mapping[str, Any]) -> str:
    """The server of an arm, or its setting with what that is on the replicas."""
    if arm.get("setting") is None:
        return str(arm.get("subject"))
    return f"{arm['setting']} ({render_governors(arm['governors'])})"


def _name(document: Mapping[str, Any], arm: str) -> str:
    """Such as `A`, or `A (off)` where the arms are settings."""
    setting = document["arms"].get(arm, {}).get("setting")
    return arm.upper() if setting is None else f"{arm.upper()} ({setting})"


def _confidence(document: Mapping[str, Any]) -> str:
    return percent(document["confidence"])


def _table(document: Mapping[str, Any]) -> str:
    a, b = document["arms"]["a"], document["arms"]["b"]
    rows = []
    for key, (name, unit) in _FIGURES.items():
        difference = document["difference"][key]
        rows.append(
            [
                f"{name}, {unit}" if unit == "ms" else name,
                number(a[key]),
                number(b[key]),
                percent(difference["relative"], signed=True),
                _interval(difference),
            ]
        )
    names = [_name(document, arm) for arm in ("a", "b")]
    return elements.table(["median of the blocks", *names, "B against A", "interval"], rows)


def _interval(difference: Mapping[str, Any]) -> str:
    if difference["low"] is None:
        return "unknown"
    low, high = (percent(difference[end], signed=True) for end in ("low", "high"))
    return f"{low} to {high}"


def _difference_plot(document: Mapping[str, Any]) -> Iterator[str]:
    items = [(name, document["difference"][key], "b") for key, (name, _) in _FIGURES.items()]
    name, _ = _FIGURES[document["figure"]]
    items.append(("A with itself", document["aa"], "aa"))
    rows = [
        IntervalRow(
            label,
            100 * item["relative"],
            None if item["low"] is None else 100 * item["low"],
            None if item["high"] is None else 100 * item["high"],
            css_class,
            _short(item),
        )
        for label, item, css_class in items
        if item["relative"] is not None
    ]
    if rows:
        yield elements.figure(
            interval_plot(
                rows,
                100 * document["config"]["margin"],
                "difference of B from A in %",
                "Differences with their intervals",
            ),
            "More tokens/s is faster; more time is slower. Shaded: the margin within which "
            f"differences are reported as none. A with itself: {name.lower()}.",
        )


def _short(item: Mapping[str, Any]) -> str:
    if item["low"] is None:
        return percent(item["relative"], signed=True)
    return (
        f"{100 * item['relative']:+.1f} ({100 * item['low']:+.1f} to {100 * item['high']:+.1f}) %"
    )


def _block_plot(document: Mapping[str, Any]) -> Iterator[str]:
    key = document["figure"]
    name, unit = _FIGURES[key]
    series = []
    for arm in ("a", "b"):
        points = [
            (block["started_s"] / 60, block[key])
            for block in document["blocks"]
            if block["arm"] == arm and block[key] is not None
        ]
        series.append(Series(arm.upper(), arm, points))
    if any(one.points for one in series):
        y_title = f"{name} in {unit}" if unit == "ms" else name
        yield elements.figure(
            time_plot(
                series,
                "time in minutes",
                y_title,
                f"{name} of every block",
                with_zero=False,
            ),
            "Every point is one block. The vertical axis need not begin at 0.",
        )


def _looks(document: Mapping[str, Any]) -> str:
    rows = [
        [
            f"{look['num_rounds']} rounds",
            percent(look["difference"]["relative"], signed=True),
            _interval(look["difference"]),
            percent(1 - look["error"]),
            look["verdict"].replace("_", " "),
        ]
        for look in document["looks"]
    ]
    return elements.table(["look after", "B against A", "interval", "certainty", "verdict"], rows)
