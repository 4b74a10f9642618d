"""Requests whose answers are known to the last token, and the verdict on what came of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp

from chaos.fleet import MODEL, Fleet
from chaos.transcript import Ending, Transcript, ask
from paceline.mock_vllm import (
    Answer,
    RequestRecord,
    encode_chat,
    encode_text,
    expected_answer,
    hash_of_ids,
)
from paceline.mock_vllm.model.answer import DEFAULT_EOS_EVERY_TOKENS

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_STREAM = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class Known:
    """A request and its answer."""

    path: str
    body: dict[str, Any]
    prompt_ids: tuple[int, ...]
    expected: Answer

    def faults(self, told: Transcript, records: Sequence[RequestRecord] = ()) -> list[str]:
        """What is wrong with the answer; with `records`, also with how it came about."""
        if told.ending is not Ending.COMPLETED:
            return [f"{told.ending}: status {told.status}, {told.error}, {told.broke}"]
        faults = told.faults_of_form()
        if told.text != self.expected.text:
            faults.append(f"text {told.text!r} instead of {self.expected.text!r}")
        if told.finish_reasons != [self.expected.finish_reason]:
            faults.append(f"finish reasons {told.finish_reasons}")
        expected_ids = list(self.expected.ids)
        if "stop" in self.body:
            # Tokens of the chunk that completes a stop string count, also those behind it.
            told_ids = told.ids[: len(expected_ids)]
            is_counted = told.usage is None or told.usage["completion_tokens"] >= len(expected_ids)
        else:
            told_ids = told.ids
            is_counted = told.usage is None or told.usage["completion_tokens"] == len(expected_ids)
        if not is_counted:
            faults.append(f"usage {told.usage} for {len(expected_ids)} tokens")
        if self.body.get("return_token_ids") and told_ids != expected_ids:
            faults.append(f"ids {told.ids} instead of {expected_ids}")
        if records and "stop" not in self.body:
            faults += self._faults_behind(records)
        return faults

    def _faults_behind(self, records: Sequence[RequestRecord]) -> Iterable[str]:
        """One replica came to the end: it went on behind the first k tokens and sent the rest."""
        ids = self.expected.ids
        num_prompt = len(self.prompt_ids)
        whole = [r for r in records if r.num_prompt_tokens - num_prompt + r.num_tokens == len(ids)]
        if not whole and any(record.ending is None for record in records):
            return  # killed from outside: what it had sent is not in its ledger
        if len(whole) != 1:
            yield f"{len(whole)} replicas came to the end of the answer: {records}"
            return
        k = whole[0].num_prompt_tokens - num_prompt
        if whole[0].prompt_hash != hash_of_ids([*self.prompt_ids, *ids[:k]]):
            yield f"the last replica was not asked to go on behind {k} tokens"
        if whole[0].answer_hash != hash_of_ids(ids[k:]):
            yield f"the last replica did not answer with the tokens behind {k}"


def known(
    number: int,
    *,
    max_tokens: int = 60,
    stream: bool = True,
    ignore_eos: bool = False,
    eos_every_tokens: int = DEFAULT_EOS_EVERY_TOKENS,
) -> Known:
    """The request of that number: chats and completions, with and without ids, stop strings.

    `eos_every_tokens` is the replicas' own.
    """
    answer = partial(expected_answer, ignore_eos=ignore_eos, eos_every_tokens=eos_every_tokens)
    content = f"Tell me 🚲 {number}."
    fields: dict[str, Any] = {"model": MODEL, "max_tokens": max_tokens, "temperature": 0}
    if stream:
        fields |= _STREAM
    if ignore_eos:
        fields["ignore_eos"] = True
    if number % 2:
        path, prompt = COMPLETIONS, encode_text(content)
        fields["prompt"] = content
    else:
        path, prompt = CHAT, encode_chat([("user", content)], add_generation_prompt=True)
        fields["messages"] = [{"role": "user", "content": content}]
    if number % 4 in (1, 2):
        fields["return_token_ids"] = True
    stop: tuple[str, ...] = ()
    if number % 5 == 4:
        whole = answer(prompt, max_tokens).text
        stop = (whole[-12:-6] or "none of it",)  # some answers end by themselves after a word
        fields["stop"] = list(stop)
    return Known(path, fields, tuple(prompt), answer(prompt, max_tokens, stop=stop))


async def ask_all(
    fleet: Fleet, asked: Sequence[Known], *, name: str = "", limit_s: float = 150.0
) -> list[Transcript]:
    """All at the same time."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with (
        asyncio.timeout(limit_s),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        return await asyncio.gather(
            *(
                ask(session, fleet.served.url + one.path, one.body, f"{name}-{number}")
                for number, one in enumerate(asked)
            )
        )


def faults_of(fleet: Fleet, asked: Sequence[Known], told: Sequence[Transcript]) -> list[str]:
    """Of all of them, compared with the expected answers and with the replicas' own ledgers."""
    by_id: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    for record in fleet.records():
        by_id[record.request_id].append(record)
    faults = []
    for one, answer in zip(asked, told, strict=True):
        found = one.faults(answer, by_id[answer.request_id])
        faults += [f"{answer.request_id}: {fault}" for fault in found]
    return faults


def num_struck(fleet: Fleet, told: Sequence[Transcript]) -> int:
    """Answers that took more than one replica."""
    ids = [record.request_id for record in fleet.records()]
    return sum(ids.count(answer.request_id) > 1 for answer in told)
