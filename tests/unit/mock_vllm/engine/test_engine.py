"""The engine in virtual time: queue, prefill, cache, preemption."""

from __future__ import annotations

from paceline.testing.mock_vllm.engine.engine import Engine, Sequence
from paceline.testing.mock_vllm.model.answer import (
    AnswerDelta,
    AnswerGenerator,
    SamplingParams,
    expected_answer,
)
from paceline.testing.mock_vllm.model.speculation import DraftVerdicts, Speculation
from paceline.testing.mock_vllm.settings import MockVllmSettings


class _VirtualRun:
    """Runs an engine in virtual time and records when each sequence generated which tokens."""

    def __init__(self, **settings: object) -> None:
        defaults = {"tpot_ms": 10, "prefill_tokens_per_s": 1000, "max_model_len": 256}
        self.settings = MockVllmSettings(**(defaults | settings))  # type: ignore[arg-type]
        self.engine = Engine(self.settings)
        self.now_s = 0.0
        self.deltas: dict[str, list[tuple[float, AnswerDelta]]] = {}

    def submit(self, name: str, prompt: list[int], max_tokens: int, salt: str = "") -> Sequence:
        deltas = self.deltas.setdefault(name, [])
        generator = AnswerGenerator(prompt, SamplingParams(max_tokens, ignore_eos=True), 0)
        sequence = Sequence(
            prompt, salt, generator, lambda delta: deltas.append((self.now_s, delta))
        )
        self.engine.submit(sequence, self.now_s)
        return sequence

    def until(self, end_s: float) -> None:
        while (due_s := self.engine.next_due_s()) is not None and due_s <= end_s:
            self.now_s = due_s
            self.engine.advance(due_s)
        self.now_s = end_s

    def times_s(self, name: str) -> list[float]:
        return [round(at_s, 6) for at_s, _ in self.deltas[name]]

    def ids(self, name: str) -> tuple[int, ...]:
        return tuple(token for _, delta in self.deltas[name] for token in delta.ids)


def test_prompts_are_prefilled_one_after_another_and_tokens_follow_in_steps() -> None:
    run = _VirtualRun()
    run.submit("a", [1] * 20, 3)
    run.submit("b", [2] * 30, 2)
    run.until(9)
    assert run.times_s("a") == [0.02, 0.03, 0.04]
    assert run.times_s("b") == [0.05, 0.06]


def test_a_late_step_does_not_delay_the_next_one() -> None:
    run = _VirtualRun()
    run.submit("a", [1] * 20, 3)
    run.engine.advance(0.025)
    assert run.engine.next_due_s() == 0.03


def test_a_chunk_of_several_tokens_takes_the_time_of_its_tokens() -> None:
    run = _VirtualRun(tokens_per_chunk=(1, 3))
    run.submit("a", [1] * 20, 8)
    run.until(9)
    assert run.times_s("a") == [0.02, 0.05, 0.06, 0.09]


def test_a_sequence_beyond_the_limit_waits_until_another_ends() -> None:
    run = _VirtualRun(max_num_seqs=1)
    run.submit("a", [1] * 20, 3)
    run.submit("b", [2] * 10, 1)
    assert (run.engine.num_running, run.engine.num_waiting) == (1, 1)
    run.until(9)
    assert run.times_s("b") == [0.05]
    assert (run.engine.num_running, run.engine.num_waiting) == (0, 0)


def test_an_aborted_sequence_generates_no_more_tokens_and_frees_its_slot() -> None:
    run = _VirtualRun(max_num_seqs=1)
    first = run.submit("a", [1] * 20, 100)
    queued = run.submit("b", [2] * 10, 1)
    run.submit("c", [3] * 10, 1)
    run.until(0.035)
    run.engine.abort(queued, run.now_s)
    run.engine.abort(first, run.now_s)
    run.engine.abort(first, run.now_s)
    run.until(9)
    assert (len(run.deltas["a"]), len(run.deltas["b"]), len(run.deltas["c"])) == (2, 0, 1)
    assert run.engine.finished_total == {"abort": 2, "length": 1}
    assert run.engine.cache.used_fraction == 0


def test_cached_blocks_of_a_prompt_are_not_prefilled_again() -> None:
    """Only full blocks of 16 count, never the last token, and only under the same salt."""
    run = _VirtualRun()
    prompt = list(range(64))
    for name, salt in (("a", ""), ("b", ""), ("c", "s"), ("d", "s")):
        run.submit(name, prompt, 1, salt)
        run.until(run.now_s + 1)
    assert run.times_s("a") == [0.064]
    assert run.times_s("b") == [1.016]  # three blocks cached, 16 tokens left
    assert run.times_s("c") == [2.064]
    assert run.times_s("d") == [3.016]
    assert run.engine.cache.queried_tokens_total == 4 * 64
    assert run.engine.cache.hit_tokens_total == 2 * 48


def test_the_blocks_of_an_answer_are_cached_for_the_next_turn() -> None:
    run = _VirtualRun()
    run.submit("a", [1] * 16, 17)
    run.until(1)
    run.submit("b", [1] * 16 + list(run.ids("a")) + [2] * 10, 1)
    run.until(2)
    assert run.engine.cache.hit_tokens_total == 32


def test_the_last_started_sequence_is_preempted_and_continues_with_the_same_tokens() -> None:
    run = _VirtualRun(num_kv_blocks=17, max_model_len=256, max_num_seqs=2)
    run.submit("a", [1] * 100, 100)
    run.submit("b", [2] * 100, 100)
    run.until(0.3)
    run.submit("c", [3] * 10, 1)
    assert run.engine.num_running == 2
    run.until(1)
    assert run.engine.preemptions_total >= 1
    assert (run.engine.num_running, run.engine.num_waiting) == (1, 2)
    run.until(60)
    assert min(at_s for at_s in run.times_s("b") if at_s > 1) < run.times_s("c")[0]
    for name, value in (("a", 1), ("b", 2)):
        expected = expected_answer([value] * 100, 100, ignore_eos=True, eos_every_tokens=0)
        assert run.ids(name) == expected.ids
    assert run.times_s("a")[-1] < run.times_s("b")[-1]
    assert run.engine.cache.used_fraction == 0
    assert run.engine.prompt_tokens_total == 210


def test_a_held_sequence_keeps_its_slot_and_continues_when_released() -> None:
    run = _VirtualRun()
    sequence = run.submit("a", [1] * 20, 4)
    run.until(0.035)
    run.engine.hold(sequence)
    run.until(5)
    assert len(run.deltas["a"]) == 2
    assert run.engine.num_running == 1
    run.engine.release(sequence, 5)
    run.until(9)
    assert run.times_s("a")[2:] == [5.01, 5.02]


def test_every_other_running_sequence_adds_to_the_time_per_token() -> None:
    run = _VirtualRun(tpot_per_sequence_ms=5, prefill_tokens_per_s=1e6)
    run.submit("a", [1] * 16, 5)
    run.until(0.025)
    run.submit("b", [2] * 16, 2)
    run.until(9)
    # The token at 20 ms was sent while "a" ran alone, so the next one is due 10 ms later.
    assert run.times_s("a") == [0.000016, 0.010016, 0.020016, 0.030016, 0.045016]
    assert run.times_s("b") == [0.025016, 0.040016]


def test_the_draft_length_of_further_steps_can_be_changed() -> None:
    """All drafts are accepted: a step has 3 tokens in 10 + 2 ms, later 1 token in 10 ms."""
    run = _VirtualRun(speculation=Speculation(2, (1.0, 1.0)), draft_ms=1, prefill_tokens_per_s=1e6)
    sequence = run.submit("a", [1] * 16, 6)
    sequence.verdicts = DraftVerdicts((1.0, 1.0), "seed")
    run.until(0.013)
    run.engine.draft_length = 0
    run.until(9)
    assert run.times_s("a") == [0.000016, 0.012016, 0.024016, 0.034016]
    assert [len(delta.ids) for _, delta in run.deltas["a"]] == [1, 3, 1, 1]
