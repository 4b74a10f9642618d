"""Cache salts: separate tenants in the engines' prefix caches.

A request with a cached prefix is answered faster, so a tenant that guesses prompts could learn from
response times what others sent. vLLM mixes `cache_salt` into the hash of a request's first block:
requests with different salts share no blocks. The salt of a tenant is
`base64url(HMAC-SHA256(secret, tenant))`, 43 characters. It is not plain base64, because vLLM
refuses `/` in a salt.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from pathlib import Path

from paceline.foundation.files.bounded_reading import read_bounded
from paceline.foundation.files.writable import check_creatable
from paceline.runtime.gateway.keys.file import create_private
from paceline.runtime.gateway.keys.record import KeysUnusable

logger = logging.getLogger(__name__)

_NUM_SECRET_BYTES = 32
_MAX_BYTES = 200
"""More than the secret with blanks around it."""
_SECRET = re.compile(r"[0-9a-f]{64}")


def salt_of(secret: bytes, tenant: str) -> str:
    """The tenant's salt. It depends on secret and tenant only, so all gateways agree on it."""
    digest = hmac.digest(secret, tenant.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def read_or_create_secret(path: Path) -> bytes:
    """Read the secret, and create its file at the first use. Raises `KeysUnusable`.

    If several gateways start together, one creates the file and all use it.
    """
    try:
        if not os.path.lexists(path):
            created = secrets.token_hex(_NUM_SECRET_BYTES) + "\n"
            with contextlib.suppress(FileExistsError):  # another gateway created it first
                create_private(path, created.encode())
        mode, secret = _read(path)
    except OSError as error:
        raise _unusable(path, error) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning("%s is readable by other users; remove that permission: chmod 600", path)
    return secret


def check_secret(path: Path) -> None:
    """Raise `KeysUnusable` unless the secret can be read, or its file created. Creates none."""
    try:
        if os.path.lexists(path):
            _read(path)
            return
        check_creatable(path)
    except OSError as error:
        raise _unusable(path, error) from None


def _read(path: Path) -> tuple[int, bytes]:
    """Mode of the file, and the secret."""
    status, content = read_bounded(path, _MAX_BYTES)
    text = content.decode("ascii", "replace").strip()
    if not _SECRET.fullmatch(text):
        raise KeysUnusable(
            f"{path} does not hold 64 hexadecimal digits in lower case; remove it, and the gateway "
            "creates a new one"
        )
    return status.st_mode, bytes.fromhex(text)


def _unusable(path: Path, error: OSError) -> KeysUnusable:
    return KeysUnusable(
        f"{path}, the secret of the cache salts, cannot be read or created: {error.strerror}; "
        "set keys.salt_file to a path where it can"
    )
