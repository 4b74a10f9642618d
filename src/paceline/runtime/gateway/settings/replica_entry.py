"""One entry of `replicas`: a remote replica, or a DNS name whose addresses are replicas.

A value that validates itself; it comes from `paceline.yaml` or from POST /admin/replicas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.gateway.settings.names import MAX_MODEL_CHARS, MAX_REVISION_CHARS, check_name
from paceline.runtime.gateway.settings.replica_address import canonical_dns, canonical_url

DIALECT_NAMES = (
    "vllm", "sglang", "trtllm", "triton", "tgi", "llamacpp", "llamacpp-python", "openai"
)  # fmt: skip
"""Kinds of servers. `fleet.dialects` has one entry for each; a test compares the two."""

_NAME = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:@\-\[\]]{0,99}")
_MAX_KEY_CHARS = 4096
"""Servers take some 8,000 bytes for a line of headers."""
_MAX_IN_FLIGHT = 1_000_000
_MAX_TOKENS_IN_FLIGHT = 10**12
"""Far above any server, and far below what messages between processes can hold."""


@dataclass(frozen=True, slots=True)
class ReplicaEntry:
    """The address of a replica, and how to use it. Raises `ValueError` with the wrong field."""

    url: str | None = None
    """http://host[:port] or https://host[:port], without a path; stored in canonical form."""
    dns: str | None = None
    """host:port, instead of `url`; each address of the host is a replica, over http."""
    name: str | None = None
    """Name of the replica, also in metrics; by default host:port. The replicas of a DNS name are
    called name@address."""
    model: str | None = None
    """Model id that clients name; None for the first that the replica lists."""
    dialect: str = "vllm"
    """Kind of server: a name in the table of `dialects`."""
    drafts: bool | None = None
    """Whether it refuses `min_p` and `logit_bias` because it uses speculative decoding; None to
    read it from the metrics of a vLLM server."""
    revision: str | None = None
    """Name of what it serves: model, weights, tokenizer and chat template. Only replicas of the
    same revision continue each other's streams. None to read it from the metrics of a vLLM
    server."""
    key: str | None = field(default=None, repr=False)
    """API key, sent to the replica as a bearer token."""
    max_in_flight: int | None = None
    """Most sequences in flight on it; None for `admission.max_in_flight`."""
    max_tokens_in_flight: int | None = None
    """Most tokens in flight on it; None for `admission.max_tokens_in_flight`."""

    def __post_init__(self) -> None:
        if (self.url is None) == (self.dns is None):
            raise ValueError("give either url (http://host:port) or dns (host:port), not both")
        if self.url is not None:
            object.__setattr__(self, "url", canonical_url(self.url))
        if self.dns is not None:
            object.__setattr__(self, "dns", canonical_dns(self.dns))
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name is {self.name[:100]!a}; it must be 1 to 100 letters, digits and . _ : @ - "
                "[ ], starting with a letter, a digit or ["
            )
        if self.model is not None:
            check_name("model", self.model, MAX_MODEL_CHARS)
        if self.revision is not None:
            check_name("revision", self.revision, MAX_REVISION_CHARS)
        if self.dialect not in DIALECT_NAMES:
            raise ValueError(
                f"dialect is {self.dialect[:100]!a}; it must be one of {', '.join(DIALECT_NAMES)}"
                f"{did_you_mean(self.dialect, DIALECT_NAMES)}"
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise ValueError("key has characters that are not allowed in an HTTP header")
        if self.key is not None and len(self.key) > _MAX_KEY_CHARS:
            raise ValueError(
                f"key has {len(self.key)} characters; it may have at most {_MAX_KEY_CHARS}"
            )
        if self.key is not None and (not self.key or " " in self.key):
            raise ValueError(
                "key is empty or contains spaces; it must be one word, sent as a bearer token"
            )
        _check_limit("max_in_flight", self.max_in_flight, _MAX_IN_FLIGHT)
        _check_limit("max_tokens_in_flight", self.max_tokens_in_flight, _MAX_TOKENS_IN_FLIGHT)

    @property
    def label(self) -> str:
        """The configured name, else host:port."""
        if self.name is not None:
            return self.name
        return self.dns or (self.url or "").partition("://")[2]

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Host and port of a DNS entry."""
        host, _, port = (self.dns or "").rpartition(":")
        return host, int(port)


def _check_limit(name: str, limit: int | None, most: int) -> None:
    if limit is None or 1 <= limit <= most:
        return
    allowed = f"at least 1 and at most {most:,}"
    given = f" {limit}" if abs(limit) <= most else " out of range"
    raise ValueError(f"{name} is{given}; it must be {allowed}")
