"""The shapes of model lists, completions and chats."""

from __future__ import annotations

from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment
from paceline.operations.validate.target.answers import read_answer
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.target.target import COMPLETIONS
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_TOKENS = 12


async def _observe_models(deployment: Deployment) -> tuple[Reply, Reply]:
    """The list, and a completion of its first model."""
    target = deployment.target
    listed = await target.request("GET", "/v1/models")
    cards = listed.expect_ok().document().get("data")
    first = cards[0] if isinstance(cards, list) and cards else None
    body = {
        "model": first.get("id") if isinstance(first, dict) else None,
        "prompt": PROMPTS[0],
        "max_tokens": 1,
    }
    return listed, await target.request("POST", COMPLETIONS, body)


def judge_models(observed: tuple[Reply, Reply], tier: Tier) -> Judgement:
    """Every card has an id, and the first model answers."""
    listed, answered = observed
    document = listed.document()
    cards = document.get("data")
    if document.get("object") != "list" or not isinstance(cards, list) or not cards:
        raise Violation(f"/v1/models is no list of models: {listed.text}")
    for card in cards:
        if not isinstance(card, dict) or not isinstance(card.get("id"), str):
            raise Violation(f"/v1/models lists a model without an id: {card!r}")
    if answered.status not in (200, 404, 405, 501):
        raise Violation(
            f"the listed model {cards[0]['id']!r} does not answer: status {answered.status}: "
            f"{answered.text}"
        )
    if answered.status == 404 and b"model" in answered.body.lower():
        raise Violation(f"the listed model {cards[0]['id']!r} is not served: {answered.text}")
    return passed(f"{len(cards)} models are listed, the first answers", num_models=len(cards))


async def _observe_completion(deployment: Deployment) -> tuple[str, Reply]:
    target = deployment.target
    reply = await target.complete(prompt=PROMPTS[0], max_tokens=_TOKENS, temperature=0)
    return target.identity.model, reply


async def _observe_chat(deployment: Deployment) -> tuple[str, Reply]:
    target = deployment.target
    messages = [{"role": "user", "content": PROMPTS[3]}]
    reply = await target.chat(messages=messages, max_tokens=_TOKENS, temperature=0)
    return target.identity.model, reply


def judge_completion(observed: tuple[str, Reply], tier: Tier) -> Judgement:
    """The completion has OpenAI's keys."""
    return _judge_shape(observed, "text_completion", "text")


def judge_chat(observed: tuple[str, Reply], tier: Tier) -> Judgement:
    """The chat answer has OpenAI's keys and the role of the assistant."""
    judgement = _judge_shape(observed, "chat.completion", "message")
    message: Any = observed[1].document()["choices"][0]["message"]
    if message.get("role") != "assistant":
        raise Violation(f"the role of the answer is {message.get('role')!r}")
    return judgement


def _judge_shape(observed: tuple[str, Reply], kind: str, content: str) -> Judgement:
    model, reply = observed
    answer = read_answer(reply)
    document = reply.document()
    for name, expected in (("object", kind), ("model", model)):
        if document.get(name) != expected:
            raise Violation(f"{name} is {document.get(name)!r}, expected {expected!r}")
    if not isinstance(document.get("id"), str) or not document["id"]:
        raise Violation(f"id is {document.get('id')!r}, expected a text")
    if type(document.get("created")) is not int:
        raise Violation(f"created is {document.get('created')!r}, expected a number of seconds")
    if content not in document["choices"][0]:
        raise Violation(f"the choice has no {content}")
    choice = answer.only()
    if not choice.text and choice.finish_reasons == ["length"]:
        raise Violation("the answer is empty, and its finish reason is length")
    if not choice.text:
        raise Missing("the model ends its answer at once, so there is no text to judge")
    return passed(f"a {kind} of {len(choice.text)} characters with all keys")


CHECKS = (
    Check(
        "models",
        Group.API,
        "The server lists its models, and they answer",
        _observe_models,
        judge_models,
    ),
    Check(
        "completion-shape",
        Group.API,
        "A completion has OpenAI's keys",
        _observe_completion,
        judge_completion,
    ),
    Check(
        "chat-shape",
        Group.API,
        "A chat answer has OpenAI's keys",
        _observe_chat,
        judge_chat,
    ),
)
