"""AdaptiveScheduler without a worker: the class it becomes, and the steps it schedules.

The scheduler objects are vLLM's own; the model's results are invented. The tests reach the
asynchronous scheduler, which vLLM's CPU platform switches off.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.demo import draft_path, target_path
from paceline.runtime.engine.scheduler.settings import PluginSettings

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def vllm_config() -> Any:
    from vllm.engine.arg_utils import EngineArgs

    return EngineArgs(
        model=str(target_path()),
        max_model_len=256,
        enforce_eager=True,
        speculative_config={
            "method": "draft_model",
            "model": str(draft_path()),
            "num_speculative_tokens": 4,
        },
        additional_config={"paceline": {"policy": "fixed", "draft_length": 2}},
    ).create_engine_config()


def make_scheduler(vllm_config: Any, *, is_async: bool) -> Any:
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    from paceline.runtime.engine import AdaptiveScheduler

    vllm_config.scheduler_config.async_scheduling = is_async
    vllm_config.cache_config.num_gpu_blocks = 64
    spec = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32)
    return AdaptiveScheduler(
        vllm_config=vllm_config,
        kv_cache_config=KVCacheConfig(
            num_blocks=64,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
        ),
        structured_output_manager=StructuredOutputManager(vllm_config),
        block_size=16,
        log_stats=True,
    )


def add_request(
    scheduler: Any, request_id: str, *, temperature: float = 0.0, num_prompt_tokens: int = 10
) -> None:
    from vllm import SamplingParams
    from vllm.v1.request import Request

    parameters = SamplingParams(temperature=temperature, max_tokens=50, ignore_eos=True)
    scheduler.add_request(
        Request(
            request_id=request_id,
            prompt_token_ids=list(range(num_prompt_tokens)),
            sampling_params=parameters,
            pooling_params=None,
        )
    )


def results(output: Any, *, num_tokens: int) -> Any:
    """The model's results for a step: `num_tokens` tokens per request."""
    from vllm.v1.outputs import ModelRunnerOutput

    request_ids = list(output.num_scheduled_tokens)
    return ModelRunnerOutput(
        req_ids=request_ids,
        req_id_to_index={request_id: i for i, request_id in enumerate(request_ids)},
        sampled_token_ids=[[7] * num_tokens for _ in request_ids],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_one_name_gives_the_scheduler_that_the_configuration_asks_for(
    vllm_config: Any, is_async: bool
) -> None:
    """Both are real vLLM schedulers of the right kind."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    scheduler = make_scheduler(vllm_config, is_async=is_async)
    assert isinstance(scheduler, Scheduler)
    assert isinstance(scheduler, AsyncScheduler) == is_async


def test_a_synchronous_step_carries_the_planned_length(vllm_config: Any) -> None:
    """2 by configuration, then 0 and 4 by an operator."""
    scheduler = make_scheduler(vllm_config, is_async=False)
    add_request(scheduler, "a")
    lengths = []
    for command in (None, {"draft_length": 0}, {"draft_length": 4}):
        if command is not None:
            scheduler.governor.set(command)
        output = scheduler.schedule()
        lengths.append(output.num_spec_tokens_to_schedule)
        scheduler.update_from_output(output, results(output, num_tokens=1))
    assert lengths == [2, 0, 4]


def test_asynchronous_placeholders_follow_the_planned_length(vllm_config: Any) -> None:
    """Steps 1 and 2 are scheduled before step 1's results; step 2 has step 1's length to verify.

    Step 2's results: 2 drafts verified, 1 accepted (2 tokens come back).
    """
    scheduler = make_scheduler(vllm_config, is_async=True)
    add_request(scheduler, "a")
    first = scheduler.schedule()
    assert first.num_spec_tokens_to_schedule == 2
    scheduler.governor.set({"draft_length": 3})
    second = scheduler.schedule()
    assert second.scheduled_spec_decode_tokens == {"a": [-1, -1]}
    assert second.num_spec_tokens_to_schedule == 3
    scheduler.update_from_output(first, results(first, num_tokens=1))
    scheduler.governor.set({"draft_length": 0})
    third = scheduler.schedule()
    assert third.scheduled_spec_decode_tokens == {"a": [-1, -1, -1]}
    scheduler.update_from_output(second, results(second, num_tokens=2))
    fourth = scheduler.schedule()
    assert fourth.scheduled_spec_decode_tokens == {}
    state = scheduler.governor.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (1, 2)
    assert state["accepted_per_position_total"] == [1, 0, 0, 0]
    assert state["policy_errors_total"] == 0


def test_a_request_that_joins_with_one_token_is_not_padded(vllm_config: Any) -> None:
    """vLLM pads such a request to the maximum length with -1; the governed one leaves it alone."""
    scheduler = make_scheduler(vllm_config, is_async=False)
    assert scheduler.dynamic_sd_lookup is not None
    assert set(scheduler.dynamic_sd_lookup) == {4}


@pytest.fixture
def config_of_a_gpu(vllm_config: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Full graphs under Model Runner V2, which a CPU has not, and a table that names 0, 1 and 3."""
    from paceline.foundation.compatibility import length_table
    from paceline.runtime.engine.compat import captured_lengths

    monkeypatch.setattr(captured_lengths, "_decodes_in_full_graphs", lambda vllm_config: True)
    monkeypatch.setattr(
        vllm_config.speculative_config,
        "num_speculative_tokens_per_batch_size",
        length_table.render_length_table((0, 1, 3)),
    )
    return vllm_config


def test_only_lengths_with_graphs_are_scheduled(config_of_a_gpu: Any) -> None:
    """2 by configuration and 4 by an operator have none; the policy learns which do."""
    scheduler = make_scheduler(config_of_a_gpu, is_async=True)
    add_request(scheduler, "a")
    seen = []
    policy = scheduler.governor._controller._policy
    plan = policy.plan
    policy.plan = lambda load: (seen.append(load.allowed_lengths), plan(load))[1]
    assert scheduler.schedule().num_spec_tokens_to_schedule == 1
    scheduler.governor.set({"draft_length": 4})
    assert scheduler.schedule().num_spec_tokens_to_schedule == 3
    assert seen[:1] == [(0, 1, 3)]


def test_a_missing_table_is_given_in_the_log(
    config_of_a_gpu: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it only the maximum has full graphs, and every length is allowed."""
    config_of_a_gpu.speculative_config.num_speculative_tokens_per_batch_size = None
    scheduler = make_scheduler(config_of_a_gpu, is_async=True)
    assert scheduler.governor.state()["allowed_lengths"] is None
    text = '"num_speculative_tokens_per_batch_size": [[1, 1, 3], [2, 2, 1], [3, 3, 0]]'
    assert text in caplog.text


@pytest.mark.parametrize("is_schedule", [False, True], ids=["names", "schedule"])
def test_without_a_governor_a_list_of_names_chooses_no_length(
    config_of_a_gpu: Any, monkeypatch: pytest.MonkeyPatch, is_schedule: bool
) -> None:
    """vLLM then drafts its static length; a schedule that its author wants followed is left."""
    from paceline.runtime.engine.scheduler import governor_start

    if is_schedule:
        table = [[1, 8, 3], [9, 64, 0]]
        config_of_a_gpu.speculative_config.num_speculative_tokens_per_batch_size = table
    monkeypatch.setattr(governor_start, "unfit_for", lambda part, hooks: "planted")
    scheduler = make_scheduler(config_of_a_gpu, is_async=True)
    assert scheduler.governor is None
    assert (scheduler.dynamic_sd_lookup is None) == (not is_schedule)


def test_what_goes_beyond_the_plan_is_not_verified(vllm_config: Any) -> None:
    """Two of four tokens are left, whatever the drafter; a draft that is short enough stays."""
    from vllm.v1.outputs import DraftTokenIds

    scheduler = make_scheduler(vllm_config, is_async=False)
    add_request(scheduler, "a")
    add_request(scheduler, "b")
    output = scheduler.schedule()
    assert output.num_spec_tokens_to_schedule == 2
    scheduler.update_from_output(output, results(output, num_tokens=1))
    scheduler.update_draft_token_ids(DraftTokenIds(["a", "b"], [[0, 0, 0, 0], [5, 6]]))
    assert scheduler.requests["a"].spec_token_ids == [0, 0]
    assert scheduler.requests["b"].spec_token_ids == [5, 6]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [([""], ""), (["it is not there"], "it is not there")],
    ids=["patched", "not patched"],
)
def test_a_drafter_that_cannot_be_patched_is_masked_and_logged(
    answer: list[str], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    """For the draft model of Model Runner V2; serving continues with vLLM's own length."""
    from paceline.runtime.engine.compat.drafters import Drafting
    from paceline.runtime.engine.scheduler.governor_start import connect_drafter

    executor = SimpleNamespace(collective_rpc=lambda method: answer)
    control = connect_drafter(Drafting("draft_model", use_v2_model_runner=True), executor)
    assert control.mode == ("masked" if cause else "patched")
    assert (f"always drafts the maximum: {cause}" in caplog.text) == bool(cause)


def test_synthetic_acceptance_is_refused_without_a_governor_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the hooks are checked: this scheduler never serves synthetic acceptance."""
    from paceline.runtime.engine.scheduler import governor_start

    monkeypatch.setattr(governor_start, "unfit_for", lambda *_: "nothing fits")
    invented = SimpleNamespace(
        vllm_config=SimpleNamespace(
            speculative_config=SimpleNamespace(rejection_sample_method="synthetic"),
        ),
    )
    with pytest.raises(ValueError, match="allows only standard and block"):
        governor_start.start_governor(invented, PluginSettings(), None, {})


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_long_prompt_is_cut_while_an_answer_is_under_way(
    vllm_config: Any, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 ms a decode and 1 ms a prompt token, under 100 ms: about 65 tokens of 200 fit.

    The first chunk is half of that: a prompt token is taken for a tenth of a decode until one was
    measured beside it.
    """
    from paceline.runtime.engine.scheduler import step_clock

    monkeypatch.setitem(
        vllm_config.additional_config, "paceline", {"policy": "fixed", "max_pause_ms": 100}
    )
    monkeypatch.setattr(vllm_config.cache_config, "enable_prefix_caching", False)
    # Put back afterwards: the schedulers of all tests share the configuration.
    monkeypatch.setattr(vllm_config.scheduler_config, "long_prefill_token_threshold", 0)
    now = [0.0]
    monkeypatch.setattr(step_clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
    scheduler = make_scheduler(vllm_config, is_async=is_async)
    scheduler.governor.set({"draft_length": 0})
    header = scheduler.governor._recorder._header

    def step() -> dict[str, int]:
        output = scheduler.schedule()
        scheduled = dict(output.num_scheduled_tokens)
        now[0] += 0.020 + 0.001 * (sum(scheduled.values()) - len(scheduled))
        found = results(output, num_tokens=1)
        for i, name in enumerate(scheduled):
            request = scheduler.requests[name]
            if request.num_computed_tokens < request.num_prompt_tokens:
                found.sampled_token_ids[i] = []
        scheduler.update_from_output(output, found)
        return scheduled

    add_request(scheduler, "alone", num_prompt_tokens=200)
    assert step() == {"alone": 200}
    for _ in range(40):
        assert step() == {"alone": 1}
    add_request(scheduler, "long", num_prompt_tokens=200)
    steps = [step()]
    assert scheduler.scheduler_config.long_prefill_token_threshold > 0
    assert header().prefill_chunk_tokens is None  # a recording that begins now has vLLM's limit
    steps += [step() for _ in range(5)]
    assert [scheduled["alone"] for scheduled in steps] == [1] * 6
    chunks = [scheduled["long"] for scheduled in steps]
    assert sum(chunks) >= 200
    assert 25 <= chunks[0] <= 45
    assert all(chunk <= 80 for chunk in chunks)
