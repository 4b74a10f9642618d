"""Let vLLM load a model from its cache of compiled models on CPUs, instead of compiling it again.

vLLM keeps compiled models under `~/.cache/vllm`. After loading one it calls `finalize_loading` of
the compiled function, which only its own compiler backend has. On CPUs vLLM compiles with torch's
inductor, whose function has no such method: the load fails after all its work, and every start
compiles the model (vLLM 0.32.0). The fix gives such a function the method; there is nothing for it
to do, because torch has loaded the code already.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.runtime.engine.compat.wrapping import wrap_once

_METHOD = "finalize_loading"


def apply() -> bool:
    """Register the fix for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_loading, __name__)


def _wrap_loading() -> None:
    """Wrap torch's function that loads a compiled one, if this torch has it. Idempotent."""
    import torch

    if hasattr(torch.compiler, "load_compiled_function"):
        wrap_once(torch.compiler, "load_compiled_function", "compiled_model_cache", _load)


def _load(stock: Any, *arguments: Any, **options: Any) -> Any:
    loaded = stock(*arguments, **options)
    function = getattr(getattr(loaded, "_artifacts", None), "compiled_fn", None)
    if function is not None and not hasattr(function, _METHOD):
        setattr(function, _METHOD, _do_nothing)
    return loaded


def _do_nothing(vllm_config: Any) -> None:
    """In the place of the method that vLLM's own backend has."""
