"""Have vLLM's grammars allow no optional white space in JSON, so that JSON answers end.

A grammar that allows white space between the parts of a JSON value allows any amount of it. A small
model may then write blanks up to the length limit. vLLM's own option, `disable_any_whitespace` of
--structured-outputs-config, is refused by vLLM for the backend `auto`, its default, because `auto`
may choose `outlines`, which ignores the option. Naming `xgrammar` would change which schemas and
tokenizers are served. The backend is created with the first request that has a grammar and reads
the option then (vLLM 0.32: `XgrammarBackend`, `GuidanceBackend`), so setting it in the engine core
keeps `auto`.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("vllm.paceline.scheduler")

_HONOURED_BY = ("auto", "xgrammar", "guidance")
"""Backends that read the option, and `auto`, which tries these two first."""


def disable_json_whitespace(vllm_config: Any) -> None:
    """Set the option in the engine core's configuration, before its backend exists. Mutates it.

    Logs a warning, and changes nothing, where the backend would ignore the option.
    """
    options: Any = getattr(vllm_config, "structured_outputs_config", None)
    backend = getattr(options, "backend", None)
    if backend not in _HONOURED_BY or not hasattr(options, "disable_any_whitespace"):
        logger.warning(
            "JSON answers may contain any amount of white space: the structured-output backend is "
            "%r, and only %s can leave it out. Change it in --structured-outputs-config, or set "
            "engine.compact_json to false.",
            backend,
            ", ".join(_HONOURED_BY),
        )
        return
    options.disable_any_whitespace = True
