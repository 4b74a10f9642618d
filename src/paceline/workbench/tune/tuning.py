"""Put a tuning together from its options: the grid, the screening, the problem, the launcher."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.load.suited_workload import SuitedWorkload, choose_workload
from paceline.foundation.named_models import NamedModelMissing, find_named
from paceline.foundation.planning.values import Load
from paceline.foundation.planning.values import Slo as PlannedSlo
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.foundation.results.slo import Slo
from paceline.foundation.workloads import (
    Prompt,
    SamplingSettings,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)
from paceline.workbench.tune.configuration import (
    cell_document,
    check_document,
    engine_settings,
    load_base,
    num_gpus,
    server_document,
)
from paceline.workbench.tune.live import CommandLauncher, Launcher, LoadSettings, PacelineLauncher
from paceline.workbench.tune.live.servers import ServerSettings, check_template, fill_command
from paceline.workbench.tune.output import Context
from paceline.workbench.tune.screening import Screening, ScreeningQuestion, screen
from paceline.workbench.tune.search import Outcome
from paceline.workbench.tune.space import SearchSpace, default_space, load_space
from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import LiveSetting, RestartConfig, SearchProblem, TuneError

_NUM_SCORING = 4
"""Blocks that qualify a finalist, and as many that report it."""
_MIN_BLOCKS = 32
"""Of the default budget: fewer cannot compare three servers."""
_BLOCK_OVERHEAD = 1.5
"""Time of a block over the length of its window: it settles before, and its last requests end
after it. Chosen empirically."""
_CHARS_PER_TOKEN = 4
"""Of the prompts, for the planner: the usual ratio for English text."""
_OUTPUT_TOKENS = 256
"""Of answers without a limit, for the planner."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The options of the command that decide the result."""

    config: str | None = None
    model: str | None = None
    space: str | None = None
    server_command: str | None = None
    slo_ttft_ms: float | None = None
    slo_tpot_ms: float | None = None
    attain_percent: float = 95.0
    usd_per_hour: float | None = None
    usd_per_gpu_hour: float | None = None
    hardware: str | None = None
    """For the planner; None for this machine's CPU, if it has no GPU."""
    workload: str | None = None
    """None: one that suits the model of the configuration, if no file has the prompts."""
    prompts_file: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    block_s: float = 5.0
    request_timeout_s: float = 120.0
    max_starts: int = 6
    max_minutes: float = 30.0
    max_blocks: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """A tuning that is ready to run."""

    options: TuneOptions
    base: Mapping[str, Any]
    load: LoadSettings
    state: TuneState
    environment: Environment
    num_grid_cells: int
    dropped: Mapping[str, str]
    notes: Sequence[str]

    def launcher(self, folder: Path, *, api_key: str | None, start_timeout_s: float) -> Launcher:
        """What starts the servers; their configurations and logs are in `folder`."""
        settings = ServerSettings(
            problem=self.state.problem,
            load=self.load,
            folder=folder,
            api_key=api_key,
            start_timeout_s=start_timeout_s,
            request_timeout_s=self.options.request_timeout_s,
        )
        if self.options.server_command is not None:
            return CommandLauncher(settings, self.options.server_command)
        return PacelineLauncher(settings, self.base)

    def context(self, outcome: Outcome | None) -> Context:
        """What the report shows beside the state and the outcome."""
        config = command = None
        if outcome is not None and outcome.winner is not None:
            cell = outcome.winner.cell
            if self.options.server_command is None:
                config = cell_document(self.base, cell)
            else:
                command = fill_command(self.options.server_command, cell.restart, 8000, 8001)
        return Context(
            question=dataclasses.asdict(self.options),
            environment=self.environment,
            num_grid_cells=self.num_grid_cells,
            dropped=self.dropped,
            notes=self.notes,
            winning_config=config,
            winning_command=command,
        )


def prepare(options: TuneOptions, state_file: Path | None, argv: Sequence[str]) -> Tuning:
    """Make the problem, or continue the one of the state file if it exists.

    Raises TuneError, WorkloadError or BenchError if something is wrong with the options.
    """
    base = load_base(None if options.config is None else Path(options.config), options.model)
    space = _space(options, base)
    workload_notes: list[str] = []
    if options.workload is None and options.prompts_file is None:
        suited = _suited_workload(options, base)
        options = dataclasses.replace(options, workload=suited.name)
        workload_notes.append(f"the prompts are the workload {suited.name}: {suited.reason}")
    load = _load(options)
    grid, documents = _grid(options, base, space)
    screening = _screen(options, grid, documents, load)
    if not screening.settings:
        reasons = "; ".join(f"{one.label}: {why}" for one, why in screening.dropped.items())
        raise TuneError(f"no configuration of the space fits: {reasons}")
    question = _question(options, base, space, load.prompts)
    if state_file is not None and state_file.exists():
        state = TuneState.resume(question, state_file)
    else:
        problem = _problem(options, space, screening, documents)
        state = TuneState.begin(problem, question, state_file)
    return Tuning(
        options=options,
        base=base,
        load=load,
        state=state,
        environment=describe_environment(argv),
        num_grid_cells=sum(map(len, grid.values())),
        dropped={one.label: why for one, why in screening.dropped.items()},
        notes=[*workload_notes, *screening.notes, *_notes(options, space)],
    )


def _space(options: TuneOptions, base: Mapping[str, Any]) -> SearchSpace:
    if options.space is not None:
        space = load_space(Path(options.space))
    elif options.server_command is not None:
        raise TuneError("--server-command needs --space, which lists the values of its fields")
    else:
        engine = engine_settings(base).engine
        space = default_space(engine.draft, engine.draft_length_max)
    if options.server_command is not None:
        check_template(options.server_command, set(space.restart))
    elif engine_settings(base).replicas:
        raise TuneError(
            "the configuration lists remote replicas; paceline tune measures engines that it "
            "starts itself. Leave `replicas` out of --config"
        )
    return space


def _grid(
    options: TuneOptions, base: Mapping[str, Any], space: SearchSpace
) -> tuple[dict[RestartConfig, tuple[LiveSetting, ...]], dict[RestartConfig, Mapping[str, Any]]]:
    """The cells, and the document that each configuration serves with; empty for a command."""
    drafter = engine_settings(base).engine.draft
    grid = {one: space.live_settings(one, drafter) for one in space.restart_configs()}
    if options.server_command is not None:
        return grid, {}
    documents: dict[RestartConfig, Mapping[str, Any]] = {}
    for restart, lives in grid.items():
        documents[restart] = server_document(base, restart, max(space.max_in_flight))
        longest = engine_settings(documents[restart]).engine.draft_length_max
        for live in lives:
            if live.draft_length is not None and live.draft_length > longest:
                raise TuneError(
                    f"live.draft_length has the value {live.draft_length}; at most {longest} is "
                    "allowed, which is engine.draft_length_max (--config)"
                )
    return grid, documents


def _suited_workload(options: TuneOptions, base: Mapping[str, Any]) -> SuitedWorkload:
    """By the name of the model, because no server runs yet."""
    model = str((base.get("engine") or {}).get("model", "auto"))
    named = None
    if options.server_command is None:
        with contextlib.suppress(NamedModelMissing):  # the screening reports it
            named = find_named(model)
    return choose_workload(model if named is None else named.served_name)


def _load(options: TuneOptions) -> LoadSettings:
    if options.prompts_file is not None:
        prompts = shuffle_prompts(load_prompt_file(Path(options.prompts_file)), options.seed)
    else:
        assert options.workload is not None, "prepare chooses it"
        prompts = load_workload(options.workload).prompts(options.seed)
    temperature = options.temperature
    if temperature is None:
        given = None if options.prompts_file else options.workload
        temperature = 0.0 if given is None else load_workload(given).temperature
    return LoadSettings(
        prompts=prompts,
        sampling=SamplingSettings(
            model="",
            temperature=temperature,
            top_p=None,
            max_tokens=options.max_tokens,
            seed=options.seed,
            extra_body={},
        ),
        slo=Slo(options.slo_ttft_ms, options.slo_tpot_ms),
        block_s=options.block_s,
        seed=options.seed,
    )


def _screen(
    options: TuneOptions,
    grid: Mapping[RestartConfig, tuple[LiveSetting, ...]],
    documents: Mapping[RestartConfig, Mapping[str, Any]],
    load: LoadSettings,
) -> Screening:
    if options.server_command is not None:
        return Screening(grid, notes=["--server-command: nothing was screened by the planner"])
    hardware = options.hardware
    if hardware is None:
        if Path("/dev/nvidia0").exists():
            return Screening(
                grid, notes=["no --gpu was named: nothing was screened by the planner"]
            )
        hardware = "cpu"
    question = ScreeningQuestion(
        hardware=hardware,
        load=_planned_load(load.prompts, options.max_tokens),
        slo=PlannedSlo(options.slo_ttft_ms, options.slo_tpot_ms),
    )
    served = {one: check_document(document, one.label) for one, document in documents.items()}
    return screen(grid, served, question)


def _planned_load(prompts: Sequence[Prompt], max_tokens: int | None) -> Load:
    """The mean request, with tokens estimated from characters."""
    num_chars = [
        sum(len(str(message.get("content"))) for message in prompt.messages)
        if prompt.messages is not None
        else len(prompt.text or "")
        for prompt in prompts
    ]
    outputs = [max_tokens or prompt.max_tokens or _OUTPUT_TOKENS for prompt in prompts]
    return Load(
        prompt_tokens=max(1, round(sum(num_chars) / len(prompts) / _CHARS_PER_TOKEN)),
        output_tokens=max(1, round(sum(outputs) / len(prompts))),
    )


def _problem(
    options: TuneOptions,
    space: SearchSpace,
    screening: Screening,
    documents: Mapping[RestartConfig, Mapping[str, Any]],
) -> SearchProblem:
    prices: dict[RestartConfig, float] = {}
    for restart in screening.settings:
        if options.usd_per_hour is not None:
            prices[restart] = options.usd_per_hour
        elif options.usd_per_gpu_hour is not None:
            prices[restart] = options.usd_per_gpu_hour * num_gpus(documents[restart])
    wanted = options.max_blocks or max(_MIN_BLOCKS, space.num_cells)
    # Each server is warmed up by a block of its own.
    in_time = int(60 * options.max_minutes / (_BLOCK_OVERHEAD * options.block_s))
    return SearchProblem(
        settings=screening.settings,
        predicted=screening.predicted,
        usd_per_hour=prices,
        min_attained_fraction=options.attain_percent / 100,
        max_starts=options.max_starts,
        max_blocks=max(2 + 2 * _NUM_SCORING, min(wanted, in_time - options.max_starts)),
        num_qualifying=_NUM_SCORING,
        num_held_out=_NUM_SCORING,
        seed=options.seed,
    )


def _question(
    options: TuneOptions, base: Mapping[str, Any], space: SearchSpace, prompts: Sequence[Prompt]
) -> dict[str, Any]:
    """What must be equal for a state to be continued: contents instead of file names."""
    asked = dataclasses.asdict(options)
    del asked["config"]
    asked["space"] = dataclasses.asdict(space)
    return {**asked, "configuration": dict(base), "prompts_sha256": _digest(prompts)}


def _digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of the prompts with their limits, in order."""
    return hashlib.sha256(repr(list(prompts)).encode()).hexdigest()


def _notes(options: TuneOptions, space: SearchSpace) -> list[str]:
    if options.usd_per_hour is None and options.usd_per_gpu_hour is None:
        return ["no price was given, so all configurations count as equally expensive"]
    return []
