"""The state file of a tuning: what was measured, so that an interrupted tuning continues.

JSON lines, appended as they happen and synced to disk: a header with the question and the problem,
then servers started, trials and failures. A line that a crash cut off is dropped. The search is a
function of the problem and of the trials, so reading them back continues it exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.foundation.results.files import write_bytes
from paceline.workbench.tune.values import (
    Cell,
    LiveSetting,
    Measurement,
    Purpose,
    RestartConfig,
    SearchProblem,
    Trial,
    TuneError,
)

SCHEMA_VERSION = 2


class TuneState:
    """What a tuning has measured, in memory and, with a file, on disk."""

    def __init__(self, problem: SearchProblem, file: Path | None) -> None:
        self.problem = problem
        self.measurements: dict[Trial, Measurement] = {}
        self.failures: dict[RestartConfig, str] = {}
        self.num_starts = 0
        """Servers that were started, those of earlier, interrupted runs included."""
        self._file = file

    @classmethod
    def begin(
        cls, problem: SearchProblem, question: Mapping[str, Any], file: Path | None
    ) -> TuneState:
        """A new state. Raises FileExistsError rather than replace a file."""
        if file is not None:
            header = {
                "kind": "header",
                "schema_version": SCHEMA_VERSION,
                "question": dict(question),
                "problem": _problem_document(problem),
            }
            if file.exists():
                raise FileExistsError(file)
            write_bytes(file, _line(header))
        return cls(problem, file)

    @classmethod
    def resume(cls, question: Mapping[str, Any], file: Path) -> TuneState:
        """The state in a file. Raises TuneError if it answers another question."""
        records = _read(file)
        if not records or records[0].get("kind") != "header":
            raise TuneError(f"--state {file} is no state of paceline tune; name another file")
        header = records[0]
        if header.get("schema_version") != SCHEMA_VERSION:
            raise TuneError(
                f"--state {file} has schema version {header.get('schema_version')}; this release "
                f"reads {SCHEMA_VERSION}. Name another file"
            )
        _refuse_other_question(header["question"], json.loads(json.dumps(dict(question))), file)
        state = cls(_read_problem(header["problem"]), file)
        for record in records[1:]:
            state._take(record)
        return state

    def add_start(self, restart: RestartConfig) -> None:
        """Note that a server is being started."""
        self._append({"kind": "start", "restart": _restart_document(restart)})

    def add_failure(self, restart: RestartConfig, reason: str) -> None:
        """Note that a server did not start, or failed."""
        self._append({"kind": "failure", "restart": _restart_document(restart), "reason": reason})

    def add_measurement(self, trial: Trial, measurement: Measurement) -> None:
        """Note one trial."""
        self._append(
            {
                "kind": "trial",
                **_cell_document(trial.cell),
                "purpose": trial.purpose.value,
                "sequence": trial.sequence,
                "measurement": asdict(measurement),
            }
        )

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._file is not None:
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, _line(record))
                os.fsync(handle)
            finally:
                os.close(handle)
        self._take(record)

    def _take(self, record: Mapping[str, Any]) -> None:
        kind = record["kind"]
        if kind == "start":
            self.num_starts += 1
        elif kind == "failure":
            self.failures[_read_restart(record["restart"])] = record["reason"]
        else:
            trial = Trial(_read_cell(record), Purpose(record["purpose"]), record["sequence"])
            self.measurements[trial] = Measurement(**record["measurement"])


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _read(file: Path) -> list[dict[str, Any]]:
    """The complete lines; a last one without its end is cut off the file."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TuneError(f"--state {file} cannot be read: {error}") from None
    complete = data[: data.rfind(b"\n") + 1]
    try:
        records = [json.loads(line) for line in complete.splitlines()]
    except ValueError as error:
        raise TuneError(f"--state {file} is damaged: {error}; name another file") from None
    if len(complete) < len(data):
        os.truncate(file, len(complete))
    return records


def _refuse_other_question(
    written: Mapping[str, Any], asked: Mapping[str, Any], file: Path
) -> None:
    for name in sorted({*written, *asked}):
        if written.get(name) != asked.get(name):
            raise TuneError(
                f"--state {file} belongs to a tuning with {name} {written.get(name)!r}; this one "
                f"has {asked.get(name)!r}. Repeat the earlier options, or name another file"
            )


def _problem_document(problem: SearchProblem) -> dict[str, Any]:
    return {
        "servers": [
            {
                "restart": _restart_document(restart),
                "usd_per_hour": problem.usd_per_hour.get(restart),
                "settings": [
                    {**asdict(live), "predicted": problem.predicted.get(Cell(restart, live))}
                    for live in settings
                ],
            }
            for restart, settings in problem.settings.items()
        ],
        "min_attained_fraction": problem.min_attained_fraction,
        "max_starts": problem.max_starts,
        "max_blocks": problem.max_blocks,
        "num_qualifying": problem.num_qualifying,
        "num_held_out": problem.num_held_out,
        "seed": problem.seed,
    }


def _read_problem(document: Mapping[str, Any]) -> SearchProblem:
    bounds = {name: value for name, value in document.items() if name != "servers"}
    settings: dict[RestartConfig, tuple[LiveSetting, ...]] = {}
    predicted: dict[Cell, float] = {}
    usd_per_hour: dict[RestartConfig, float] = {}
    for server in document["servers"]:
        restart = _read_restart(server["restart"])
        if server["usd_per_hour"] is not None:
            usd_per_hour[restart] = server["usd_per_hour"]
        lives = []
        for one in server["settings"]:
            lives.append(_read_live(one))
            if one["predicted"] is not None:
                predicted[Cell(restart, lives[-1])] = one["predicted"]
        settings[restart] = tuple(lives)
    return SearchProblem(
        settings=settings, predicted=predicted, usd_per_hour=usd_per_hour, **bounds
    )


def _cell_document(cell: Cell) -> dict[str, Any]:
    return {"restart": _restart_document(cell.restart), "live": asdict(cell.live)}


def _read_cell(document: Mapping[str, Any]) -> Cell:
    return Cell(_read_restart(document["restart"]), _read_live(document["live"]))


def _restart_document(restart: RestartConfig) -> dict[str, Any]:
    return dict(restart.settings)


def _read_restart(document: Mapping[str, Any]) -> RestartConfig:
    return RestartConfig(tuple(document.items()))


def _read_live(document: Mapping[str, Any]) -> LiveSetting:
    return LiveSetting(document["draft_length"], document["max_in_flight"])
