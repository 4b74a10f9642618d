"""One server of an audit: what it supports, found out by requests, and its completions."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from paceline.workbench.audit.server.bodies import (
    NEUTRAL,
    NEUTRAL_MIN_P,
    OFF_FIELDS,
    PATH,
    read_answers,
    render_body,
)
from paceline.workbench.audit.server.counters import METRICS_PATH, read_num_drafted
from paceline.workbench.audit.server.transport import ServerError, Transport
from paceline.workbench.audit.values import GREEDY, Answer, AuditError, Request, SamplingCase

_NUM_LOGPROBS = (20, 5, 1)
"""Tried in turn: vLLM's limit, OpenAI's for completions, and the least."""
_PROBE = "def main():\n    for line in lines:\n        print("
_SWITCH_TOKENS = 24
_PARAMETER_TOKENS = 6
"""Enough for drafts to be verified with the parameter."""
_SAMPLED = Request(_PROBE, SamplingCase("probe"), _PARAMETER_TOKENS)
_ALIVE_S = 10.0
_RETRY_S = 1.0
_COUNTERS_S = 5.0
MIN_DRAFTED = 1.1
"""Tokens per event that show drafts; without them a slow reader gets two tokens at once at
times."""


@dataclass(frozen=True, slots=True)
class Support:
    """What the server supports, as far as its answers show."""

    model: str
    owned_by: str | None
    version: str | None
    shows_token_ids: bool
    num_logprobs: int
    """Best log-probabilities per token that it shows; 0: none."""
    scores_prompts: bool
    """`echo` with `logprobs` scores the tokens of a prompt."""
    n: bool = False
    top_k: bool = False
    penalties: bool = False
    logit_bias: bool = False
    top_p: bool = False
    seed: bool = False
    """Sampled requests may have a seed."""
    tokens_per_event: float | None = None
    """Of a greedy stream; above 1 with accepted drafts. None: streams do not show tokens."""
    has_single_events: bool = False
    """Some events within the stream have one token, as after a rejected draft. Events of a server
    that sends several tokens at a time have none."""
    off_switch: str | None = None
    """How a request switches drafts off; None: it cannot, or no drafts were seen."""
    prompt_lists: bool = False
    """One request may have several prompts of token ids."""
    cache_salt: bool = False
    """`cache_salt` is accepted: requests with another one share no blocks of the prefix cache."""
    neutral_fields: bool = False
    """The fields of `NEUTRAL` are accepted."""
    min_p: bool = False
    """`NEUTRAL_MIN_P` is accepted."""

    @property
    def shows_drafts(self) -> bool:
        """Whether streams show accepted drafts."""
        is_several = (self.tokens_per_event or 0.0) >= MIN_DRAFTED
        return self.off_switch is not None or (is_several and self.has_single_events)


@dataclass(eq=False, slots=True)
class _Flight:
    """A request that was sent and has no answer yet."""

    is_alone: bool
    """No other was in flight since it was sent."""


class Server:
    """Completions of one server; `probe` first, then `probe_parameters`."""

    def __init__(self, transport: Transport, *, url: str, model: str | None = None) -> None:
        self.url = url
        self._transport = transport
        self._model = model
        self._support: Support | None = None
        self._has_metrics = True
        self._in_flight: set[_Flight] = set()
        self._turn: asyncio.Semaphore | None = None
        self._tried: list[str] = []
        """Parameters that `probe_parameters` has sent."""
        self.num_requests = 0

    @property
    def is_probed(self) -> bool:
        """Whether `support` is known."""
        return self._support is not None

    @property
    def support(self) -> Support:
        """The result of `probe`."""
        assert self._support is not None
        return self._support

    async def complete(self, request: Request, *, last: int | None = None) -> list[Answer]:
        """The answers to a request; one per choice. Raises `ServerError`.

        `last`: only this many log-probabilities at the end are read.
        """
        body = self.body(request)
        async with self._sent(body):
            document = await self._transport.post(PATH, body)
            return read_answers(document, num_logprobs=request.num_logprobs, last=last)

    async def token_counts(self, request: Request) -> list[int]:
        """Tokens in each event of the streamed answer, by their ids or log-probabilities.

        Raises `ServerError`.
        """
        body = {**self.body(request), "stream": True}
        async with self._sent(body):
            events = await self._transport.post_stream(PATH, body)
        counts = []
        for event in events:
            for choice in event.get("choices") or ():
                shown = choice.get("token_ids") or (choice.get("logprobs") or {}).get("tokens")
                if isinstance(shown, list) and shown:
                    counts.append(len(shown))
        return counts

    async def send_again(self, body: Mapping[str, Any]) -> None:
        """Repeat a completion, whole or streamed as its body says. Raises `ServerError`."""
        async with self._sent(body):
            if body.get("stream"):
                await self._transport.post_stream(PATH, body)
            else:
                await self._transport.post(PATH, body)

    def send_one_at_a_time(self) -> None:
        """From now on no two requests are in flight, so that one that ends the server is known."""
        self._turn = self._turn or asyncio.Semaphore(1)

    @asynccontextmanager
    async def _sent(self, body: Mapping[str, Any]) -> AsyncIterator[None]:
        """Count a request, and complete the error that it may end with."""
        async with self._turn or nullcontext():
            self.num_requests += 1
            flight = _Flight(is_alone=not self._in_flight)
            for other in self._in_flight:
                other.is_alone = False
            self._in_flight.add(flight)
            try:
                yield
            except ServerError as error:
                error.body, error.url, error.was_alone = body, self.url, flight.is_alone
                raise
            finally:
                self._in_flight.remove(flight)

    def body(self, request: Request) -> dict[str, Any]:
        """The body of a request to this server."""
        known = self._support
        return render_body(
            request,
            self._model or "",
            off_switch=None if known is None else known.off_switch,
            extended=known is not None and known.neutral_fields,
            min_p=known is not None and known.min_p,
        )

    async def num_drafted(self) -> float | None:
        """Draft tokens since the server's start, as its metrics count them; None if they do not."""
        if not self._has_metrics:
            return None
        try:
            async with asyncio.timeout(_COUNTERS_S):
                return read_num_drafted(await self._transport.get_text(METRICS_PATH))
        except ServerError as error:
            self._has_metrics = not error.is_refusal
        except TimeoutError:
            pass
        return None

    async def is_alive(self) -> bool:
        """Whether a greedy request for one token is answered, within 10 s."""
        try:
            async with asyncio.timeout(_ALIVE_S):
                return await self._answer(Request(_PROBE, GREEDY, 1)) is not None
        except (ServerError, TimeoutError):
            return False

    async def is_back(self, within_s: float) -> bool:
        """Whether it answers again before that time is over; it is asked every second."""
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            await asyncio.sleep(min(_RETRY_S, within_s))
            if await self.is_alive():
                return True
        return False

    async def probe(self, *, model: str | None = None) -> Support:
        """Find out what the server supports; `model` is the one that it must list.

        No sampled token is drafted, and no sampling parameter is sent, so that servers that fail on
        them survive the probe; `probe_choices` and `probe_parameters` send these. Raises AuditError
        if it serves no completions, or not of this model; `ServerError` if it fails later.
        """
        card = await self._model_card(model)
        self._model = self._model or card["id"]
        first = Request(_PROBE, GREEDY, 2)
        try:
            await self.complete(first)
        except ServerError as error:
            raise AuditError(f"no completions to audit: {error}") from error
        num_logprobs, answer = await self._find_logprobs(first)
        shows_ids = all(isinstance(token, int) for token in answer.tokens)
        shows_ids = shows_ids and answer.prompt_ids is not None and bool(answer.tokens)
        one = replace(first, max_tokens=1)
        support = Support(
            model=self._model,
            owned_by=card.get("owned_by"),
            version=await self._version(),
            shows_token_ids=shows_ids,
            num_logprobs=num_logprobs,
            scores_prompts=await self._scores(first, num_logprobs) if shows_ids else False,
            prompt_lists=await self._takes_lists(one, answer) if shows_ids else False,
            cache_salt=await self._accepts(replace(one, extra=new_cache_salt())),
            neutral_fields=await self._accepts(replace(one, extra=NEUTRAL)),
            min_p=await self._accepts(replace(one, extra=NEUTRAL_MIN_P)),
        )
        self._support = support
        self._support = await self._watch_stream(support)
        return self._support

    async def probe_choices(self) -> list[str]:
        """Find out whether a sampled request may ask for several choices, by one that is alone.

        Returns what the server fails on. Raises `ServerError` if it does not answer any more.
        """
        return await self._try({"n": replace(_SAMPLED, n=2)})

    async def probe_parameters(self) -> list[str]:
        """Find out which sampling parameters the server supports, one request for each.

        Returns what it fails on. Raises `ServerError` if it does not answer any more; the next call
        continues with the next parameter, once it answers again. Each request is sent alone: any
        may end the server.
        """
        requests = {
            "seed": replace(_SAMPLED, seed=1),
            "top_p": replace(_SAMPLED, case=SamplingCase("probe", top_p=0.9)),
            "penalties": replace(_SAMPLED, case=SamplingCase("probe", presence_penalty=0.5)),
            "logit_bias": replace(_SAMPLED, case=SamplingCase("probe", logit_bias=((5, 1.0),))),
        }
        if self.support.neutral_fields:
            requests["top_k"] = replace(_SAMPLED, case=SamplingCase("probe", top_k=3))
        return await self._try(requests)

    async def _try(self, requests: Mapping[str, Request]) -> list[str]:
        """Send those that were not sent yet, and note in `support` whether they are accepted."""
        failures = []
        for name, request in requests.items():
            if name in self._tried:
                continue
            self._tried.append(name)
            try:
                answers = await self._answer(request)
            except ServerError as error:
                if not await self.is_alive():
                    raise
                failures.append(f"sampled requests with {name}: {error}")
                continue
            found: dict[str, Any] = {name: answers is not None and len(answers) == request.n}
            self._support = replace(self.support, **found)
        return failures

    async def _model_card(self, required: str | None) -> dict[str, Any]:
        self._model = required or self._model
        try:
            document = await self._transport.get("/v1/models")
            cards = document["data"]
            named = [card for card in cards if self._model in (None, card["id"])]
            if required is not None and not named:
                raise AuditError(
                    f"{self.url} does not list the model {required!r}, which is audited, but "
                    f"{[card['id'] for card in cards]}; serve the same model there under that name "
                    "(vLLM: --served-model-name)"
                )
            card: dict[str, Any] = (named or [{"id": self._model}])[0]
        except (ServerError, KeyError, TypeError) as error:
            if self._model is None:
                raise AuditError(
                    f"the models of {self.url} are not known ({error}); give the address of a "
                    "running server, or --model where it lists none"
                ) from error
            card = {"id": self._model}
        return card

    async def _version(self) -> str | None:
        try:
            version = (await self._transport.get("/version")).get("version")
        except ServerError:
            return None
        return version if isinstance(version, str) else None

    async def _find_logprobs(self, request: Request) -> tuple[int, Answer]:
        for num in _NUM_LOGPROBS:
            answers = await self._answer(replace(request, num_logprobs=num))
            if answers and answers[0].logprobs and len(answers[0].tokens) > 0:
                return num, answers[0]
        return 0, (await self.complete(request))[0]

    async def _scores(self, request: Request, num_logprobs: int) -> bool:
        scored = replace(request, max_tokens=1, num_logprobs=num_logprobs, extra={"echo": True})
        answers = await self._answer(scored) if num_logprobs else None
        return bool(answers) and len(answers[0].logprobs) > 2 if answers else False

    async def _takes_lists(self, request: Request, answer: Answer) -> bool:
        """Whether two prompts in one request give two answers, in their order."""
        ids = answer.prompt_ids or ()
        prompts = ids, (*ids, *(token for token in answer.tokens if isinstance(token, int)))
        answers = await self._answer(replace(request, prompt=prompts))
        return answers is not None and tuple(one.prompt_ids for one in answers) == prompts

    async def _accepts(self, request: Request) -> bool:
        return await self._answer(request) is not None

    async def _answer(self, request: Request) -> list[Answer] | None:
        """None if the server does not support the request. Raises `ServerError` if it fails."""
        try:
            return await self.complete(request)
        except ServerError as error:
            if not error.is_refusal:
                raise
            return None

    async def _watch_stream(self, support: Support) -> Support:
        """Find out whether streams show drafts, and what switches them off."""
        num = None if support.shows_token_ids else support.num_logprobs or None
        request = Request(_PROBE, GREEDY, _SWITCH_TOKENS, num_logprobs=num)
        try:
            counts = await self.token_counts(request)
        except ServerError as error:
            if not error.is_refusal:
                raise
            return support
        if not counts:
            return support
        mean = sum(counts) / len(counts)
        # The first event has the token of the prompt's own step, the last one may be cut.
        is_single = 1 in counts[1:-1]
        support = replace(support, tokens_per_event=mean, has_single_events=is_single)
        if mean < MIN_DRAFTED:
            return support
        for name, fields in OFF_FIELDS.items():
            try:
                without = await self.token_counts(replace(request, extra=fields))
            except ServerError as error:
                if not error.is_refusal:
                    raise
                continue
            if without and sum(without) / len(without) < MIN_DRAFTED:
                return replace(support, off_switch=name)
        return support


def new_cache_salt() -> dict[str, str]:
    """The field that keeps a request from using blocks that other requests cached (vLLM)."""
    return {"cache_salt": uuid.uuid4().hex}
