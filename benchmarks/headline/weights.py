"""What the servers serve: SmolLM2 in its formats, and the verdict on quantized weights.

Quantized folders and their verdicts are made once, in a folder such as `runs`, by commands that the
result records. 4-bit weights are calibrated on prompts that the model wrote itself; the verdict is
about the prompts of the benchmark.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.headline.arms import LLAMA_SERVER, LLAMACPP, Arm, ModelFolders
from benchmarks.headline.cells import ANSWER_TOKENS, PROMPTS
from paceline.foundation.answer_quality.decisions.verdict import EXIT_CODES
from paceline.foundation.named_models import find_named
from paceline.foundation.named_models.smollm2 import gguf_file
from paceline.foundation.quantized.schemes import SCHEMES

MODEL = "smollm2"
_NUM_CALIBRATION_PROMPTS = 160
_TOOLS = str(Path(__file__).resolve().parents[2] / "tools")
_PATH = os.pathsep.join([_TOOLS, *filter(None, [os.environ.get("PYTHONPATH")])])
_BUILD = "VENV=.venv CLIENTS=runs NATIVE=1 scripts/install-llamacpp.sh"


def prepare(arms: Iterable[Arm], folder: Path) -> tuple[ModelFolders, dict[str, Any]]:
    """The model's folders, and what `paceline quality` says of each scheme.

    Makes what is missing in `folder`. SystemExit if that fails.
    """
    arms = list(arms)
    if any(arm.kind == LLAMACPP for arm in arms) and not LLAMA_SERVER.is_file():
        raise SystemExit(f"{LLAMA_SERVER} is missing; build it: {_BUILD}")
    named = find_named(MODEL)
    assert named is not None
    quality: dict[str, Any] = {}
    folders: dict[str, str] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in dict.fromkeys(arm.scheme for arm in arms if arm.scheme):
        out = folder / f"{MODEL}-{scheme}"
        made_by = _quantize(scheme, out)
        quality[scheme] = {"made_by": made_by, **_judge(out)}
        folders[scheme] = str(out)
    gguf = str(gguf_file()) if any(arm.kind == LLAMACPP for arm in arms) else ""
    return ModelFolders(named.target, named.draft, folders, gguf), quality


def _quantize(scheme: str, out: Path) -> str:
    """Make the folder where it is missing; the command that makes it."""
    words = ["quantize", MODEL, "--scheme", scheme, "--out", str(out)]
    if SCHEMES[scheme].needs_calibration:
        prompts = out.with_name(f"{MODEL}-calibration.jsonl")
        recipe = ["env", f"PYTHONPATH={_PATH}", sys.executable, "-m", "smollm2_recipe.prompts"]
        recipe += [str(prompts), "--count", str(_NUM_CALIBRATION_PROMPTS)]
        if not prompts.is_file():
            _run(recipe, f"no prompts in {prompts}")
        words += ["--calibration", str(prompts)]
    if not (out / "config.json").is_file():
        _run(_paceline(words), f"no {scheme} weights in {out}")
    return shlex.join(["paceline", *words])


def _judge(out: Path) -> dict[str, Any]:
    """The verdict on a quantized folder; computed where it is missing."""
    file = out.with_name(f"{out.name}-quality.json")
    words = ["quality", MODEL, str(out), "--prompts", os.path.relpath(PROMPTS)]
    words += ["--max-tokens", str(ANSWER_TOKENS), "--temperature", "0", "--json", str(file)]
    if not file.is_file():
        _run(_paceline(words), f"no verdict on {out}", allowed=tuple(EXIT_CODES.values()))
    [candidate] = json.loads(file.read_text(encoding="utf-8"))["candidates"]
    decision = candidate["decision"]
    return {"judged_by": shlex.join(["paceline", *words]), "verdict": decision["verdict"],
            "reasons": decision["reasons"], "fidelity": candidate["fidelity"]}  # fmt: skip


def _paceline(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", "from paceline.cli import main; main()", *words]


def _run(words: Sequence[str], failure: str, allowed: Sequence[int] = (0,)) -> None:
    """Run a command, which prints why it fails; then SystemExit."""
    print(f"running: {shlex.join(words)}", flush=True)
    if subprocess.run(words, check=False).returncode not in allowed:
        raise SystemExit(f"{failure}: the command above has failed")
