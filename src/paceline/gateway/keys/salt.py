"""How are tenants kept apart in the engines' prefix caches?

A cached prefix answers faster, so whoever may guess at prompts can learn by the clock what others
sent. vLLM mixes `cache_salt` into the hash of a request's first block: requests of different salts
share no blocks. The salt of a tenant is `base64url(HMAC-SHA256(secret, tenant))`, 43 characters.
Not plain base64: vLLM refuses `/` in a salt.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import re
import secrets
import stat
from pathlib import Path

from paceline.gateway.keys.file import create_private
from paceline.gateway.keys.record import KeysUnusable

logger = logging.getLogger(__name__)

_NUM_SECRET_BYTES = 32
_SECRET = re.compile(r"[0-9a-f]{64}")


def salt_of(secret: bytes, tenant: str) -> str:
    """The same for the same secret and tenant, on every gateway and after every restart."""
    digest = hmac.digest(secret, tenant.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def read_or_create_secret(path: Path) -> bytes:
    """The secret of the file, which is made at its first use. May raise `KeysUnusable`.

    Of gateways that start together one makes it, and all use that.
    """
    try:
        if not path.exists():
            created = secrets.token_hex(_NUM_SECRET_BYTES) + "\n"
            with contextlib.suppress(FileExistsError):  # another gateway was first
                create_private(path, created.encode())
        with path.open("rb") as file:
            text = file.read(200).decode("ascii", "replace").strip()
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            logger.warning("%s may be read by other users; take that away: chmod 600", path)
    except OSError as error:
        raise KeysUnusable(
            f"{path}, the secret of the cache salts, cannot be read or made: {error.strerror}; "
            "set keys.salt_file to where it can"
        ) from None
    if not _SECRET.fullmatch(text):
        raise KeysUnusable(
            f"{path} does not hold 64 hexadecimal digits in lower case; remove it to have it made"
        )
    return bytes.fromhex(text)
