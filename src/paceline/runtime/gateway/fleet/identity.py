"""Read what a replica says about itself: the models it lists, its version, its model's revision.

Pure. All three end in metrics, logs, messages to workers and answers to clients, so only what
`names.is_name` accepts is used, whatever the replica sends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.runtime.gateway.fleet.metrics_page import MetricsPage, labels_of
from paceline.runtime.gateway.settings.names import (
    MAX_MODEL_CHARS,
    MAX_REVISION_CHARS,
    MAX_VERSION_CHARS,
    is_name,
)

_REVISION = "paceline_engine_revision_info"
_MAX_CONTEXT_TOKENS = 2**31
"""A longer context counts as unknown. Models in use have some ten million tokens."""
_MAX_VALUES = 100_000
"""Of a list of models: keys, items and numbers of any depth. vLLM lists a model in 22, so this is
some 4,500 models; to read them takes 30 ms."""
_MAX_OTHER_MODELS = 256
_MAX_OTHER_BYTES = 8 * 1024
"""Ids of one replica beside the first, and their bytes. Those of 512 replicas are in one message to
a worker, of 16 MiB at most."""
_MAX_DIGITS = 18
"""Python refuses integers of more than 4,300 digits; those up to here fit into 64 bits."""


class Unreadable(Exception):
    """The body is not what the route serves; the message says what it is instead."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One entry of /v1/models."""

    id: str
    max_model_len: int | None = None


def parse_models(body: bytes) -> Sequence[ListedModel]:
    """The models in a /v1/models response, without those whose id is no name.

    May raise `Unreadable`, also when models are listed and none has a name. A list of some thousand
    models takes milliseconds: use a thread.
    """
    # Time is linear in the number of values, and no other thread runs meanwhile.
    if sum(map(body.count, (b",", b"{", b"["))) > _MAX_VALUES:
        raise Unreadable(f"more than {_MAX_VALUES} values")
    page = _parse_json(body)
    data = page.get("data") if isinstance(page, dict) else None
    if not isinstance(data, list):
        raise Unreadable("JSON that is not a list of models")
    items = [item for item in data if isinstance(item, dict)]
    named = [item for item in items if is_name(item.get("id"), MAX_MODEL_CHARS)]
    contexts = {item["id"]: _context_of(item) for item in named}
    models = [
        ListedModel(item["id"], contexts[item["id"]] or _context_of_parent(item, contexts))
        for item in named
    ]
    if items and not models:
        raise Unreadable(
            f"no model id of 1 to {MAX_MODEL_CHARS} printable characters, without a blank at "
            "either end"
        )
    return models


def other_models(models: Sequence[ListedModel], first: str) -> Mapping[str, int | None]:
    """The ids beside the first one, each with its context, as far as the limits allow.

    >>> other_models([ListedModel("a", 8), ListedModel("b", 8), ListedModel("c")], "a")
    {'b': 8, 'c': None}
    """
    others: dict[str, int | None] = {}
    num_bytes = 0
    for model in models:
        num_bytes += len(model.id.encode())
        if len(others) == _MAX_OTHER_MODELS or num_bytes > _MAX_OTHER_BYTES:
            break
        if model.id != first:
            others[model.id] = model.max_model_len
    return others


def parse_version(body: bytes) -> str | None:
    """The version in a /version response; None without one.

    >>> parse_version(b'{"version": "0.32.0"}')
    '0.32.0'
    """
    try:
        page = _parse_json(body)
    except Unreadable:
        return None
    version = page.get("version") if isinstance(page, dict) else None
    return version if isinstance(version, str) and is_name(version, MAX_VERSION_CHARS) else None


def read_revision(page: MetricsPage) -> str | None:
    """The revision of the model that a metrics page names; None when it names none, or several.

    A vLLM server with Paceline installed reports a fingerprint of model, weights, tokenizer and
    chat template (`paceline.runtime.engine.front_end`). Stock vLLM reports none.

    >>> read_revision(MetricsPage('paceline_engine_revision_info{revision="6f1e"} 1.0\\n'))
    '6f1e'
    """
    found = {
        labels_of(labels).get("revision", "")
        for labels, value in page.samples(_REVISION).items()
        if value == 1
    }
    revision = found.pop() if len(found) == 1 else ""
    return revision if is_name(revision, MAX_REVISION_CHARS) and "\\" not in revision else None


def _context_of(item: Mapping[str, Any]) -> int | None:
    """None when it is unknown. llama.cpp's server lists the context of one slot under `meta`."""
    meta = item.get("meta")
    of_llamacpp = meta.get("n_ctx") if isinstance(meta, dict) else None
    length = item.get("max_model_len", of_llamacpp)
    return length if type(length) is int and 0 < length <= _MAX_CONTEXT_TOKENS else None


def _context_of_parent(item: Mapping[str, Any], contexts: Mapping[str, int | None]) -> int | None:
    """vLLM lists an adapter without a context, and with the id of the model it belongs to."""
    parent = item.get("parent")
    return contexts.get(parent) if isinstance(parent, str) else None


def _parse_json(body: bytes) -> Any:
    """Any number is read: one that no integer and no float can hold becomes infinity.

    `msgspec` refuses the whole body for a single such number.
    """
    try:
        return json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise Unreadable("a body that is not JSON") from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf
