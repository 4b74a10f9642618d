"""AdaptiveScheduler inside the real vLLM engine, with the bundled pair."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from losslessness.checks import teacher_force
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from paceline.demo import draft_path, target_path
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

pytestmark = pytest.mark.engine

DRAFT_MODEL = {"method": "draft_model", "model": str(draft_path()), "num_speculative_tokens": 8}
NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 8,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
}
GREEDY = {"temperature": 0.0, "max_tokens": 32, "ignore_eos": True}


def llm(speculative: dict[str, Any] | None, **arguments: Any) -> dict[str, Any]:
    return {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 16,
        "speculative_config": speculative,
        **arguments,
    }


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineHost]:
    """One engine with the draft model; every test sets the policy it needs."""
    with EngineHost(llm(DRAFT_MODEL), policy={"policy": "fixed", "draft_length": 3}) as host:
        yield host


@pytest.fixture(scope="module")
def prompts(engine: EngineHost) -> list[list[int]]:
    return engine.tokenize(stdlib_prompts(24))


def drafts_of(engine: EngineHost, prompts: list[list[int]], **sampling: Any) -> tuple[int, int]:
    """Drafts and draft tokens that vLLM counts while it generates for the prompts."""
    before = engine.metrics()
    engine.generate(prompts, **GREEDY, **sampling)
    after = engine.metrics()
    return tuple(
        after[f"vllm:spec_decode_num_{name}"] - before[f"vllm:spec_decode_num_{name}"]
        for name in ("drafts", "draft_tokens")
    )


def set_to(engine: EngineHost, **command: Any) -> None:
    answer = engine.control(op="set", **command)
    assert answer["ok"], answer


def test_the_configured_length_is_drafted(engine: EngineHost, prompts: list[list[int]]) -> None:
    """Fixed at 3 by additional_config: three tokens per draft, by vLLM's counters."""
    set_to(engine, draft_length=3)
    num_drafts, num_tokens = drafts_of(engine, prompts[:4])
    assert num_drafts > 0
    assert num_tokens == 3 * num_drafts


@pytest.mark.parametrize("length", [0, 3, 8, 1])
def test_the_length_changes_at_run_time(
    engine: EngineHost, prompts: list[list[int]], length: int
) -> None:
    """No restart; 0 turns drafting off."""
    set_to(engine, draft_length=length)
    engine.generate(prompts[:1], temperature=0.0, max_tokens=2)  # drafts of the length before
    num_drafts, num_tokens = drafts_of(engine, prompts[:4])
    assert (num_drafts > 0) == (length > 0)
    assert num_tokens == length * num_drafts
    assert engine.state()["draft_length"] == length


def test_the_channel_answers_while_the_engine_is_idle(engine: EngineHost) -> None:
    """A change without running requests is visible at once."""
    set_to(engine, ceiling=5)
    assert engine.state()["ceiling"] == 5
    set_to(engine, ceiling=8)


def test_a_wrong_command_is_refused_by_a_running_engine(engine: EngineHost) -> None:
    """The message says what is allowed, and the engine keeps serving."""
    answer = engine.control(op="set", draft_length=9)
    assert answer["ok"] is False
    assert "it must be a whole number from 0 (off) to 8" in answer["error"]


def test_the_governors_counts_equal_vllms(engine: EngineHost, prompts: list[list[int]]) -> None:
    """After a stretch under goodput, every total agrees with vllm:spec_decode_*."""
    set_to(engine, policy="goodput")
    engine.generate(prompts[:8], temperature=0.0, max_tokens=40)
    engine.generate(prompts[:4], temperature=1.0, max_tokens=20)
    metrics, state = engine.metrics(), engine.state()
    assert state["num_drafts_total"] == metrics["vllm:spec_decode_num_drafts"]
    assert state["drafted_tokens_total"] == metrics["vllm:spec_decode_num_draft_tokens"]
    assert state["accepted_tokens_total"] == metrics["vllm:spec_decode_num_accepted_tokens"]
    assert (
        state["accepted_per_position_total"]
        == metrics["vllm:spec_decode_num_accepted_tokens_per_pos"]
    )
    assert state["policy"] == "goodput"
    assert state["safe_plan"] is False
    assert state["policy_errors_total"] == 0
    assert state["goodput_tokens_per_s"] > 0
    assert state["sampled_speculation"] == "on"
    assert set(state["seams"].values()) == {"ok"}


@pytest.mark.parametrize("policy", ["goodput", "latency", "threshold", "off"])
def test_every_policy_runs(engine: EngineHost, prompts: list[list[int]], policy: str) -> None:
    """Its output is complete, and its state gives a reason for the plan."""
    set_to(engine, policy=policy)
    answers = engine.generate(prompts[:4], **GREEDY)
    assert [len(answer["token_ids"]) for answer in answers] == [32] * 4
    assert engine.state()["reason"]
    assert engine.state()["safe_plan_steps_total"] == 0


SAMPLING_PARAMETERS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0, "top_k": 20},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.0, "seed": 7},
    {"temperature": 1.0, "frequency_penalty": 0.5, "presence_penalty": 0.5},
    {"temperature": 0.0, "repetition_penalty": 1.2},
    {"temperature": 1.0, "logprobs": 3},
    {"temperature": 1.0, "bad_words": ["def"]},
    {"temperature": 1.0, "min_tokens": 8},
    {"temperature": 1.0, "allowed_token_ids": list(range(300, 400))},
]


@pytest.mark.parametrize("length", [0, 3])
def test_every_kind_of_sampling_works_alone_and_in_one_batch(
    engine: EngineHost, prompts: list[list[int]], length: int
) -> None:
    """With and without drafts: some paths of vLLM's sampler run only without draft tokens."""
    set_to(engine, draft_length=length)
    for parameters in SAMPLING_PARAMETERS:
        alone = engine.generate(prompts[:1], max_tokens=12, ignore_eos=True, **parameters)
        assert len(alone[0]["token_ids"]) == 12, parameters
    together = engine.generate(
        prompts[: len(SAMPLING_PARAMETERS)],
        each=SAMPLING_PARAMETERS,
        max_tokens=12,
        ignore_eos=True,
    )
    assert [len(answer["token_ids"]) for answer in together] == [12] * len(SAMPLING_PARAMETERS)


def test_min_p_and_logit_bias_are_served_without_drafts(
    engine: EngineHost, prompts: list[list[int]]
) -> None:
    """Beside greedy requests that are drafted for, and alone, where nothing is drafted.

    With `min_p` 1 only the most probable token is left, at any temperature; a bias of 100 leaves
    no other token.
    """
    set_to(engine, draft_length=3)
    each = [{"min_p": 1.0, "temperature": 2.0}] * 4 + [{"logit_bias": {300: 100.0}}] * 2
    for others in (6, 0):
        before = engine.metrics()["vllm:spec_decode_num_draft_tokens"]
        outputs = [
            answer["token_ids"]
            for answer in engine.generate(
                prompts[: 6 + others],
                each=[{**GREEDY, **one} for one in [*each, *({} for _ in range(others))]],
            )
        ]
        drafted = engine.metrics()["vllm:spec_decode_num_draft_tokens"] - before
        assert (drafted > 0) == (others > 0)
        tie = NEAR_TIE_NATS["float32"]
        verdicts = teacher_force(engine, prompts[:4], outputs[:4], near_tie_nats=tie)
        assert [verdict.wrong for verdict in verdicts] == [()] * 4
        assert outputs[4:6] == [[300] * 32] * 2


def test_logprob_token_ids_are_refused_under_speculation(
    engine: EngineHost, prompts: list[list[int]]
) -> None:
    """vLLM accepts them and does not return them; beside `logprobs`, they end its engine."""
    with pytest.raises(RuntimeError, match="logprob_token_ids cannot be used with speculative"):
        engine.generate(prompts[:1], logprob_token_ids=[5, 6], **GREEDY)
    assert engine.generate(prompts[:1], **GREEDY)


def test_greedy_output_is_the_targets_while_the_length_keeps_changing(
    engine: EngineHost, prompts: list[list[int]]
) -> None:
    """24 prompts under load; the length changes every few milliseconds.

    Every token is the target's argmax by teacher forcing, or a near-tie of its logits. The same
    holds for the output without drafts, and the two outputs differ only after a near-tie.
    """
    set_to(engine, draft_length=0)
    plain = [answer["token_ids"] for answer in engine.generate(prompts, **GREEDY)]
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(engine.generate, prompts, **GREEDY)
        turn = 0
        while not running.done():
            set_to(engine, draft_length=(0, 3, 8, 1, 5)[turn % 5])
            turn += 1
            # sleep: the length changes during the run; after which steps decides nothing
            time.sleep(0.003)
        governed = [answer["token_ids"] for answer in running.result()]
    assert turn > 5
    tie = NEAR_TIE_NATS["float32"]
    for outputs in (plain, governed):
        verdicts = teacher_force(engine, prompts, outputs, near_tie_nats=tie)
        assert [verdict.wrong for verdict in verdicts] == [()] * len(prompts)
        parted = [bool(verdict.near_ties) for verdict in verdicts]
        same = [a == b for a, b in zip(plain, governed, strict=True)]
        assert all(s or p for s, p in zip(same, parted, strict=True)) or outputs is plain


def capped(cap: int) -> dict[str, Any]:
    return {"extra_args": {"paceline": {"max_draft_length": cap}}}


def test_requests_cap_their_drafts_beside_others_and_get_the_same_text(
    engine: EngineHost, prompts: list[list[int]]
) -> None:
    """At length 3: caps of 0 and 1 alone, then 0, 1 and none in one batch.

    Every token of the batch is the target's own, as without drafts.
    """
    set_to(engine, draft_length=3)
    assert drafts_of(engine, prompts[:4], **capped(0)) == (0, 0)
    num_drafts, num_tokens = drafts_of(engine, prompts[:4], **capped(1))
    assert num_tokens == num_drafts > 0
    caps = [capped(0), capped(1), {}]
    mixed = engine.generate(prompts[:12], each=[caps[i % 3] for i in range(12)], **GREEDY)
    outputs = [answer["token_ids"] for answer in mixed]
    tie = NEAR_TIE_NATS["float32"]
    verdicts = teacher_force(engine, prompts[:12], outputs, near_tie_nats=tie)
    assert [verdict.wrong for verdict in verdicts] == [()] * 12
    assert engine.state()["policy_errors_total"] == 0


def test_without_drafts_a_seed_gives_the_same_answer_beside_any_others(
    engine: EngineHost, prompts: list[list[int]]
) -> None:
    """A cap of 0 is what `reproducible_seeds` sets. The others draft 0, 3 and 8 tokens.

    Without the cap the length changes the answer, because verification uses up random numbers.
    """
    seeded = {"temperature": 1.0, "seed": 7}

    def answer(length: int, num_others: int, **own: Any) -> list[int]:
        set_to(engine, draft_length=length)
        each = [seeded | own] + [{"temperature": 0.8}] * num_others
        answers = engine.generate(
            prompts[: 1 + num_others], each=each, max_tokens=24, ignore_eos=True
        )
        ids: list[int] = answers[0]["token_ids"]
        return ids

    runs = [answer(length, others, **capped(0)) for length, others in ((0, 0), (3, 5), (8, 11))]
    assert runs[0] == runs[1] == runs[2]
    assert answer(3, 5) != runs[0]


def test_ngram_drafts_follow_the_length() -> None:
    """At most the planned length, nothing at 0, something on text that repeats itself."""
    with EngineHost(llm(NGRAM), policy={"policy": "fixed", "draft_length": 2}) as host:
        [prompt] = host.tokenize(["def add(first, second):\n    return first + second\n\n" * 4])
        num_drafts, num_tokens = drafts_of(host, [prompt] * 4)
        assert num_drafts > 0
        assert num_tokens <= 2 * num_drafts
        set_to(host, draft_length=0)
        assert drafts_of(host, [prompt] * 4) == (0, 0)
        set_to(host, policy="goodput")
        num_drafts, num_tokens = drafts_of(host, [prompt] * 4)
        assert num_tokens <= 8 * num_drafts
        assert host.state()["policy_errors_total"] == 0


def test_a_hook_that_does_not_fit_leaves_stock_behaviour() -> None:
    """The register expects what this vLLM does not have: vLLM's own length, an error in the log."""
    with EngineHost(
        llm(DRAFT_MODEL),
        policy={"policy": "fixed", "draft_length": 2},
        fault="losslessness.faults:break_hook",
    ) as host:
        num_drafts, num_tokens = drafts_of(host, host.tokenize(["import os\n"]))
        assert num_tokens == 8 * num_drafts
        assert "Governor: off, because this vLLM does not fit its hooks" in host.log()
        with pytest.raises(OSError, match="No such file"):
            host.state()


def test_a_failing_policy_never_stops_serving() -> None:
    """Every tenth plan and observation raises: the output is complete, the steps are counted."""
    with EngineHost(
        llm(DRAFT_MODEL),
        policy={"policy": "fixed", "draft_length": 1},
        fault="losslessness.faults:break_policy",
    ) as host:
        answers = host.generate(host.tokenize(["import os\n"] * 4), **GREEDY | {"max_tokens": 96})
        state = host.state()
        log = host.log()
    assert [len(answer["token_ids"]) for answer in answers] == [96] * 4
    assert state["safe_plan_steps_total"] == state["steps_total"] // 10
    assert state["policy_errors_total"] >= state["safe_plan_steps_total"] > 0
    assert log.count("Governor: ZeroDivisionError in plan") == 1
    assert log.count("Governor: ZeroDivisionError in observe") == 1


def test_vllms_own_scheduler_still_refuses_min_p_and_logit_bias() -> None:
    """It would schedule drafts for them."""
    with EngineHost(llm(NGRAM)) as engine:
        for one in ({"min_p": 0.5}, {"logit_bias": {5: 1.0}}):
            with pytest.raises(RuntimeError, match="not yet supported with speculative decoding"):
                # With temperature 0 vLLM drops min_p.
                engine.generate([[5, 6, 7]], temperature=1.0, max_tokens=4, **one)


def test_without_speculation_the_scheduler_is_vllms() -> None:
    """No --speculative-config: it generates, and logs that the governor is off."""
    with EngineHost(llm(None), policy={"policy": "goodput"}) as host:
        assert len(host.generate(["import os\n"], **GREEDY)[0]["token_ids"]) == 32
        assert "off, because there is no --speculative-config" in host.log()


def test_wrong_settings_keep_the_engine_from_starting() -> None:
    """The error of the start names the wrong key and the allowed ones."""
    with pytest.raises(RuntimeError, match="unknown key 'polcy'; allowed keys: policy"):
        EngineHost(llm(DRAFT_MODEL), policy={"polcy": "off"})
