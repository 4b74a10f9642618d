"""A chat as a client sends it, and the text that comes back."""

from __future__ import annotations

import json

from clients.scripted_engine import MODEL


def chat(text: str = "Say hello.", *, stream: bool = False) -> bytes:
    """The body of a request."""
    message = {"role": "user", "content": text}
    return json.dumps({"model": MODEL, "messages": [message], "stream": stream}).encode()


def text_of(body: str) -> str:
    """The text of a whole chat, or of a stream, which must be complete."""
    data = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    if not data:
        content: str = json.loads(body)["choices"][0]["message"]["content"]
        return content
    assert data[-1] == "[DONE]"
    deltas = [json.loads(one)["choices"][0]["delta"] for one in data[:-1]]
    return "".join(delta.get("content") or "" for delta in deltas)
