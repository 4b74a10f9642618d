"""Faults of stop strings, log-probabilities, `n` and seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.testing.fault_injection.fault import Fault, edit_answer, edit_call


def _drop(name: str, *, of_streams: bool | None = None) -> Callable[[dict[str, Any]], None]:
    """Remove a field; with `of_streams` only from streams, or only from others."""

    def edit(fields: dict[str, Any]) -> None:
        if of_streams is None or bool(fields.get("stream")) is of_streams:
            fields.pop(name, None)

    return edit


def _include_stop(fields: dict[str, Any]) -> None:
    if "stop" in fields:
        fields["include_stop_str_in_output"] = True


def _edit_logprobs(edit: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def edit_all(document: dict[str, Any]) -> None:
        for choice in document["choices"]:
            if choice.get("logprobs"):
                edit(choice["logprobs"])

    return edit_all


def _shorten(logprobs: dict[str, Any]) -> None:
    logprobs["token_logprobs"].pop()


def _flatten(logprobs: dict[str, Any]) -> None:
    for top in logprobs["top_logprobs"]:
        top.update(dict.fromkeys(top, -0.2))


def _shift(logprobs: dict[str, Any]) -> None:
    logprobs["token_logprobs"] = [one - 4 for one in logprobs["token_logprobs"]]


def _as_probabilities(logprobs: dict[str, Any]) -> None:
    logprobs["token_logprobs"] = [0.5 for _ in logprobs["token_logprobs"]]


def _one_choice(fields: dict[str, Any]) -> None:
    if "n" in fields:
        fields["n"] = 1


def _same_text(document: dict[str, Any]) -> None:
    for choice in document["choices"]:
        choice["text"] = document["choices"][0].get("text")


def _same_index(document: dict[str, Any]) -> None:
    for choice in document["choices"]:
        choice["index"] = 0


def _one_seed(fields: dict[str, Any]) -> None:
    if "seed" in fields:
        fields["seed"] = 1


FAULTS = (
    Fault(
        "stop-ignored",
        "stop-string",
        "Stop strings are ignored.",
        " gives ",
        on_call=edit_call(_drop("stop")),
    ),
    Fault(
        "stop-ignored-in-streams",
        "stop-string",
        "Stop strings are ignored in streams.",
        " gives ",
        on_call=edit_call(_drop("stop", of_streams=True)),
    ),
    Fault(
        "stop-included",
        "stop-string",
        "The stop string is part of the answer.",
        " gives ",
        on_call=edit_call(_include_stop),
    ),
    Fault(
        "logprobs-short",
        "logprobs",
        "The last token has no log-probability.",
        "31 log-probabilities",
        on_reply=edit_answer(_edit_logprobs(_shorten)),
    ),
    Fault(
        "logprobs-flat",
        "logprobs",
        "The candidates' probabilities add up to more than 1.",
        "have a probability of",
        on_reply=edit_answer(_edit_logprobs(_flatten)),
    ),
    Fault(
        "logprobs-shifted",
        "logprobs",
        "The greedy token is not among the likeliest.",
        "a candidate",
        on_reply=edit_answer(_edit_logprobs(_shift)),
    ),
    Fault(
        "logprobs-positive",
        "logprobs",
        "Probabilities are sent instead of their logarithms.",
        "not below 0",
        on_reply=edit_answer(_edit_logprobs(_as_probabilities)),
    ),
    Fault("n-ignored", "choices", "n is ignored.", "indexes [0]", on_call=edit_call(_one_choice)),
    Fault(
        "choices-equal",
        "choices",
        "All choices have the text of the first.",
        "are one text",
        on_reply=edit_answer(_same_text),
    ),
    Fault(
        "choices-index",
        "choices",
        "All choices have the index 0.",
        "index 0, missing or repeated",
        on_reply=edit_answer(_same_index),
    ),
    Fault(
        "seed-ignored",
        "seeds",
        "Seeds are ignored.",
        "different texts without drafts",
        on_call=edit_call(_drop("seed")),
    ),
    Fault(
        "seed-constant",
        "seeds",
        "All seeds are replaced by one.",
        "seeds give one text",
        on_call=edit_call(_one_seed),
    ),
)
