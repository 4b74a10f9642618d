"""`paceline-provenance.json`: where a quantized folder comes from, so that it can be made again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import paceline
from paceline.foundation.quantized.job import Job, Made

FILE = "paceline-provenance.json"
SCHEMA_VERSION = 1


def render_provenance(
    job: Job,
    made: Made,
    *,
    command: Sequence[str],
    created: datetime,
    duration_s: float,
    source_checksums: Mapping[str, Any],
    output_checksums: Mapping[str, Any],
    hardware: str,
    cautions: Sequence[str],
) -> dict[str, Any]:
    """Return the document. `created` has a time zone; checksums are by file name."""
    return {
        "schema_version": SCHEMA_VERSION,
        "created": created.isoformat(timespec="seconds"),
        "duration_s": round(duration_s, 1),
        "command": shlex.join(command),
        "made_by": {
            "backend": made.backend,
            "method": made.method,
            "versions": {"paceline": paceline.__version__, **made.versions},
            "hardware": hardware,
        },
        "source": {
            "model": str(job.source.folder),
            "architecture": job.source.architecture,
            "dtype": job.source.dtype,
            "num_params": job.source.num_params,
            "files": dict(source_checksums),
        },
        "quantization": {
            "scheme": job.scheme.name,
            "format": job.scheme.format,
            "group_size": job.group_size,
            "ignored_layers": list(made.ignored_layers),
            "seed": job.seed,
            "calibration": None if job.calibration is None else job.calibration.as_json(),
        },
        "output": {"files": dict(output_checksums)},
        "cautions": list(cautions),
    }


def write_provenance(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the document into the folder."""
    (folder / FILE).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
