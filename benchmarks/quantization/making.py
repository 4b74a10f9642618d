"""Make a quantized folder with the command `paceline quantize`, and record what it said."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.quantization.variants import Variant

_COMMAND = (sys.executable, "-c", "from paceline.cli import main; main()", "quantize")
_CALIBRATED = ("awq", "gptq")
_WRONG_USAGE = 2
_SERVES_ALL = "gpu-hopper"
"""Hardware for which every scheme may be made, to see what vLLM says here to a refused one."""
_PROVENANCE = "paceline-provenance.json"


def make_folder(variant: Variant, model: Path, out: Path, calibration: Path) -> dict[str, Any]:
    """Write the folder of the variant's scheme to `out`; the record of it.

    `refusal` is what the command says where this machine cannot serve the scheme (then the folder
    is made for another machine), "" where it says nothing; `error` what it says where it fails. A
    folder that an earlier run has completed is taken as it is, without `refusal`.
    """
    assert variant.scheme is not None
    options = ["--scheme", variant.scheme, "--out", str(out), "--backend", variant.backend]
    if variant.scheme in _CALIBRATED:
        options += ["--calibration", str(calibration)]
    record: dict[str, Any] = {"scheme": variant.scheme, "backend": variant.backend}
    if not (out / _PROVENANCE).is_file():
        done, seconds = _run(model, options)
        record["refusal"] = ""
        if done.returncode == _WRONG_USAGE:
            record |= {"refusal": _last_words(done.stderr), "refused_after_s": round(seconds, 1)}
            done, seconds = _run(model, [*options, "--hardware", _SERVES_ALL])
        record |= {"seconds": round(seconds, 1)}
        if done.returncode != 0:
            return record | {"error": _last_words(done.stderr)}
    provenance = json.loads((out / _PROVENANCE).read_text(encoding="utf-8"))
    return record | {
        "made_by": provenance["made_by"],
        "quantization": provenance["quantization"],
        "cautions": provenance["cautions"],
        "weights_bytes": weights_bytes(out),
    }


def weights_bytes(folder: Path) -> int:
    """Size of the weights on the disk."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _run(model: Path, options: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    started = time.monotonic()
    command = [*_COMMAND, str(model), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, time.monotonic() - started


def _last_words(stderr: str) -> str:
    """The error of a command of click, without the lines on its usage."""
    return " ".join(stderr.rpartition("Error: ")[2].split())
