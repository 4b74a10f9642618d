"""A fault: its kind, the requests that trigger it, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline.testing.mock_vllm.model.sampling_defect import DefectKind


class FaultKind(StrEnum):
    DIE = "die"
    """The process ends: by SIGKILL, or with `exit_code`."""
    HANG = "hang"
    """The engine stops: no stream continues, and /health still answers."""
    FREEZE = "freeze"
    """No request is answered; connections are still accepted."""
    SLOW = "slow"
    """All times are multiplied by `factor`."""
    REFUSE = "refuse"
    """New connections are refused; open ones continue."""
    STATUS = "status"
    """The answer is an error with `status` in vLLM's format."""
    STALL = "stall"
    """This stream stops and its connection stays open; other streams continue."""
    RESET = "reset"
    """The connection is reset."""
    HALF_CLOSE = "half_close"
    """The server half-closes the connection in the middle of the body and keeps it open."""
    TEAR = "tear"
    """Half of an event is sent, then the connection is closed."""
    NO_DONE = "no_done"
    """The body is complete as HTTP, but has no [DONE]."""
    BAD_CHUNKING = "bad_chunking"
    """An invalid HTTP chunk size is sent, then the connection is closed."""
    LONG_LINE = "long_line"
    """An additional event of `size_bytes` in one line is sent; the stream continues."""
    BAD_JSON = "bad_json"
    """An additional event that is not valid JSON is sent; the stream continues."""
    ERROR_EVENT = "error_event"
    """vLLM's error event and [DONE] end the stream."""
    ERROR_OBJECT = "error_object"
    """An error object of another form than vLLM's, with status 200: as the whole body before the
    first byte, later as an event before [DONE]."""
    EMPTY = "empty"
    """Status 200 and no body; a stream has no event."""
    # Wrong sampling, as in broken speculative decoding; `DefectKind` describes each.
    NO_DEFECT = "no_defect"
    ACCEPT_ALL = "accept_all"
    OFF_BY_ONE = "off_by_one"
    WRONG_DRAFT_PROBS = "wrong_draft_probs"
    RESIDUAL_FROM_TARGET = "residual_from_target"
    BONUS_FROM_DRAFT = "bonus_from_draft"
    TEMPERATURE_IGNORED = "temperature_ignored"
    FILTERS_IGNORED = "filters_ignored"
    PENALTIES_IGNORED = "penalties_ignored"
    LOGIT_BIAS_IGNORED = "logit_bias_ignored"
    RANDOM_TEMPERATURE = "random_temperature"
    SEED_REUSE = "seed_reuse"
    ARGMAX_FLIP = "argmax_flip"


SERVER_KINDS = frozenset(
    {FaultKind.DIE, FaultKind.HANG, FaultKind.FREEZE, FaultKind.SLOW, FaultKind.REFUSE}
)
"""Faults of the whole server; all others concern one answer."""
SAMPLING_KINDS = frozenset(FaultKind(kind.value) for kind in DefectKind)
"""Faults of the sampler: the answer is complete and its tokens are wrong."""
_KINDS_WITH_DURATION = SERVER_KINDS - {FaultKind.DIE} | {FaultKind.STALL}
_ROUTES = ("generate", "detokenize", "health", "models", "metrics", "any")


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a fault script."""

    kind: FaultKind
    route: str = "generate"
    """generate (chat and text completions), detokenize, health, models, metrics or any."""
    after_tokens: int | None = None
    """Inject the fault once this many tokens of an answer have been sent; 0: after the head of the
    response, before the first token. None: when the request arrives."""
    containing: str | None = None
    """Only requests whose prompt contains this text; also those that continue an answer to it."""
    ending: str | None = None
    """Only requests whose prompt ends with this text: not those that continue an answer to it."""
    request: int | None = None
    """Only the n-th request to the route, from 1, counted since the fault was added."""
    every: int | None = None
    """Only every n-th request to the route."""
    rate: float | None = None
    """Only this fraction of requests, drawn with the server's seed."""
    times: int | None = None
    """Maximum number of times the fault is injected."""
    after_s: float = 0.0
    """Delay before the fault is added."""
    duration_s: float | None = None
    """Duration of hang, freeze, slow, refuse and stall. None: until faults are cleared."""
    status: int = 503
    factor: float = 10.0
    exit_code: int | None = None
    size_bytes: int = 10_000_000
    share: float = 1.0
    """Of a fault of the sampler: the fraction of the tokens after the first that are affected."""

    def __post_init__(self) -> None:
        if self.route not in _ROUTES:
            raise ValueError(f"route must be one of {', '.join(_ROUTES)}; got {self.route!r}.")
        if self.route != "generate" and self.after_tokens is not None:
            raise ValueError(f"after_tokens requires route generate; got {self.route}.")
        if self.after_tokens is not None and self.kind in (FaultKind.STATUS, FaultKind.EMPTY):
            raise ValueError(
                f"kind {self.kind} replaces the answer, so it must not have after_tokens."
            )
        for name in ("containing", "ending"):
            if self.route != "generate" and getattr(self, name) is not None:
                raise ValueError(f"{name} requires route generate; got {self.route}.")
        if self.duration_s is not None and self.kind not in _KINDS_WITH_DURATION:
            allowed = ", ".join(sorted(_KINDS_WITH_DURATION))
            raise ValueError(f"duration_s needs a kind of {allowed}; got {self.kind}.")
        is_partial = self.route != "generate" or self.after_tokens is not None
        if self.kind in SAMPLING_KINDS and is_partial:
            raise ValueError(
                f"kind {self.kind} concerns whole answers: it needs route generate and must not "
                "have after_tokens."
            )
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}.")
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ValueError(f"rate must be in [0, 1], got {self.rate}.")
        if not 201 <= self.status <= 599:
            raise ValueError(f"status must be in 201 to 599, got {self.status}.")
        if self.factor <= 0:
            raise ValueError(f"factor must be positive, got {self.factor}.")
        for name in ("request", "every", "times"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        for name in ("after_tokens", "after_s", "duration_s"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}.")

    @property
    def is_immediate(self) -> bool:
        """Whether the fault is injected when it is added, without waiting for a request."""
        conditions = (
            *(self.after_tokens, self.containing, self.ending),
            *(self.request, self.every, self.rate, self.times),
        )
        return self.kind in SERVER_KINDS and all(value is None for value in conditions)
