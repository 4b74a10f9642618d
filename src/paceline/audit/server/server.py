"""One server of an audit: what it supports, found out by requests, and its completions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paceline.audit.server.bodies import OFF_FIELDS, PATH, read_answers, render_body
from paceline.audit.server.counters import METRICS_PATH, read_num_drafted
from paceline.audit.server.transport import ServerError, Transport
from paceline.audit.values import GREEDY, Answer, AuditError, Request, SamplingCase

_NUM_LOGPROBS = (20, 5, 1)
"""Tried in turn: vLLM's limit, OpenAI's for completions, and the least."""
_PROBE = "def main():\n    for line in lines:\n        print("
_SWITCH_TOKENS = 24
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
    n: bool
    top_k: bool
    penalties: bool
    logit_bias: bool
    tokens_per_event: float | None = None
    """Of a greedy stream; above 1 shows accepted drafts. None: streams do not show tokens."""
    off_switch: str | None = None
    """How a request switches drafts off; None: it cannot, or no drafts were seen."""


class Server:
    """Completions of one server; `probe` first."""

    def __init__(self, transport: Transport, *, url: str, model: str | None = None) -> None:
        self.url = url
        self._transport = transport
        self._model = model
        self._support: Support | None = None
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
        self.num_requests += 1
        document = await self._transport.post(PATH, self.body(request))
        return read_answers(document, num_logprobs=request.num_logprobs, last=last)

    async def token_counts(self, request: Request) -> list[int]:
        """Tokens in each event of the streamed answer, by their ids or log-probabilities.

        Raises `ServerError`.
        """
        self.num_requests += 1
        events = await self._transport.post_stream(PATH, self.body(request))
        counts = []
        for event in events:
            for choice in event.get("choices") or ():
                shown = choice.get("token_ids") or (choice.get("logprobs") or {}).get("tokens")
                if isinstance(shown, list) and shown:
                    counts.append(len(shown))
        return counts

    def body(self, request: Request) -> dict[str, Any]:
        """The body of a request to this server."""
        known = self._support
        return render_body(
            request,
            self._model or "",
            off_switch=None if known is None else known.off_switch,
            extended=known is not None and known.top_k,
        )

    async def num_drafted(self) -> float | None:
        """Draft tokens since the server's start, as its metrics count them; None if they do not."""
        try:
            return read_num_drafted(await self._transport.get_text(METRICS_PATH))
        except ServerError:
            return None

    async def probe(self, *, model: str | None = None) -> Support:
        """Find out what the server supports; `model` is the one that it must list.

        Raises AuditError if it serves no completions, or not of this model; `ServerError` if it
        fails later.
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
        # One token is never drafted: a server that fails on sampled drafts survives the probe.
        warm = replace(first, case=SamplingCase("probe"), max_tokens=1)
        pair = await self._answer(replace(warm, n=2))
        support = Support(
            model=self._model,
            owned_by=card.get("owned_by"),
            version=await self._version(),
            shows_token_ids=shows_ids,
            num_logprobs=num_logprobs,
            scores_prompts=await self._scores(first, num_logprobs) if shows_ids else False,
            n=pair is not None and len(pair) == 2,
            top_k=await self._accepts(warm, SamplingCase("probe", top_k=3)),
            penalties=await self._accepts(warm, SamplingCase("probe", presence_penalty=0.5)),
            logit_bias=await self._accepts(warm, SamplingCase("probe", logit_bias=((5, 1.0),))),
        )
        self._support = support
        tokens_per_event, off_switch = await self._find_switch()
        self._support = replace(support, tokens_per_event=tokens_per_event, off_switch=off_switch)
        return self._support

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
                raise AuditError(f"/v1/models names no model ({error}); give --model") from error
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

    async def _accepts(self, request: Request, case: SamplingCase) -> bool:
        return await self._answer(replace(request, case=case)) is not None

    async def _answer(self, request: Request) -> list[Answer] | None:
        """None if the server does not support the request. Raises `ServerError` if it fails."""
        try:
            return await self.complete(request)
        except ServerError as error:
            if not error.is_refusal:
                raise
            return None

    async def _find_switch(self) -> tuple[float | None, str | None]:
        num = None if self.support.shows_token_ids else self.support.num_logprobs or None
        request = Request(_PROBE, GREEDY, _SWITCH_TOKENS, num_logprobs=num)
        try:
            counts = await self.token_counts(request)
        except ServerError as error:
            if not error.is_refusal:
                raise
            return None, None
        if not counts:
            return None, None
        mean = sum(counts) / len(counts)
        if mean < MIN_DRAFTED:
            return mean, None
        for name, fields in OFF_FIELDS.items():
            try:
                without = await self.token_counts(replace(request, extra=fields))
            except ServerError as error:
                if not error.is_refusal:
                    raise
                continue
            if without and sum(without) / len(without) < MIN_DRAFTED:
                return mean, name
        return mean, None
