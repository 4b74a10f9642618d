"""Answers of every kind are judged by what an engine computes for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from chaos.attempt_log import FailedAttempt
from chaos.real_engines.answer_checks import AnswerChecks, Checked
from chaos.real_engines.bundled import bundled_tokenizer
from chaos.real_engines.request_kinds import FAST_KINDS, TOP_K, Check
from chaos.real_engines.run_report import LoadRequest, Prompt
from chaos.transcript import Transcript

TOKENIZER = bundled_tokenizer()
BY_NAME = {kind.name: kind for kind in FAST_KINDS}
TEXT, OTHER_TEXT = "def add(a, b):\n    return a + b", "def add(a, b):\n    return b + a"
END_ID, MAX_TOKENS = 2, 96
CUT = FailedAttempt("engine-0", "broken", "reset", "continue_elsewhere", "replica_failed")
PROMPT_IDS = [11, 12]
BEST = {f"best {number}": -0.1 for number in range(TOP_K)}


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


def answer(text: str) -> Transcript:
    return Transcript(
        "load-1", 200, text, [*ids_of(text), END_ID], PROMPT_IDS, ["stop"], is_done=True
    )


REFERENCE = answer(TEXT)
FIRST_OTHER = next(
    i for i, (a, b) in enumerate(zip(REFERENCE.ids, ids_of(OTHER_TEXT), strict=False)) if a != b
)


class Engine:
    """Every token is one of the best at its position, apart from those in `gaps_nats`."""

    def __init__(self) -> None:
        self.gaps_nats: dict[int, float] = {}
        """How much less probable a token is than the best one, wherever it occurs."""
        self.num_asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.num_asked += 1
        body = await request.json()
        if body["model"] != "model":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        prompt = body["prompt"]
        assert body["echo"]
        assert body["logprobs"] == 20
        as_ids = body["return_tokens_as_token_ids"]
        names = [f"token_id:{i}" if as_ids else TOKENIZER.decode([i]) for i in prompt]
        tops = [
            {**BEST, name: -0.1 - self.gaps_nats.get(token, 0.0)}
            for name, token in zip(names, prompt, strict=True)
        ]
        logprobs = {"tokens": [*names, "next"], "top_logprobs": [None, *tops[1:], {}]}
        return web.json_response({"choices": [{"logprobs": logprobs}]})


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
async def url(engine: Engine) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/completions", engine.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def request(name: str, received: Transcript, *failed: FailedAttempt) -> LoadRequest:
    kind = BY_NAME[name]
    if not kind.has_ids:
        received = replace(received, ids=[], prompt_ids=[])
    prompt = Prompt("question", {kind.reference: REFERENCE})
    return LoadRequest(kind, prompt, MAX_TOKENS, received, failed)


async def check(url: str, *requests: LoadRequest, model: str = "model") -> Checked:
    return await AnswerChecks(url, model, [END_ID], 0.25, TOKENIZER).check(requests)


@pytest.mark.parametrize("name", [n for n, kind in BY_NAME.items() if kind.check is Check.GREEDY])
@pytest.mark.parametrize(("gap_nats", "is_right"), [(0.1, True), (0.2, True), (3.0, False)])
async def test_another_token_must_be_nearly_as_probable(
    engine: Engine, url: str, name: str, gap_nats: float, is_right: bool
) -> None:
    engine.gaps_nats[ids_of(OTHER_TEXT)[FIRST_OTHER]] = gap_nats
    checked = await check(url, request(name, answer(OTHER_TEXT)))
    assert len(checked.differences) == 1
    assert (checked.faults == []) == is_right
    assert checked.num_compared == 1


@pytest.mark.parametrize(
    ("end", "gap_nats", "is_right"),
    [
        ('["red","blue","whi', 0.1, True),
        ('["red","blue","whi', 3.0, False),
        ('["red",blue","whi', 0.1, False),
        ('["red","black","whi', 0.1, False),
    ],
)
async def test_another_token_must_be_one_that_the_grammar_allows(
    engine: Engine, url: str, end: str, gap_nats: float, is_right: bool
) -> None:
    kind = BY_NAME["JSON schema"]
    reference, other = (
        replace(answer('{"colours":' + text), finish_reasons=["length"])
        for text in ('["red","green","whi', end)
    )
    at = next(i for i, (a, b) in enumerate(zip(reference.ids, other.ids, strict=False)) if a != b)
    engine.gaps_nats[other.ids[at]] = gap_nats
    prompt = Prompt("question", {kind.name: reference})
    checked = await check(url, LoadRequest(kind, prompt, MAX_TOKENS, other))
    assert len(checked.differences) == 1
    assert (checked.faults == []) == is_right


async def test_the_same_answer_needs_no_engine(engine: Engine, url: str) -> None:
    checked = await check(url, *(request(name, REFERENCE) for name in ("chat", "responses")))
    assert (checked.num_compared, checked.differences, engine.num_asked) == (2, [], 0)


async def test_a_stream_that_ended_with_an_error_must_begin_as_its_reference(url: str) -> None:
    def cut_off(text: str) -> Transcript:
        return replace(answer(text), finish_reasons=[], is_done=False, error={"message": "broken"})

    right, wrong = cut_off(TEXT[:8]), cut_off(TEXT[:8] + TEXT[7:12])
    assert (await check(url, request("responses", right, CUT))).differences == []
    (difference,) = (await check(url, request("responses", wrong, CUT))).differences
    assert difference["at"] == 8


@pytest.mark.parametrize(("gap_nats", "is_right"), [(0.1, True), (3.0, False)])
async def test_sampled_tokens_must_be_among_the_most_probable(
    engine: Engine, url: str, gap_nats: float, is_right: bool
) -> None:
    engine.gaps_nats[REFERENCE.ids[4]] = gap_nats
    checked = await check(url, request("chat, sampled", REFERENCE, CUT))
    assert checked.num_sampled_judged == 1
    assert (checked.faults == []) == is_right


async def test_one_in_twenty_sampled_answers_is_the_control(engine: Engine, url: str) -> None:
    checked = await check(url, *[request("chat, sampled", REFERENCE)] * 40)
    assert checked.num_sampled_judged == engine.num_asked == 2


async def test_an_engine_that_refuses_ends_the_check(url: str) -> None:
    with pytest.raises(RuntimeError, match="no such model"):
        await check(url, request("chat", answer(OTHER_TEXT)), model="other")
