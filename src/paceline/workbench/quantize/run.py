"""Carry out a quantization: check, calibrate, write the folder, and record where it comes from."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from paceline.foundation.quantized.architecture import check_shapes, why_unsupported
from paceline.foundation.quantized.calibration import Calibration, load_calibration
from paceline.foundation.quantized.errors import QuantizeError, WrongUsage
from paceline.foundation.quantized.job import Job, Made, OnProgress
from paceline.foundation.quantized.provenance import render_provenance, write_provenance
from paceline.foundation.quantized.schemes import SCHEMES, Scheme, choose_group_size
from paceline.foundation.quantized.source_model import (
    SourceModel,
    checksums,
    read_source,
    source_files,
)
from paceline.workbench.quantize.cautions import find_cautions
from paceline.workbench.quantize.output_folder import (
    OutputFolder,
    check_free,
    open_output,
    partial_of,
)
from paceline.workbench.quantize.resources import check_resources, estimate_needs


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """What the user asks for."""

    model: str
    """Folder of the model."""
    scheme: str
    out: Path
    calibration: Path | None
    num_samples: int
    max_tokens: int
    group_size: int | None
    seed: int
    environment: Path | None = None
    """Folder of llm-compressor's environment; None quantizes with Paceline's own methods."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the run needs to know of this machine."""

    description: str
    """Hardware class, for the provenance."""
    available_memory_bytes: int


def run_quantization(
    options: QuantizeOptions,
    machine: Machine,
    *,
    command: Sequence[str],
    cautions: Sequence[str],
    on_progress: OnProgress,
    on_caution: Callable[[str], None],
) -> dict[str, Any]:
    """Write the folder and return its provenance. Raises QuantizeError.

    `cautions` are those of the compatibility gate; all are recorded, and reported before the work
    begins. Nothing is left under the name of the folder unless it is complete.
    """
    started = time.monotonic()
    check_free(options.out)
    source = read_source(options.model)
    scheme = SCHEMES[options.scheme]
    refusal = "" if options.environment else why_unsupported(source, scheme)
    if refusal:
        raise QuantizeError(f"{refusal}. Use --backend llm-compressor")
    job = prepare_job(options, source, scheme)
    _check_resources(options.out, job, machine)
    cautions = [*cautions, *find_cautions(job, _calibration_texts(job, source))]
    if options.calibration is not None and job.calibration is None:
        cautions.append(
            f"--calibration is not used: {scheme.name} rounds weights as they are, and scales "
            "activations while serving"
        )
    for caution in cautions:
        on_caution(caution)
    total = source.num_bytes
    read = _Counter("reading the source", total, on_progress)
    found = checksums(source_files(source), read.add)
    inputs = {
        "source": found,
        "scheme": scheme.name,
        "group_size": job.group_size,
        "seed": job.seed,
        "backend": "own" if options.environment is None else "llm-compressor",
        "calibration": None if job.calibration is None else job.calibration.as_json(),
    }
    try:
        with open_output(options.out, inputs) as output:
            made = _write(job, output, options.environment, on_progress)
            written = checksums(output.files())
            document = render_provenance(
                job,
                made,
                command=command,
                created=datetime.now(UTC),
                duration_s=time.monotonic() - started,
                source_checksums=found,
                output_checksums=written,
                hardware=machine.description,
                cautions=cautions,
            )
            write_provenance(output.path, document)
            output.finish()
    except (OSError, SafetensorError) as error:
        then = "continues where it was" if options.environment is None else "begins anew"
        raise QuantizeError(
            f"{options.out} was not completed: {error}. Free space, or choose another disk; the "
            f"same command {then}"
        ) from error
    return document


def prepare_job(options: QuantizeOptions, source: SourceModel, scheme: Scheme) -> Job:
    """Return the job with its group size and calibration. Raises QuantizeError."""
    try:
        group_size = choose_group_size(scheme, check_shapes(source, scheme), options.group_size)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    is_asked = options.calibration is not None  # a file is checked also where it is not used
    calibration = (
        _load_calibration(options, source) if scheme.needs_calibration or is_asked else None
    )
    used = calibration if scheme.needs_calibration else None
    return Job(source, scheme, group_size, used, options.seed)


def _write(
    job: Job, output: OutputFolder, environment: Path | None, on_progress: OnProgress
) -> Made:
    from paceline.workbench.quantize.llm_compressor.backend import quantize_with_llm_compressor
    from paceline.workbench.quantize.own.backend import own_quantization_config, quantize_own

    if environment is None:
        made, quantization = quantize_own(job, output, on_progress), own_quantization_config(job)
    else:
        made, quantization = quantize_with_llm_compressor(job, output, on_progress, environment)
    for path in job.source.other_files():
        shutil.copyfile(path, output.path / path.name)
    config = {**job.source.config, "quantization_config": quantization}
    (output.path / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return made


def _load_calibration(options: QuantizeOptions, source: SourceModel) -> Calibration:
    tokenizer = _load_tokenizer(source.folder)
    limit = int(source.config.get("max_position_embeddings", options.max_tokens))
    return load_calibration(
        options.calibration,
        tokenizer,
        max_samples=options.num_samples,
        max_tokens=min(options.max_tokens, limit),
        seed=options.seed,
    )


def _calibration_texts(job: Job, source: SourceModel) -> list[str]:
    """Return the samples as text, for the cautions."""
    if job.calibration is None:
        return []
    tokenizer = _load_tokenizer(source.folder)
    return [str(tokenizer.decode(list(sample))) for sample in job.calibration.samples]


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder))
    except Exception as error:
        raise QuantizeError(f"the tokenizer of {folder} cannot be loaded: {error}") from error


def _check_resources(out: Path, job: Job, machine: Machine) -> None:
    existing = next(path for path in out.absolute().parents if path.is_dir())
    # What an earlier run left is kept or removed; either way the result needs no more beside it.
    written = [path.stat().st_size for path in partial_of(out).glob("*") if path.is_file()]
    check_resources(
        estimate_needs(job),
        free_disk_bytes=shutil.disk_usage(existing).free + sum(written),
        available_memory_bytes=machine.available_memory_bytes,
    )


class _Counter:
    """Adds up bytes and reports them."""

    def __init__(self, what: str, total: int, on_progress: OnProgress) -> None:
        self._what, self._total, self._on_progress = what, total, on_progress
        self._done = 0

    def add(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._on_progress(self._what, min(self._done, self._total), self._total)
