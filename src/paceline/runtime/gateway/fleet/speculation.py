"""Learn from a server's metrics page whether it drafts, and whether it keeps to draft caps.

vLLM has the metrics of its speculation only where it drafts; without them there are no drafts to
cap. A vLLM server with Paceline's scheduler reports that it keeps to caps
(`paceline.runtime.engine.front_end`).
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.runtime.gateway.fleet.metrics_page import MetricsPage

_HONOURS_CAPS = "paceline_engine_honours_draft_caps"
_DRAFTS = "vllm:spec_decode_"
_IS_VLLM = "vllm:num_requests_running"


@dataclass(frozen=True, slots=True)
class Speculation:
    """What a server's metrics say about its speculation; None for what they do not say."""

    drafts: bool | None = None
    """Whether it uses speculative decoding."""
    honours_draft_caps: bool | None = None
    """Whether it keeps to a request's limit on draft tokens."""

    @property
    def is_governed(self) -> bool:
        """Whether it drafts under Paceline's scheduler, which serves `min_p` and `logit_bias`
        without drafts on CPUs and refuses them elsewhere."""
        return self.drafts is True and self.honours_draft_caps is True


def read_speculation(page: MetricsPage) -> Speculation:
    """What this page says.

    >>> read_speculation(MetricsPage("vllm:num_requests_running 3.0\\n"))
    Speculation(drafts=False, honours_draft_caps=True)
    >>> read_speculation(MetricsPage("vllm:num_requests_running 3\\nvllm:spec_decode_num_drafts 1"))
    Speculation(drafts=True, honours_draft_caps=False)
    """
    drafts = False if page.has_prefix(_IS_VLLM) else None
    if page.has_prefix(_DRAFTS) or page.has_prefix(f"# TYPE {_DRAFTS}"):
        drafts = True
    if page.has_prefix(_HONOURS_CAPS):
        values = page.samples(_HONOURS_CAPS).values()
        return Speculation(drafts, bool(values) and all(value == 1 for value in values))
    return Speculation(drafts, None if drafts is None else not drafts)
