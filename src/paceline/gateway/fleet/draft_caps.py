"""Learn from a server's metrics page whether it keeps to a request's cap on its draft length.

A vLLM server with Paceline's scheduler says so (`paceline.engine.front_end`). vLLM has the metrics
of its speculation only where it drafts; without them there are no drafts to cap.
"""

from __future__ import annotations

_SAYS_SO = "\npaceline_engine_honours_draft_caps"
_DRAFTS = "vllm:spec_decode_"
_IS_VLLM = "\nvllm:num_requests_running"


def honours_draft_caps(page: str) -> bool | None:
    """Whether it does; None when the page does not tell.

    >>> honours_draft_caps("vllm:num_requests_running 3.0\\n")
    True
    >>> honours_draft_caps("vllm:num_requests_running 3.0\\nvllm:spec_decode_num_drafts_total 1.0")
    False
    """
    text = f"\n{page}\n"
    at = text.find(_SAYS_SO)
    if at >= 0:
        line = text[at + 1 : text.find("\n", at + 1)]
        return line.rstrip().endswith((" 1.0", " 1"))
    if _DRAFTS in text:
        return False
    return True if _IS_VLLM in text else None
