"""Requests with known answers, and the check of what clients and replicas did with them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp

from chaos.fleet import MODEL, Fleet
from chaos.text_difference import describe_difference
from chaos.transcript import Ending, Transcript, send_request
from paceline.testing.mock_vllm import (
    Answer,
    RequestRecord,
    encode_chat,
    encode_text,
    expected_answer,
    hash_of_ids,
)
from paceline.testing.mock_vllm.model.answer import DEFAULT_EOS_EVERY_TOKENS

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_STREAM = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class ExpectedRequest:
    """A request and the answer that its client must receive."""

    path: str
    body: dict[str, Any]
    prompt_ids: tuple[int, ...]
    answer: Answer

    def errors_in(self, transcript: Transcript, records: Sequence[RequestRecord] = ()) -> list[str]:
        """List what is wrong with the transcript and, if given, with the replicas' records."""
        if transcript.ending is not Ending.COMPLETED:
            return [
                f"{transcript.ending}: status {transcript.status}, {transcript.error}, "
                f"{transcript.read_error}"
            ]
        errors = transcript.format_errors()
        if difference := describe_difference(transcript.text, self.answer.text):
            errors.append(f"text {difference}")
        if transcript.finish_reasons != [self.answer.finish_reason]:
            errors.append(f"finish reasons {transcript.finish_reasons}")
        expected_ids, ids = list(self.answer.ids), transcript.ids
        has_stop = "stop" in self.body
        if has_stop:
            # The chunk that completes a stop string may contain tokens after the string, and they
            # count in the usage.
            ids = ids[: len(expected_ids)]
        if transcript.usage is not None:
            num_counted = transcript.usage["completion_tokens"]
            is_right = num_counted == len(expected_ids)
            if not (is_right or (has_stop and num_counted > len(expected_ids))):
                errors.append(f"usage {transcript.usage} for {len(expected_ids)} tokens")
        if self.body.get("return_token_ids") and ids != expected_ids:
            errors.append(f"ids {transcript.ids} instead of {expected_ids}")
        if records and not has_stop:
            errors += self._errors_in_records(records)
        return errors

    def _errors_in_records(self, records: Sequence[RequestRecord]) -> Iterable[str]:
        """Check that one replica continued after the first k tokens and sent all the others."""
        ids = self.answer.ids
        num_prompt = len(self.prompt_ids)
        last = [r for r in records if r.num_prompt_tokens - num_prompt + r.num_tokens == len(ids)]
        if not last and any(record.ending is None for record in records):
            return  # after a SIGKILL, the record does not have the number of tokens sent
        if len(last) != 1:
            yield f"{len(last)} replicas reached the end of the answer: {records}"
            return
        k = last[0].num_prompt_tokens - num_prompt
        if last[0].prompt_hash != hash_of_ids([*self.prompt_ids, *ids[:k]]):
            yield f"the last replica's prompt was not the prompt and the first {k} tokens"
        if last[0].answer_hash != hash_of_ids(ids[k:]):
            yield f"the last replica did not send the tokens after the first {k}"


def expected_request(
    number: int,
    *,
    max_tokens: int = 60,
    stream: bool = True,
    ignore_eos: bool = False,
    eos_every_tokens: int = DEFAULT_EOS_EVERY_TOKENS,
) -> ExpectedRequest:
    """Return the request of this number: chats and completions, with ids, with stop strings.

    `eos_every_tokens` must be the replicas' own.
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
        # An answer of one word has no text at this position, so the stop string is one that it
        # does not contain.
        stop = (whole[-12:-6] or "none of it",)
        fields["stop"] = list(stop)
    return ExpectedRequest(path, fields, tuple(prompt), answer(prompt, max_tokens, stop=stop))


async def send_all(
    fleet: Fleet, requests: Sequence[ExpectedRequest], *, name: str = "", limit_s: float = 150.0
) -> list[Transcript]:
    """Send all requests at once and read all answers. Request ids are `name` and an index."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with (
        asyncio.timeout(limit_s),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        return await asyncio.gather(
            *(
                send_request(
                    session,
                    fleet.gateway.url + request.path,
                    request.body,
                    f"{name}-{index}",
                    fleet.key,
                )
                for index, request in enumerate(requests)
            )
        )


def find_errors(
    fleet: Fleet, requests: Sequence[ExpectedRequest], transcripts: Sequence[Transcript]
) -> list[str]:
    """Compare the transcripts with the expected answers and with the replicas' request logs."""
    by_id: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    for record in fleet.ended_records():
        by_id[record.request_id].append(record)
    errors = []
    for request, transcript in zip(requests, transcripts, strict=True):
        found = request.errors_in(transcript, by_id[transcript.request_id])
        errors += [f"{transcript.request_id}: {error}" for error in found]
    return errors


def num_failed_over(fleet: Fleet, transcripts: Sequence[Transcript]) -> int:
    """Count the requests that needed more than one attempt at a replica."""
    ids = [record.request_id for record in fleet.records()]
    return sum(ids.count(transcript.request_id) > 1 for transcript in transcripts)
