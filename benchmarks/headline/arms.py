"""The compared servers: their names, and the command that starts each.

    naive                            transformers `generate`, one request at a time, float32
    llama.cpp[+lookup]               llama.cpp's server on the Q4_1 file; `+lookup` drafts n-grams
    vllm                             vLLM's own server with its defaults, without plugins
    vllm+layout[+SCHEME]             vLLM in Paceline's layout
    vllm+layout[+SCHEME][+ngram]+K=N the same, which drafts N tokens in every step
    paceline[+SCHEME][+ngram]        `paceline serve` with its defaults

SCHEME is one of `paceline quantize`; a draft is never quantized. Drafts come from the model's
default drafter, or with `+ngram` from n-gram lookup. `#LABEL` distinguishes two arms that are
otherwise equal: `vllm#again`. `+layout` gives vLLM the number format, the threads and the processes
that Paceline chooses for the machine and the weights, and the plugin's corrections of vLLM's CPU
sampler: then only the choice of the draft length and the gateway distinguish it from Paceline. All
arms but `naive` have a KV cache of about the same size, because they share the memory of a machine.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.foundation.quantized.schemes import SCHEMES
from paceline.runtime.engine.launch.command import find_server_module
from paceline.runtime.engine.launch.format_gate import choose_formats
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import Layout, LayoutSettings, choose_layout
from paceline.runtime.engine.launch.speculation import choose_drafter

NAIVE = "naive"
LLAMACPP = "llama.cpp"
PLAIN = "vllm"
LAYOUT = "vllm+layout"
PACELINE = "paceline"
NGRAM = "ngram"
EIGHT_BITS = "smoothquant"
FOUR_BITS = "gptq"
STATIC_LENGTHS = (1, 2, 3, 5)
LLAMA_SERVER = Path("runs/llamacpp/llama_cpp/lib/llama-server")
"""Built by `VENV=.venv CLIENTS=runs NATIVE=1 scripts/install-llamacpp.sh`."""
_SPEC = re.compile(
    r"(?P<kind>naive|llama\.cpp|vllm|paceline)(?P<layout>\+layout)?"
    rf"(?:\+(?P<scheme>{'|'.join(SCHEMES)}))?(?:\+(?P<drafter>ngram|lookup))?"
    r"(?:\+K=(?P<length>[1-9]\d*))?(?:#(?P<label>\w+))?"
)
_NAIVE_SERVER = Path(__file__).with_name("naive_server.py")
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
_LLAMACPP_KV_BYTES_PER_TOKEN = 23_040
"""Of SmolLM2: 30 layers, keys and values of 3 heads with 64 numbers of 2 bytes."""
_LLAMACPP_SLOTS = 64
_MEMORY_GIB = {NAIVE: 1.0, LLAMACPP: 0.4, PLAIN: 2.0, PACELINE: 2.2}
"""Of a server without its KV cache. vLLM has three processes; observed while it compiled."""


GROUPS = ("servers", "speculation")


def default_arms(group: str) -> tuple[str, ...]:
    """The names of the arms of a group; n-grams stand beside the model's default drafter.

    `servers` compares Paceline with other servers, `speculation` with static lengths. All arms at
    once would need 30 GiB; plain vLLM, the layout and Paceline are in both groups.
    """
    if group == "speculation":
        lengths = [f"{LAYOUT}+K={length}" for length in STATIC_LENGTHS]
        return (PLAIN, LAYOUT, f"{LAYOUT}#again", *lengths, f"{LAYOUT}+{NGRAM}+K=3", PACELINE)
    return (
        NAIVE, LLAMACPP, f"{LLAMACPP}+lookup", PLAIN, f"{PLAIN}#again", LAYOUT,
        PACELINE, f"{PACELINE}+{NGRAM}", f"{PACELINE}+{EIGHT_BITS}", f"{PACELINE}+{FOUR_BITS}",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arm:
    """One server of the comparison."""

    kind: str
    """`naive`, `llama.cpp`, `vllm` or `paceline`."""
    has_layout: bool = False
    draft_length: int | None = None
    """Static; None without static speculation."""
    label: str = ""
    scheme: str | None = None
    """Of `paceline quantize`; None for the unquantized target."""
    drafter: str | None = None
    """`ngram` or llama.cpp's `lookup`; None for the default."""

    @property
    def name(self) -> str:
        return (
            self.kind
            + ("+layout" if self.has_layout else "")
            + ("" if self.scheme is None else f"+{self.scheme}")
            + ("" if self.drafter is None else f"+{self.drafter}")
            + ("" if self.draft_length is None else f"+K={self.draft_length}")
            + (f"#{self.label}" if self.label else "")
        )

    @property
    def reports_drafts(self) -> bool:
        """Whether the server counts drafted and accepted tokens as vLLM does."""
        return self.kind == PACELINE or self.draft_length is not None

    @property
    def is_serial(self) -> bool:
        """Whether it answers one request at a time."""
        return self.kind == NAIVE


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """The model that all arms serve."""

    target: str
    draft: str
    """The folder of the default drafter."""
    quantized: Mapping[str, str] = field(default_factory=dict)
    """The folders that `paceline quantize` made of the target, by scheme."""
    gguf: str = ""
    """The file that llama.cpp serves."""

    def target_of(self, arm: Arm) -> str:
        """The folder that the arm serves."""
        return self.target if arm.scheme is None else self.quantized[arm.scheme]

    def draft_of(self, arm: Arm) -> str:
        """Its drafter."""
        return arm.drafter or self.draft


def with_scheme(arm: str, scheme: str | None) -> str:
    """The name of this arm, `vllm+layout` or `paceline`, with weights of this scheme."""
    return arm if scheme is None else f"{arm}+{scheme}"


def parse_arm(spec: str) -> Arm:
    """The arm of this name; ValueError that says what is allowed."""
    match = _SPEC.fullmatch(spec)
    if match is None or not _is_allowed(match):
        raise ValueError(
            f"the arm is {spec!r}; it must be naive, llama.cpp[+lookup], vllm, "
            "vllm+layout[+SCHEME], vllm+layout[+SCHEME][+ngram]+K=N or paceline[+SCHEME][+ngram], "
            "each with an optional #LABEL, as in vllm#again; "
            f"SCHEME is one of {', '.join(SCHEMES)}, N at least 1"
        )
    return Arm(
        kind=match["kind"],
        has_layout=bool(match["layout"]),
        draft_length=None if match["length"] is None else int(match["length"]),
        label=match["label"] or "",
        scheme=match["scheme"],
        drafter=match["drafter"],
    )


def _is_allowed(match: re.Match[str]) -> bool:
    """Whether this kind of server has the parts that the name gives it."""
    kind, drafter = match["kind"], match["drafter"]
    has_layout, has_length = bool(match["layout"]), match["length"] is not None
    if kind == LLAMACPP:
        return not (has_layout or has_length or match["scheme"]) and drafter != NGRAM
    if kind == PACELINE:
        return not (has_layout or has_length) and drafter != "lookup"
    if not has_layout:
        return not (has_length or match["scheme"] or drafter)
    return kind == PLAIN and drafter != "lookup" and (has_length or not drafter)


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


def memory_bytes(arm: Arm, kv_cache_bytes: int) -> int:
    """About what the arm's server needs."""
    without_cache = int(_MEMORY_GIB[arm.kind] * 2**30)
    return without_cache if arm.kind == NAIVE else without_cache + kv_cache_bytes


def server_plan(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> dict[str, Any]:
    """The command and the environment of the arm's server, for `benchmarks.servers`."""
    if arm.kind == NAIVE:
        words = [sys.executable, str(_NAIVE_SERVER), model.target, "--port", "{port}"]
        return {"command": words, "env": _QUIET}
    if arm.kind == LLAMACPP:
        return {"command": _llamacpp_command(arm, model, kv_cache_bytes)}
    if arm.kind == PACELINE:
        words = ["paceline", "serve", model.target_of(arm), "--draft", model.draft_of(arm)]
        words += ["--port", "{port}", "--admin-port", "{admin_port}"]
        sized = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(kv_cache_bytes)}
        return {"command": words, "env": {**_QUIET, **sized}}
    return {
        "command": _vllm_command(arm, model, kv_cache_bytes),
        "env": {**_QUIET, **_vllm_environment(arm, model, kv_cache_bytes)},
    }


def _llamacpp_command(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> list[str]:
    """llama.cpp's own server, which computes its slots in one batch.

    The n-grams of `+lookup` have three tokens, where Paceline looks two to four up, and the drafts
    are as long as its longest. Prompts of finished requests are not kept in further memory.
    """
    threads = str(os.cpu_count())
    words = [str(LLAMA_SERVER), "--model", model.gguf, "--host", "127.0.0.1", "--port", "{port}"]
    words += ["--threads", threads, "--threads-batch", threads, "--no-webui", "--cache-ram", "0"]
    words += ["--ctx-size", str(kv_cache_bytes // _LLAMACPP_KV_BYTES_PER_TOKEN)]
    words += ["--parallel", str(_LLAMACPP_SLOTS), "--kv-unified"]
    if arm.drafter is not None:
        words += ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3"]
        words += ["--spec-ngram-simple-size-m", "8"]
    return words


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
        config = choose_drafter(model.draft_of(arm), target, arm.draft_length).speculative_config
        words += ["--speculative-config", json.dumps(dict(config or {}))]
    return words


def _vllm_environment(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> Mapping[str, str]:
    if arm.has_layout:
        return _layout(arm, model, kv_cache_bytes).environment
    return {"VLLM_PLUGINS": ""}


def _layout(arm: Arm, model: ModelFolders, kv_cache_bytes: int) -> Layout:
    """What `paceline serve` chooses for the folder that the arm serves."""
    hardware = read_hardware()
    has_draft_model = arm.draft_length is not None and model.draft_of(arm) != NGRAM
    formats = choose_formats(
        hardware,
        target=model.target_of(arm),
        draft=model.draft_of(arm) if has_draft_model else None,
        dtype="auto",
        kv_cache_dtype="auto",
        vllm_args=(),
    )
    settings = LayoutSettings(kv_cache_bytes=kv_cache_bytes, kernel_dtypes=formats.kernel_dtypes)
    return choose_layout(hardware, settings)
