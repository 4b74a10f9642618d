"""The engine with scripted speculation, in virtual time."""

from __future__ import annotations

import pytest

from paceline.testing.mock_vllm.engine.engine import Engine, Sequence
from paceline.testing.mock_vllm.engine.metrics import EngineMetrics
from paceline.testing.mock_vllm.model.answer import AnswerDelta, AnswerGenerator, SamplingParams
from paceline.testing.mock_vllm.model.speculation import DraftVerdicts, Speculation
from paceline.testing.mock_vllm.settings import MockVllmSettings


class DraftingRun:
    """An engine in virtual time: 10 ms a step, 1 ms a draft token, 0.5 ms a draft token and running
    sequence. Drafts have two tokens."""

    def __init__(self) -> None:
        speculation = Speculation(2, (0.5, 0.5))
        self.engine = Engine(
            MockVllmSettings(
                tpot_ms=10,
                draft_ms=1,
                verify_ms=0.5,
                prefill_tokens_per_s=1000,
                speculation=speculation,
            )
        )
        self.now_s = 0.0

    def submit(self, max_tokens: int, rate: float) -> list[tuple[float, int]]:
        """The (time in ms, number of tokens) of each chunk, filled in as the engine runs.

        `rate` is the chance that both drafts are accepted: 0 or 1.
        """
        chunks: list[tuple[float, int]] = []

        def take(delta: AnswerDelta) -> None:
            chunks.append((round(1e3 * self.now_s, 3), len(delta.ids)))

        prompt = [1] * 20
        generator = AnswerGenerator(prompt, SamplingParams(max_tokens, ignore_eos=True), 0)
        verdicts = DraftVerdicts((rate, rate), "seed")
        self.engine.submit(Sequence(prompt, "", generator, take, verdicts), 0.0)
        return chunks

    def finish(self) -> None:
        while (due_s := self.engine.next_due_s()) is not None:
            self.now_s = due_s
            self.engine.advance(due_s)


def test_a_step_yields_its_accepted_drafts_and_one_token_more() -> None:
    """20 ms of prefill; then steps of 10 + 2 * (1 + 0.5) = 13 ms with three tokens each."""
    run = DraftingRun()
    chunks = run.submit(9, rate=1.0)
    run.finish()
    assert chunks == [(20, 1), (33, 3), (46, 3), (59, 2)]


def test_rejected_drafts_take_their_time_too() -> None:
    run = DraftingRun()
    chunks = run.submit(3, rate=0.0)
    run.finish()
    assert chunks == [(20, 1), (33, 1), (46, 1)]


def test_every_running_sequence_adds_to_the_time_of_a_draft() -> None:
    """With two running, a step takes 10 + 2 * (1 + 2 * 0.5) = 14 ms.

    Of the second prompt a block of 16 tokens is cached: 4 ms of prefill after the first.
    """
    run = DraftingRun()
    first, second = run.submit(3, rate=0.0), run.submit(2, rate=0.0)
    run.finish()
    assert first == [(20, 1), (34, 1), (48, 1)]
    assert second == [(24, 1), (38, 1)]


def test_drafts_are_counted_as_vllm_counts_them() -> None:
    """Three steps of two accepted drafts, the last one cut off by max_tokens."""
    run = DraftingRun()
    run.submit(9, rate=1.0)
    run.finish()
    page = EngineMetrics(run.engine, "m", speculates=True).render().decode()
    labels = 'engine="0",model_name="m"'
    assert f"vllm:spec_decode_num_drafts_total{{{labels}}} 3.0" in page
    assert f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} 6.0" in page
    assert f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} 6.0" in page
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    assert f'{name}{{{labels},position="0"}} 3.0' in page
    assert f'{name}{{{labels},position="1"}} 3.0' in page


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draft_ms": 1.0}, "give speculative_config too"),
        ({"verify_ms": -1.0}, "verify_ms must not be negative"),
        (
            {"speculation": Speculation(1, (0.5,)), "tokens_per_chunk": (1, 2)},
            "tokens_per_chunk and speculative_config exclude each other",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MockVllmSettings(**settings)  # type: ignore[arg-type]
