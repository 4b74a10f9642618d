"""The engine in simulated time: queue, prefill, cache, preemption."""

from __future__ import annotations

from paceline.mock_vllm.engine.engine import Engine, Sequence
from paceline.mock_vllm.engine.kv_cache import KvCache
from paceline.mock_vllm.model.answer import Piece, SamplingParams, Writing, expected_answer
from paceline.mock_vllm.settings import MockVllmSettings


class _Run:
    """An engine with time of its own, and what each sequence made when."""

    def __init__(self, **settings: object) -> None:
        defaults = {"tpot_ms": 10, "prefill_tokens_per_s": 1000, "max_model_len": 256}
        self.settings = MockVllmSettings(**(defaults | settings))  # type: ignore[arg-type]
        self.engine = Engine(self.settings)
        self.now_s = 0.0
        self.made: dict[str, list[tuple[float, Piece]]] = {}

    def submit(self, name: str, prompt: list[int], max_tokens: int, salt: str = "") -> Sequence:
        made = self.made.setdefault(name, [])
        writing = Writing(prompt, SamplingParams(max_tokens, ignore_eos=True), 0)
        sequence = Sequence(prompt, salt, writing, lambda piece: made.append((self.now_s, piece)))
        self.engine.submit(sequence, self.now_s)
        return sequence

    def until(self, end_s: float) -> None:
        while (due_s := self.engine.next_due_s()) is not None and due_s <= end_s:
            self.now_s = due_s
            self.engine.advance(due_s)
        self.now_s = end_s

    def times_s(self, name: str) -> list[float]:
        return [round(at_s, 6) for at_s, _ in self.made[name]]

    def ids(self, name: str) -> tuple[int, ...]:
        return tuple(token for _, piece in self.made[name] for token in piece.ids)


def test_prompts_are_read_one_after_another_and_tokens_follow_in_steps() -> None:
    run = _Run()
    run.submit("a", [1] * 20, 3)
    run.submit("b", [2] * 30, 2)
    run.until(9)
    assert run.times_s("a") == [0.02, 0.03, 0.04]
    assert run.times_s("b") == [0.05, 0.06]


def test_a_late_wake_up_delays_nothing_but_itself() -> None:
    run = _Run()
    run.submit("a", [1] * 20, 3)
    run.engine.advance(0.025)
    assert run.engine.next_due_s() == 0.03


def test_chunks_of_several_tokens_take_as_long_as_their_tokens() -> None:
    run = _Run(tokens_per_chunk=(1, 3))
    run.submit("a", [1] * 20, 8)
    run.until(9)
    assert run.times_s("a") == [0.02, 0.05, 0.06, 0.09]


def test_who_does_not_fit_waits_and_starts_when_another_ends() -> None:
    run = _Run(max_num_seqs=1)
    run.submit("a", [1] * 20, 3)
    run.submit("b", [2] * 10, 1)
    assert (run.engine.num_running, run.engine.num_waiting) == (1, 1)
    run.until(9)
    assert run.times_s("b") == [0.05]
    assert (run.engine.num_running, run.engine.num_waiting) == (0, 0)


def test_an_aborted_sequence_makes_no_more_and_makes_room() -> None:
    run = _Run(max_num_seqs=1)
    first = run.submit("a", [1] * 20, 100)
    queued = run.submit("b", [2] * 10, 1)
    run.submit("c", [3] * 10, 1)
    run.until(0.035)
    run.engine.abort(queued, run.now_s)
    run.engine.abort(first, run.now_s)
    run.engine.abort(first, run.now_s)
    run.until(9)
    assert (len(run.made["a"]), len(run.made["b"]), len(run.made["c"])) == (2, 0, 1)
    assert run.engine.finished_total == {"abort": 2, "length": 1}
    assert run.engine.cache.used_fraction == 0


def test_what_the_cache_holds_of_a_prompt_is_not_read_again() -> None:
    """Full blocks of 16 only, never the last token, and not under another salt."""
    run = _Run()
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


def test_an_answers_own_blocks_are_found_by_the_next_turn() -> None:
    run = _Run()
    run.submit("a", [1] * 16, 17)
    run.until(1)
    run.submit("b", [1] * 16 + list(run.ids("a")) + [2] * 10, 1)
    run.until(2)
    assert run.engine.cache.hit_tokens_total == 32


def test_running_sequences_share_the_blocks_of_a_common_prompt() -> None:
    cache = KvCache(num_blocks=10)
    held = [cache.begin([5] * 65, "") for _ in range(3)]
    assert None not in held
    assert cache.used_fraction == (4 + 3) / 10
    for holding in held:
        assert holding is not None
        cache.end(holding, [5] * 65, "")
    assert cache.used_fraction == 0


def test_the_longest_unused_blocks_give_way() -> None:
    cache = KvCache(num_blocks=8)
    for value in (1, 2, 3):  # two full blocks each, and one in the making
        holding = cache.begin([value] * 32, "")
        assert holding is not None
        cache.end(holding, [value] * 32, "")
    assert cache.begin([4] * 60, "") is not None  # 4 blocks: only 4 of the 6 kept stay
    hits_before = cache.hit_tokens_total
    assert cache.begin([3] * 33, "") is not None
    assert cache.hit_tokens_total - hits_before == 32
    assert cache.begin([1] * 33, "") is None


def test_the_last_to_start_gives_way_and_goes_on_with_the_same_tokens() -> None:
    run = _Run(num_kv_blocks=17, max_model_len=256, max_num_seqs=2)
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


def test_a_held_sequence_keeps_its_place_and_goes_on_later() -> None:
    run = _Run()
    sequence = run.submit("a", [1] * 20, 4)
    run.until(0.035)
    run.engine.hold(sequence)
    run.until(5)
    assert len(run.made["a"]) == 2
    assert run.engine.num_running == 1
    run.engine.release(sequence, 5)
    run.until(9)
    assert run.times_s("a")[2:] == [5.01, 5.02]
