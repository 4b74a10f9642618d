"""Start the governor of one scheduler: check vLLM, refuse bad configurations, connect the parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

import paceline
from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.compatibility.length_table import (
    is_length_table,
    lengths_to_name,
    render_length_table,
)
from paceline.foundation.recording.records import SCHEMA_VERSION, CostTableRecord, Header
from paceline.foundation.servers.governor_channel import own_address
from paceline.runtime.engine.calibration.start import load_or_measure
from paceline.runtime.engine.compat.captured_lengths import captured_lengths, captures_full_graphs
from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.drafters import (
    UNPATCHED,
    DrafterControl,
    Drafting,
    drafter_control,
    drafting_of,
)
from paceline.runtime.engine.compat.executor import Executor, patch_workers
from paceline.runtime.engine.fixes.sampler_check import check_workers
from paceline.runtime.engine.recording.recorder import Recorder
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver
from paceline.runtime.engine.scheduler.refusals import (
    refuse_lossy_verification,
    refuse_shared_drafts,
    refuse_ungovernable,
    refuse_unreported_trims,
)
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.engine.worker.early_stop import why_not_in_worker
from paceline.runtime.engine.worker.resting_draft import drafter_rests
from paceline.runtime.engine.worker.trimmed_drafts import report_from_worker
from paceline.runtime.engine.worker.v2_draft_length import patch_worker

logger = logging.getLogger("vllm.paceline.scheduler")


def start_governor(
    scheduler: Any,
    settings: PluginSettings,
    executor: Executor | None,
    kernels: Mapping[str, int],
) -> GovernorDriver | None:
    """Return the driver of this scheduler's governor; None where vLLM runs without one.

    `kernels` is the number of linear layers by kernel, for the state that operators read. Raises
    ValueError for a configuration that must not be served; vLLM then does not start.
    """
    vllm_config = scheduler.vllm_config
    speculative = vllm_config.speculative_config
    if speculative is None:
        logger.info("Governor: off, because there is no --speculative-config")
        return None
    refuse_lossy_verification(speculative)
    if settings.separate_tenants:
        refuse_shared_drafts(speculative)
    hooks = check_hooks()
    misfit = unfit_for("governor", hooks)
    if misfit:
        logger.error(
            "Governor: off, because this vLLM does not fit its hooks: %s. vLLM uses its static "
            "draft length.",
            misfit,
        )
        _ignore_length_table(scheduler)
        return None
    refuse_ungovernable(vllm_config)
    if speculative.enable_adaptive_verification:
        refuse_unreported_trims(patch_workers(executor, report_from_worker))
        logger.info("Governor: adaptive verification shortens drafts further after they are made")
    drafter = connect_drafter(drafting_of(vllm_config), executor)
    abilities = _find_abilities(scheduler, drafter, executor, hooks)
    calibration = None
    if settings.costs_folder is not None:
        calibration = load_or_measure(
            vllm_config,
            scheduler.kv_cache_config,
            executor,
            max_draft_length=abilities.max_draft_length,
            allowed_lengths=abilities.allowed_lengths,
            follows_length=drafter.mode in ("follows", "patched"),
            folder=settings.costs_folder,
        )
    table = None if calibration is None else calibration.table
    controller = DraftLengthController(settings, abilities, cost_table=table)
    driver = GovernorDriver(
        controller,
        abilities,
        facts={
            "seams": hooks,  # the key that operators know
            "kernels": kernels,
            "costs": "learned while serving" if calibration is None else calibration.message,
        },
        reproducible_seeds=settings.reproducible_seeds,
        recorder=Recorder(
            settings.recording_file, _header_of(scheduler, controller, abilities, table)
        ),
    )
    if scheduler.dynamic_sd_lookup is None:
        # A table that always gives the maximum, so that only the plan changes the length. Without
        # a table, vLLM pads every request that joins with one token to the maximum length with -1
        # (`schedule`, "Pad new decode requests"), and the target computes that padding at every
        # draft length. The padding serves full CUDA graphs of one uniform length, which do not
        # exist when the length varies.
        constant = [abilities.max_draft_length] * (scheduler.max_num_running_reqs + 1)
        scheduler.dynamic_sd_lookup = constant
    _listen(driver, settings.control_socket)
    _log_start(vllm_config, settings.policy, drafter, abilities)
    return driver


def _find_abilities(
    scheduler: Any, drafter: DrafterControl, executor: Executor | None, hooks: dict[str, str]
) -> EngineAbilities:
    """Return what the engine can do; log each ability that is missing for want of a fit."""
    vllm_config = scheduler.vllm_config
    sampler_fault = check_workers(executor)
    if sampler_fault is not None:
        logger.error(
            "Governor: requests with temperature > 0 are served without speculation: %s",
            sampler_fault,
        )
    graphs_misfit = unfit_for("captured_lengths", hooks)
    if graphs_misfit:
        logger.error("Governor: every draft length is allowed: %s", graphs_misfit)
    why_unreported = patch_workers(executor, why_not_in_worker)
    if why_unreported:
        logger.info("Governor: drafts do not end early, all are verified: %s", why_unreported)
    return EngineAbilities(
        max_draft_length=scheduler.num_spec_tokens,
        method=vllm_config.speculative_config.method,
        allowed_lengths=None if graphs_misfit else captured_lengths(vllm_config),
        always_drafts_maximum=drafter.mode == "trimmed",
        drafter_rests=drafter_rests(vllm_config, scheduler.kv_cache_config),
        reports_confidences=not why_unreported,
        draws_drafts=vllm_config.speculative_config.draft_sample_method == "probabilistic",
        sampler_fault=sampler_fault,
    )


def _log_start(
    vllm_config: Any, policy: str, drafter: DrafterControl, abilities: EngineAbilities
) -> None:
    longest, allowed = abilities.max_draft_length, abilities.allowed_lengths
    logger.info(
        "Governor: policy %s, draft length %s, drafter %s, which %s",
        policy,
        f"0 to {longest}" if allowed is None else f"one of {allowed}",
        abilities.method,
        drafter.why,
    )
    if allowed is None and captures_full_graphs(vllm_config):
        logger.warning(
            "Governor: only draft length %d has full CUDA graphs; every other length, 0 too, is "
            'slower than it need be. Add "num_speculative_tokens_per_batch_size": %s to '
            "--speculative-config.",
            longest,
            render_length_table(
                lengths_to_name(longest), vllm_config.scheduler_config.max_num_seqs
            ),
        )


def _listen(driver: GovernorDriver, path: str | None) -> None:
    """Open the control channel; raise OSError if a path that was given cannot be used."""
    if path:
        driver.listen(path)
    elif path is None:
        try:
            driver.listen(own_address())
        except OSError as error:  # as for a second engine in the process
            logger.warning("Governor: it has no control channel and no metrics: %s", error)


def _header_of(
    scheduler: Any,
    controller: DraftLengthController,
    abilities: EngineAbilities,
    table: CostTable | None,
) -> Callable[[], Header]:
    """Return a function that gives the header of a recording that starts when it is called."""
    vllm_config = scheduler.vllm_config
    settings = vllm_config.scheduler_config
    sizes = vllm_config.compilation_config.cudagraph_capture_sizes or ()
    header = Header(
        schema_version=SCHEMA_VERSION,
        paceline_version=paceline.__version__,
        policy="",
        method=abilities.method,
        max_draft_length=abilities.max_draft_length,
        allowed_lengths=abilities.allowed_lengths,
        drafter_rests=abilities.drafter_rests,
        is_async=bool(settings.async_scheduling),
        max_num_seqs=scheduler.max_num_running_reqs,
        token_budget=settings.max_num_batched_tokens,
        prefill_chunk_tokens=settings.long_prefill_token_threshold or None,
        graph_sizes=tuple(sorted(sizes)),
        cost_table=msgspec.convert(table, CostTableRecord | None, from_attributes=True),
    )
    # The policy may change until a recording starts; what pacing changes was read at the start.
    return lambda: msgspec.structs.replace(header, policy=controller.state()["policy"])


def _ignore_length_table(scheduler: Any) -> None:
    """Without a governor, let a table that only names lengths choose none: vLLM would follow it."""
    speculative = scheduler.vllm_config.speculative_config
    table = getattr(speculative, "num_speculative_tokens_per_batch_size", None)
    if table and is_length_table(table):
        scheduler.dynamic_sd_lookup = None


def connect_drafter(drafting: Drafting, executor: Executor | None) -> DrafterControl:
    """Return how the drafter is controlled; patch it in the workers first where that is needed."""
    control = drafter_control(drafting)
    if control.mode != "patched":
        return control
    fault = patch_workers(executor, patch_worker)
    if fault:
        logger.error(
            "Governor: the drafter could not be patched and always drafts the maximum: %s", fault
        )
        return UNPATCHED
    return control
