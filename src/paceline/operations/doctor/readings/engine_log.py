"""Lines of an engine's log without what clients and models wrote into them.

vLLM logs prompts and answers on demand (--enable-log-requests, --enable-log-outputs,
VLLM_DEBUG_LOG_API_SERVER_RESPONSE), and it names models, tools and paths that a request asked for.
A model that explains an error message is no failure of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_CLIENT_TEXT = re.compile(
    r"(?:Generated response|Received request) |Request \S+ (?:details|JSON body): |"
    r"response_body=\{|"
    r"Error with model |present in the request but ignored|\binput_value=|"
    r"emitted tool name |Skipping malformed "
)
"""Before what a client or the model wrote (vLLM: entrypoints/logger.py, serve/middleware, the
`serving.py` of each API; pydantic)."""
_ABOUT_REQUEST = re.compile(
    r"\[(?:[^\]\s]*/)?(?:(?:request_)?logger|log_response|protocol|chat_utils|harmony|validation|"
    r"http|\w*(?:tool|reasoning)_parser\w*)\.py:\d+\]"
)
"""vLLM's files that log words of requests and answers."""
_ACCESS = re.compile(r"\"(?:[A-Z]{3,10}) \S+ HTTP/\d(?:\.\d)?\" \d{3}")
"""A request in uvicorn's access log; the client chose the path."""
_REMARK = re.compile(
    r"^.{0,200}?(?:\b(?:DEBUG|INFO) \d\d-\d\d \d\d:\d\d:\d\d|"
    r"\"level(?:name)?\": ?\"(?:DEBUG|INFO)\")|^(?:\(.{0,60}?\) )?(?:DEBUG|INFO): "
)
_EXCEPTION = re.compile(
    r"(?:^|[\s\]])(?P<text>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Timeout)\b(?:: .*)?)$"
)
_POINTS_ELSEWHERE = re.compile(
    r"See (?:root cause|stack trace|traceback)|initialization failed due to an exception|"
    r"EngineDeadError|SystemExit|CancelledError",
    re.IGNORECASE,
)
_START = re.compile(r"vLLM API server version")


def without_client_text(lines: Iterable[str]) -> Iterator[str]:
    """Each line up to the words of a client or a model; empty if all of it may be such words.

    >>> list(without_client_text(["INFO Generated response r: output: 'CUDA out of memory'"]))
    ['INFO ']
    """
    for line in lines:
        plain = _COLOUR.sub("", line)
        if _ACCESS.search(plain):
            yield ""
            continue
        source, words = _ABOUT_REQUEST.search(plain), _CLIENT_TEXT.search(plain)
        ends = [found.start() for found in (source, words) if found is not None]
        yield plain[: min(ends)] if ends else plain


def is_remark(line: str) -> bool:
    """Whether a line has the level INFO or DEBUG, so that it reports no failure.

    >>> is_remark("(APIServer pid=9) INFO 11-02 10:01:00 [core.py:94] x"), is_remark("OSError: x")
    (True, False)
    """
    return _REMARK.search(line) is not None


def root_exception(lines: Iterable[str]) -> str | None:
    """The first exception since the last start that does not point to another; None without one.

    vLLM's front end reports that its engine core failed, and the core that a worker failed: the
    first exception is the cause.
    """
    found: str | None = None
    for line in lines:
        if _START.search(line):
            found = None
        if found is None and not is_remark(line):
            match = _EXCEPTION.search(line)
            if match is not None and not _POINTS_ELSEWHERE.search(line):
                found = match["text"]
    return found
