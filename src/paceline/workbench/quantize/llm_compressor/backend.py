"""Drive llm-compressor on one job, as a subprocess that answers in JSON lines."""

from __future__ import annotations

import json
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.job import Job, Made, OnProgress
from paceline.workbench.quantize.llm_compressor.environment import create, python_of
from paceline.workbench.quantize.output_folder import OutputFolder

_IGNORED = ("lm_head",)
_METHODS = {"awq": "AWQ", "gptq": "GPTQ", "smoothquant": "SmoothQuant"}
_LOG_CHARS = 2000


def quantize_with_llm_compressor(
    job: Job, output: OutputFolder, on_progress: OnProgress, environment: Path
) -> tuple[Made, dict[str, Any]]:
    """Write the weights; return how, and the `quantization_config`. Raises QuantizeError.

    The environment is created if it is not complete. An interrupted run begins anew.
    """
    create(environment, lambda step: on_progress(step, 0, 1))
    versions = run_script(python_of(environment), render_job(job, output.path), on_progress)
    config = json.loads((output.path / "config.json").read_text(encoding="utf-8"))
    made = Made(
        backend="llm-compressor",
        method=_METHODS.get(job.scheme.name, "round to nearest"),
        versions=versions,
        ignored_layers=_IGNORED,
    )
    return made, dict(config["quantization_config"])


def render_job(job: Job, out: Path) -> dict[str, Any]:
    """Return what `script.py` reads."""
    return {
        "model": str(job.source.folder.absolute()),
        "out": str(out.absolute()),
        "scheme": job.scheme.name,
        "group_size": job.group_size,
        "ignore": list(_IGNORED),
        "seed": job.seed,
        "samples": None if job.calibration is None else job.calibration.samples,
    }


def run_script(python: Path, job: dict[str, Any], on_progress: OnProgress) -> dict[str, str]:
    """Run the script with the interpreter `python`; return the versions it reports."""
    versions: dict[str, str] = {}
    error = ""
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        job_file, log_file = Path(folder, "job.json"), Path(folder, "log")
        job_file.write_text(json.dumps(job), encoding="utf-8")
        with (
            resources.as_file(resources.files(__package__) / "script.py") as script,
            log_file.open("w") as log,
            subprocess.Popen(
                # -P: the folder of the script must not hide modules of the environment.
                [str(python), "-P", str(script), str(job_file)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    answer = json.loads(line)
                    if "step" in answer:
                        on_progress(f"llm-compressor: {answer['step']}", 0, 1)
                    versions = answer.get("versions", versions)
                    error = answer.get("error", error)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0 or not versions:
            tail = log_file.read_text(errors="replace")[-_LOG_CHARS:]
            raise QuantizeError(
                f"llm-compressor failed ({error or f'exit code {process.returncode}'}); use "
                f"--backend own, or see its last lines:\n{tail}"
            )
    return versions
