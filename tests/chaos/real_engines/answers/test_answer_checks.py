"""Answers of every kind are judged by what an engine computes for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web

from chaos.attempt_log import FailedAttempt
from chaos.real_engines.answers.answer_checks import AnswerChecks, Checked
from chaos.real_engines.answers.answer_judge import NUM_LOGPROBS
from chaos.real_engines.bundled import bundled_tokenizer
from chaos.real_engines.request_kinds import FAST_KINDS, Check
from chaos.real_engines.run_report import LoadRequest, Prompt
from chaos.transcript import Transcript

TOKENIZER = bundled_tokenizer()
BY_NAME = {kind.name: kind for kind in FAST_KINDS}
TEXT, OTHER_TEXT = "def add(a, b):\n    return a + b", "def add(a, b):\n    return b + a"
END_ID, MAX_TOKENS = 2, 96
CUT = FailedAttempt("engine-0", "broken", "reset", "continue_elsewhere", "replica_failed")
PROMPT_IDS = [11, 12]
BEST = {f"token_id:{5000 + number}": -0.1 for number in range(NUM_LOGPROBS)}
"""Tokens that occur in no answer."""


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
    """Every forced token is one of the best at its position, apart from those in `gaps_nats`.

    Generates the first of `answers` that begins with the given tokens.
    """

    def __init__(self) -> None:
        self.gaps_nats: dict[int, float] = {}
        """How much less probable a token is than the best one, wherever it occurs."""
        self.answers = [REFERENCE.ids, answer(OTHER_TEXT).ids]
        self.best_allowed_logprob = -0.1
        """Of the best of the tokens that a request allows."""
        self.num_asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.num_asked += 1
        body = await request.json()
        if body["model"] != "model":
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        assert body["logprobs"] == 20
        assert body["return_tokens_as_token_ids"]
        assert body["speculation"] == {"max_draft_length": 0}
        tops: list[dict[str, float] | None]
        if body.get("echo"):
            tokens = [*body["prompt"], 1]
            tops = [None, *({**BEST, **self._top(token)} for token in tokens[1:])]
        elif "allowed_token_ids" in body:
            tokens = body["allowed_token_ids"][:1]
            tops = [{f"token_id:{tokens[0]}": self.best_allowed_logprob}]
        else:
            tokens, tops = self._generate(body["prompt"][len(PROMPT_IDS) :], body["max_tokens"])
        names = [f"token_id:{token}" for token in tokens]
        logprobs = {"tokens": names, "top_logprobs": tops}
        return web.json_response({"choices": [{"logprobs": logprobs}]})

    def _generate(
        self, ids: list[int], max_tokens: int
    ) -> tuple[list[int], list[dict[str, float] | None]]:
        path, tops = list(ids), list[dict[str, float] | None]()
        while len(path) < len(ids) + max_tokens and path[-1:] != [END_ID]:
            fitting = [one[len(path)] for one in self.answers if one[: len(path)] == path]
            tops.append({name: value for one in fitting for name, value in self._top(one).items()})
            path.append(fitting[0])
        return path[len(ids) :], tops

    def _top(self, token: int) -> dict[str, float]:
        return {f"token_id:{token}": -0.1 - self.gaps_nats.get(token, 0.0)}


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
    "name", [n for n, kind in BY_NAME.items() if kind.check is Check.GREEDY and not kind.has_ids]
)
async def test_text_after_a_near_tie_must_be_what_an_engine_generates_after_it(
    engine: Engine, url: str, name: str
) -> None:
    """The first token that differs is nearly as probable, but two later ones are lost."""
    ids = ids_of(OTHER_TEXT)
    engine.gaps_nats[ids[FIRST_OTHER]] = 0.1
    lost = TOKENIZER.decode([*ids[: FIRST_OTHER + 1], *ids[FIRST_OTHER + 3 :]])
    assert lost != OTHER_TEXT
    checked = await check(url, request(name, answer(lost)))
    assert len(checked.faults) == 1
    assert checked.num_tails_unjudged == 0


def coloured(text: str) -> Transcript:
    """An answer that ended at its length limit within the grammar."""
    text = '{"colours":[' + text
    return Transcript(
        "load-1", 200, text, ids_of(text), PROMPT_IDS, ["length"], is_done=True
    )  # fmt: skip


async def check_coloured(url: str, reference: str, received: str) -> Checked:
    kind = BY_NAME["JSON schema"]
    prompt, other = Prompt("question", {kind.name: coloured(reference)}), coloured(received)
    return await check(url, LoadRequest(kind, prompt, len(other.ids), other))


@pytest.mark.parametrize(
    ("end", "gap_nats", "is_right"),
    [
        ('"red","blue","whi', 0.1, True),
        ('"red","blue","whi', 3.0, False),
        ('"red",blue","whi', 0.1, False),
        ('"red","black","whi', 0.1, False),
    ],
)
async def test_another_token_must_be_one_that_the_grammar_allows(
    engine: Engine, url: str, end: str, gap_nats: float, is_right: bool
) -> None:
    reference = '"red","green","whi'
    ids, others = coloured(reference).ids, coloured(end).ids
    at = next(i for i, (a, b) in enumerate(zip(ids, others, strict=False)) if a != b)
    engine.gaps_nats[others[at]] = gap_nats
    checked = await check_coloured(url, reference, end)
    assert len(checked.differences) == 1
    assert (checked.faults == []) == is_right


@pytest.mark.parametrize(("gap_nats", "is_right"), [(0.1, True), (3.0, False)])
async def test_tokens_after_a_near_tie_under_a_grammar_must_be_the_best_allowed_ones(
    engine: Engine, url: str, gap_nats: float, is_right: bool
) -> None:
    """All better tokens that the engine lists are forbidden; another one that is not listed is
    allowed, and the engine says how probable it is."""
    (last,) = set(coloured('"red","blue","w').ids) - set(coloured('"red","blue","').ids)
    engine.gaps_nats[last] = 5.0
    engine.best_allowed_logprob = -5.1 + gap_nats
    checked = await check_coloured(url, '"red","green","w', '"red","blue","w')
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
