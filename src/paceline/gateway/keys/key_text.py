"""What does a key look like, and what is kept of it?

`pl-<id>-<secret>`. The id is public: it names the key in lists and logs. The secret has 160 random
bits, so nobody finds it by trying, and a plain SHA-256 is enough to keep: slow hashes protect
passwords, which can be guessed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

ID_PATTERN = r"[a-z2-7]{8}"
_KEY = re.compile(rf"pl-({ID_PATTERN})-([a-z2-7]{{32}})")
_NUM_ID_BYTES = 5
_NUM_SECRET_BYTES = 20


def make_key() -> tuple[str, str]:
    """A new key: (id, secret)."""
    return _random_text(_NUM_ID_BYTES), _random_text(_NUM_SECRET_BYTES)


def join_key(key_id: str, secret: str) -> str:
    """What the client is given."""
    return f"pl-{key_id}-{secret}"


def split_key(text: str) -> tuple[str, str] | None:
    """(id, secret) of what a client sent; None when it cannot be a key of ours."""
    match = _KEY.fullmatch(text)
    return (match[1], match[2]) if match else None


def hash_secret(secret: str) -> str:
    """What is stored: the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _random_text(num_bytes: int) -> str:
    """In letters that survive being read aloud, copied, and put into any file; no padding for
    multiples of five bytes."""
    return base64.b32encode(secrets.token_bytes(num_bytes)).decode().lower()
