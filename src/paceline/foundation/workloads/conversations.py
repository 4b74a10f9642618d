"""Which prompts are one conversation, and which are equal: digests of their messages or text.

A client of a chat sends all messages so far with every request. So requests are of one conversation
if their messages up to the first of the user are equal; a plain text is one of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.workloads.prompts import Prompt

_KEY_CHARS = 16


def key_of(prompt: Prompt) -> str:
    """A digest of the messages or the text: equal for prompts that a model reads alike."""
    return _digest(prompt.messages, prompt.text)


def conversation_of(prompt: Prompt) -> str:
    """A digest of the messages up to the first of the user, or of a plain text.

    >>> chat = [{"role": "user", "content": "a"}]
    >>> first = Prompt("t", tuple(chat), None, None)
    >>> later = Prompt("t", (*chat, {"role": "assistant", "content": "b"}), None, None)
    >>> conversation_of(first) == conversation_of(later), key_of(first) == key_of(later)
    (True, False)
    """
    messages = prompt.messages
    if messages is None:
        return key_of(prompt)
    roles = [message["role"] for message in messages]
    end = roles.index("user") + 1 if "user" in roles else len(roles)
    return _digest(messages[:end], None)


def _digest(messages: Sequence[Mapping[str, Any]] | None, plain_text: str | None) -> str:
    content = {"messages": messages, "prompt": plain_text}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_CHARS]
