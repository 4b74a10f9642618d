"""Naive serving: transformers `generate` in float32, one request at a time.

The smallest server that streams the OpenAI routes: a request waits for its turn (first come, first
served), `generate` runs with its defaults, and every piece of text is sent as soon as its token is
there. Nothing is batched, and no prefix is kept between requests.

    python benchmarks/headline/naive_server.py MODEL --port 8000
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aiohttp import web

DEFAULT_MAX_TOKENS = 256


class Generator(Protocol):
    """Answers one request at a time."""

    def generate(
        self,
        body: Mapping[str, Any],
        emit: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> tuple[int, int, str]:
        """Block until the answer has ended; its prompt tokens, output tokens, finish reason.

        Calls `emit` with every piece of text. Ends early once `is_cancelled()` is true.
        """
        ...


class TransformersGenerator:
    """`AutoModelForCausalLM.generate` in float32, with the tokenizer's chat template."""

    def __init__(self, model: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._model = loaded.eval()

    def generate(
        self,
        body: Mapping[str, Any],
        emit: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> tuple[int, int, str]:
        """See `Generator`. A sampled request is seeded with its own `seed`."""
        import torch
        from transformers import StoppingCriteriaList, set_seed

        if "messages" in body:
            inputs = self._tokenizer.apply_chat_template(
                body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        else:
            inputs = self._tokenizer(body["prompt"], return_tensors="pt")
        num_prompt_tokens = int(inputs["input_ids"].shape[1])
        max_tokens = int(body.get("max_tokens") or DEFAULT_MAX_TOKENS)
        temperature = float(body.get("temperature", 1.0))
        sampling: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:
            sampling |= {"temperature": temperature, "top_p": float(body.get("top_p", 1.0))}
            # vLLM's default; generate would keep the 50 likeliest tokens.
            sampling["top_k"] = 0
            set_seed(int(body.get("seed", 0)))
        if body.get("ignore_eos"):
            sampling["min_new_tokens"] = max_tokens
        with torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=max_tokens,
                streamer=_PieceStreamer(self._tokenizer, emit),
                stopping_criteria=StoppingCriteriaList(
                    [lambda ids, scores, **_: _all(ids, is_cancelled())]
                ),
                **sampling,
            )
        num_output_tokens = int(output.shape[1]) - num_prompt_tokens
        is_full = num_output_tokens >= max_tokens
        return num_prompt_tokens, num_output_tokens, "length" if is_full else "stop"


def _all(ids: Any, value: bool) -> Any:
    """The value for every sequence of the batch, as `generate` wants it."""
    import torch

    return torch.full((ids.shape[0],), value, dtype=torch.bool)


class _PieceStreamer:
    """Emits the text of every token once it decodes to whole characters; skips the prompt."""

    def __init__(self, tokenizer: Any, emit: Callable[[str], None]) -> None:
        self._tokenizer, self._emit = tokenizer, emit
        self._ids: list[int] | None = None
        self._num_sent = 0

    def put(self, value: Any) -> None:
        if self._ids is None:
            self._ids = []
            return
        self._ids += value.flatten().tolist()
        text = self._tokenizer.decode(self._ids, skip_special_tokens=True)
        if len(text) > self._num_sent and not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self._emit(text[self._num_sent :])
            self._num_sent = len(text)

    def end(self) -> None:
        """Nothing is held back but a character that never became whole."""


def build_application(name: str, generator: Generator) -> web.Application:
    """The routes: both kinds of completions, streamed, and the list of models."""
    turn = asyncio.Lock()

    async def list_models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with turn:
            await _stream(generator, name, body, response)
        return response

    application = web.Application()
    application.router.add_get("/v1/models", list_models)
    application.router.add_post("/v1/completions", complete)
    application.router.add_post("/v1/chat/completions", complete)
    return application


async def _stream(
    generator: Generator, name: str, body: Mapping[str, Any], response: web.StreamResponse
) -> None:
    """Generate in a thread and pass its pieces on. The turn lasts until the thread has ended."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[str | None] = asyncio.Queue()
    is_cancelled = False

    def emit(piece: str) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, piece)

    def work() -> tuple[int, int, str]:
        try:
            return generator.generate(body, emit, lambda: is_cancelled)
        finally:
            loop.call_soon_threadsafe(pieces.put_nowait, None)

    thread = asyncio.ensure_future(asyncio.to_thread(work))
    is_chat = "messages" in body
    try:
        while (piece := await pieces.get()) is not None:
            await response.write(_event(name, _choice(is_chat, piece, None)))
        num_prompt, num_output, reason = await thread
        usage = {"prompt_tokens": num_prompt, "completion_tokens": num_output}
        await response.write(_event(name, _choice(is_chat, "", reason)))
        await response.write(_event(name, None, usage))
        await response.write(b"data: [DONE]\n\n")
    finally:
        is_cancelled = True
        await asyncio.shield(asyncio.wait([thread]))


def _choice(is_chat: bool, piece: str, reason: str | None) -> dict[str, Any]:
    text = {"delta": {"content": piece}} if is_chat else {"text": piece}
    return {"index": 0, **text, "finish_reason": reason}


def _event(
    name: str, choice: Mapping[str, Any] | None, usage: Mapping[str, int] | None = None
) -> bytes:
    chunk = {"model": name, "choices": [] if choice is None else [choice], "usage": usage}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="Naive serving: one request at a time, float32.")
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    application = build_application("naive", TransformersGenerator(arguments.model))
    web.run_app(application, host="127.0.0.1", port=arguments.port, print=None)


if __name__ == "__main__":
    main()
