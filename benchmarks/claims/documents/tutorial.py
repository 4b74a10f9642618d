"""The claims of docs/tutorial.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.claims.claim import Claim, ReadResult, claim
from benchmarks.claims.readers import compared

DOCUMENT = "docs/tutorial.md"
NOT_MEASURED: Mapping[str, tuple[str, ...]] = {"setting": ("a fixed length\nof 8 reached",)}


def claims(read: ReadResult) -> Iterator[Claim]:
    """See `DocumentClaims`."""
    chat, chats, edit = (
        compared(read(f"compare-smollm2-{name}-2026-12-01.json"))
        for name in ("chat-1", "chat-16", "edit-1")
    )
    yield claim(
        "from {off:.1f} to {on:.1f} tokens/s, {gain:+.1f} % ({low:+.1f} to {high:+.1f}), and the "
        "time to the first token from {ttft_off:.1f} to {ttft_on:.1f} ms",
        **chat,
    )
    yield claim("text: {gain:+.1f} % ({low:+.1f} to {high:+.1f}", **edit)
    yield claim(
        "gave {off:.1f} tokens/s off and {on:.1f} on, {gain:+.1f} % ({low:+.1f} to {high:+.1f})",
        **chats,
    )
