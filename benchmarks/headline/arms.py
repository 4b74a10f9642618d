"""The compared servers: their names, and the command that starts each.

    naive                       transformers `generate`, one request at a time, float32
    vllm[+layout][+K=N]         vLLM's own server and scheduler; K=N drafts N tokens in every step
    vllm+layout+eager           the layout without compiling the model
    vllm+layout+SCHEME[+K=N]    the layout with quantized weights
    paceline[+SCHEME]           `paceline serve` with its defaults

SCHEME is one of `paceline quantize`; the draft model is never quantized. `#LABEL` distinguishes two
arms that are otherwise equal: `vllm#again`. Without `+layout` vLLM runs with its own defaults and
loads no plugin. `+layout` gives it the number format, the threads and the processes that Paceline
chooses for the machine and the weights, and the plugin's corrections of vLLM's CPU sampler: then
only the choice of the draft length and the gateway distinguish it from Paceline. All arms but
`naive` have a KV cache of the same size, because they share the memory of one machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.engine.launch.command import find_server_module
from paceline.engine.launch.format_gate import choose_formats
from paceline.engine.launch.hardware import read_hardware
from paceline.engine.launch.layout import Layout, LayoutSettings, choose_layout
from paceline.engine.launch.speculation import choose_drafter
from paceline.quantize.schemes import SCHEMES

NAIVE = "naive"
PLAIN = "vllm"
LAYOUT = "vllm+layout"
PACELINE = "paceline"
DEFAULT_ARMS = (
    NAIVE,
    PLAIN,
    "vllm#again",
    "vllm+layout",
    "vllm+layout+K=2",
    "vllm+layout+K=4",
    "vllm+layout+K=8",
    PACELINE,
)
_SPEC = re.compile(
    r"(?P<kind>naive|vllm|paceline)(?P<layout>\+layout(?P<eager>\+eager)?)?"
    rf"(?:\+(?P<scheme>{'|'.join(SCHEMES)}))?"
    r"(?:\+K=(?P<length>\d+))?(?:#(?P<label>\w+))?"
)
_NAIVE_SERVER = Path(__file__).with_name("naive_server.py")
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Arm:
    """One server of the comparison."""

    kind: str
    """`naive`, `vllm` or `paceline`."""
    has_layout: bool = False
    draft_length: int | None = None
    """Static; None without static speculation."""
    label: str = ""
    is_eager: bool = False
    """Whether the layout leaves the model uncompiled."""
    scheme: str | None = None
    """Of `paceline quantize`; None for the unquantized target."""

    @property
    def name(self) -> str:
        return (
            self.kind
            + ("+layout" if self.has_layout else "")
            + ("+eager" if self.is_eager else "")
            + ("" if self.scheme is None else f"+{self.scheme}")
            + ("" if self.draft_length is None else f"+K={self.draft_length}")
            + (f"#{self.label}" if self.label else "")
        )

    @property
    def speculates(self) -> bool:
        """Whether the server reports counters of drafted and accepted tokens."""
        return self.kind == PACELINE or self.draft_length is not None


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """The pair that all arms serve."""

    name: str
    """In results: `bundled` or `twin`."""
    target: str
    draft: str
    quantized: Mapping[str, str] = field(default_factory=dict)
    """The folders that `paceline quantize` made of the target, by scheme."""

    def target_of(self, arm: Arm) -> str:
        """The folder that the arm serves."""
        return self.target if arm.scheme is None else self.quantized[arm.scheme]


def with_scheme(arm: str, scheme: str | None) -> str:
    """The name of this arm, `vllm+layout` or `paceline`, with weights of this scheme."""
    return arm if scheme is None else f"{arm}+{scheme}"


def parse_arm(spec: str) -> Arm:
    """The arm of this name; ValueError that says what is allowed."""
    match = _SPEC.fullmatch(spec)
    if match is None or not _is_allowed(match):
        raise ValueError(
            f"the arm is {spec!r}; it must be naive, paceline[+SCHEME], vllm[+K=N] or "
            "vllm+layout[+eager][+SCHEME][+K=N], each with an optional #LABEL, as in vllm#again or "
            f"vllm+layout+w8a8+K=4; SCHEME is one of {', '.join(SCHEMES)}"
        )
    length = None if match["length"] is None else int(match["length"])
    if length == 0:
        raise ValueError(f"the arm {spec!r} drafts 0 tokens; leave +K=0 out")
    is_eager, scheme = bool(match["eager"]), match["scheme"]
    return Arm(match["kind"], bool(match["layout"]), length, match["label"] or "", is_eager, scheme)


def _is_allowed(match: re.Match[str]) -> bool:
    """Only vLLM has a layout and a static length; only that layout and Paceline have a scheme."""
    if match["kind"] != PLAIN and (match["layout"] or match["length"]):
        return False
    return not match["scheme"] or bool(match["layout"]) or match["kind"] == PACELINE


def parse_arms(specs: Sequence[str]) -> tuple[Arm, ...]:
    """All arms; ValueError for two of one name, or without `vllm`, the control of the ratios."""
    arms = tuple(parse_arm(spec) for spec in specs)
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two arms are called {name!r}; add a label, as in {name}#again")
    if PLAIN not in names:
        raise ValueError(f"the arms are {', '.join(names)}; {PLAIN!r} must be among them")
    return arms


def server_plan(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> dict[str, Any]:
    """The command and the environment of the arm's server, for `benchmarks.servers`."""
    if arm.kind == NAIVE:
        words = [sys.executable, str(_NAIVE_SERVER), model.target, "--port", "{port}"]
        return {"command": words, "env": _QUIET}
    if arm.kind == PACELINE:
        words = ["paceline", "serve", model.target_of(arm), "--draft", model.draft]
        words += ["--port", "{port}", "--admin-port", "{admin_port}"]
        sized = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(kv_cache_bytes)}
        return {"command": words, "env": {**_QUIET, **sized}}
    return {
        "command": _vllm_command(arm, model, kv_cache_bytes),
        "env": {**_QUIET, **_vllm_environment(arm, model, kv_cache_bytes)},
    }


def _vllm_command(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> list[str]:
    target = model.target_of(arm)
    words = [sys.executable, "-m", find_server_module(), "--model", target]
    words += ["--host", "127.0.0.1", "--port", "{port}", "--disable-uvicorn-access-log"]
    words += (
        list(_layout(arm, model, kv_cache_bytes).vllm_args)
        if arm.has_layout
        else ["--kv-cache-memory-bytes", str(kv_cache_bytes)]
    )
    if arm.draft_length is not None:
        config = choose_drafter(model.draft, target, arm.draft_length).speculative_config
        words += ["--speculative-config", json.dumps(dict(config or {}))]
    return words


def _vllm_environment(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> Mapping[str, str]:
    if arm.has_layout:
        return _layout(arm, model, kv_cache_bytes).environment
    return {"VLLM_PLUGINS": ""}


def _layout(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> Layout:
    """What `paceline serve` chooses for the folder that the arm serves."""
    hardware = read_hardware()
    formats = choose_formats(
        hardware,
        target=model.target_of(arm),
        draft=None if arm.draft_length is None else model.draft,
        dtype="auto",
        kv_cache_dtype="auto",
        vllm_args=(),
    )
    settings = LayoutSettings(
        kv_cache_bytes=kv_cache_bytes,
        kernel_dtypes=formats.kernel_dtypes,
        compiles=False if arm.is_eager else None,
    )
    return choose_layout(hardware, settings)
