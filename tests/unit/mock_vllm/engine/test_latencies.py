"""The latency histograms of the mock engine, in virtual time."""

from __future__ import annotations

from paceline.testing.mock_vllm.engine.engine import Engine, Sequence
from paceline.testing.mock_vllm.engine.metrics import EngineMetrics
from paceline.testing.mock_vllm.model.answer import AnswerGenerator, SamplingParams
from paceline.testing.mock_vllm.settings import MockVllmSettings

_LABELS = 'engine="0",model_name="m"'


def _page(max_num_seqs: int) -> list[str]:
    """Two requests at 0 s: 20 prompt tokens at 1000 per s, then three tokens, 30 ms apart."""
    settings = MockVllmSettings(tpot_ms=30, prefill_tokens_per_s=1000, max_num_seqs=max_num_seqs)
    engine = Engine(settings)
    for first in (1, 2):
        prompt = [first] * 20
        generator = AnswerGenerator(prompt, SamplingParams(3, ignore_eos=True), 0)
        engine.submit(Sequence(prompt, "", generator, lambda delta: None), 0.0)
    while (due_s := engine.next_due_s()) is not None:
        engine.advance(due_s)
    return EngineMetrics(engine, "m").render().decode().splitlines()


def _value(page: list[str], name: str, labels: str = _LABELS) -> float:
    (line,) = (line for line in page if line.startswith(f"vllm:{name}{{{labels}}} "))
    return round(float(line.rpartition(" ")[2]), 9)


def test_first_tokens_and_steps_are_timed() -> None:
    """First tokens after 20 and 40 ms, and four steps of 30 ms."""
    page = _page(max_num_seqs=2)
    assert _value(page, "time_to_first_token_seconds_sum") == 0.06
    assert _value(page, "time_to_first_token_seconds_count") == 2
    assert _value(page, "inter_token_latency_seconds_sum") == 0.12
    labels = f'engine="0",le="{0.025}",model_name="m"'
    assert _value(page, "inter_token_latency_seconds_bucket", labels) == 0
    labels = f'engine="0",le="{0.05}",model_name="m"'
    assert _value(page, "inter_token_latency_seconds_bucket", labels) == 4


def test_the_time_in_the_queue_ends_when_the_prefill_begins() -> None:
    """With one slot the second request waits for the 20 + 2 * 30 ms of the first."""
    assert _value(_page(max_num_seqs=1), "request_queue_time_seconds_sum") == 0.08
    assert _value(_page(max_num_seqs=2), "request_queue_time_seconds_sum") == 0
