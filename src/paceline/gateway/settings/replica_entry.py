"""One entry of `replicas`: a remote replica, or a DNS name whose addresses are replicas.

A value that validates itself; it comes from `paceline.yaml` or from POST /admin/replicas.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

DIALECT_NAMES = (
    "vllm", "sglang", "trtllm", "triton", "tgi", "llamacpp", "llamacpp-python", "openai"
)  # fmt: skip
"""Kinds of servers. `fleet.dialects` has one entry for each; a test compares the two."""

_NAME = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:@\-\[\]]{0,99}")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_\-.]{0,251}[A-Za-z0-9_.])?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


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
            host, port = _host_and_port(self.dns)
            object.__setattr__(self, "dns", f"{host}:{port}")
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name is {self.name[:100]!r}; it must be 1 to 100 letters, digits and . _ : @ - "
                "[ ], starting with a letter, a digit or ["
            )
        if self.model is not None and not self.model:
            raise ValueError(
                "model is empty; leave it out to use the first model that the replica lists"
            )
        if self.dialect not in DIALECT_NAMES:
            raise ValueError(
                f"dialect is {self.dialect[:100]!r}; it must be one of {', '.join(DIALECT_NAMES)}"
            )
        if self.revision is not None and not 1 <= len(self.revision) <= 100:
            raise ValueError(
                f"revision has {len(self.revision)} characters; it must have 1 to 100, or be left "
                "out"
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise ValueError("key has characters that are not allowed in an HTTP header")
        if self.key is not None and (not self.key or " " in self.key):
            raise ValueError(
                "key is empty or contains spaces; it must be one word, sent as a bearer token"
            )
        for name in ("max_in_flight", "max_tokens_in_flight"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} is {limit}; it must be at least 1")

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


def canonical_url(url: str) -> str:
    """Canonical form of a URL: host in lower case, no default port, no trailing slash."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"url is {url[:200]!r}; it is not a valid URL") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"url is {url[:200]!r}; it must be http://host:port or https://host:port")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url contains a user or a password; set an API key with key_file")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            f"url is {url[:200]!r}; leave out everything after the host and port (the gateway "
            "adds /v1/…)"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default = port is None or port == _DEFAULT_PORTS[parts.scheme]
    return f"{parts.scheme}://{host}" if is_default else f"{parts.scheme}://{host}:{port}"


def replica_url(address: str, port: int) -> str:
    """URL of one IP address of a DNS name."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return canonical_url(f"http://{host}:{port}")


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not _HOST.fullmatch(host) or not (port.isascii() and port.isdigit()):
        raise ValueError(f"dns is {text[:200]!r}; it must be host:port, for example llm.svc:8000")
    if not 1 <= int(port) <= 65_535:
        raise ValueError(f"dns is {text[:200]!r}; the port must be 1 to 65535")
    return host.lower(), int(port)
