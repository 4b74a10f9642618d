"""Sign a document with an Ed25519 key and check the signature.

The signature covers the document without its key `signature`, as UTF-8 JSON with sorted keys and
without white space. A private key is a PEM file (PKCS #8) or an OpenSSH key such as
`~/.ssh/id_ed25519`; a public key is a PEM file, an OpenSSH `.pub` file or Base64 of 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

_SSH_MARK = b"OPENSSH PRIVATE KEY"


class KeyUnusable(Exception):
    """A key file cannot be used. The message says why."""


class SignatureInvalid(Exception):
    """The signature does not fit the document or the key. The message says how."""


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """What the signature covers.

    >>> signed_bytes({"b": 1.5, "a": "x", "signature": {}})
    b'{"a":"x","b":1.5}'
    """
    covered = {name: value for name, value in document.items() if name != "signature"}
    text = json.dumps(
        covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def sign(document: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The document with its key `signature`; an old signature is replaced."""
    value = key.sign(signed_bytes(document))
    return {
        **document,
        "signature": {
            "algorithm": "ed25519",
            "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
            "value": base64.b64encode(value).decode(),
        },
    }


def check_signature(
    document: Mapping[str, Any], expected_key: Ed25519PublicKey | None = None
) -> str:
    """The fingerprint of the key that signed the document. Raises `SignatureInvalid`.

    `expected_key`: the only key that is accepted.
    """
    signature = document.get("signature")
    if not isinstance(signature, Mapping):
        raise SignatureInvalid("the report is not signed (validate --sign KEY signs)")
    if signature.get("algorithm") != "ed25519":
        raise SignatureInvalid(
            f"the algorithm is {signature.get('algorithm')!r}; it must be 'ed25519'"
        )
    if unsigned := sorted(set(signature) - {"algorithm", "public_key", "value"}):
        raise SignatureInvalid(f"signature has the key {unsigned[0][:100]!r}, which is not signed")
    raw, value = (_decode(signature.get(name), name) for name in ("public_key", "value"))
    try:
        covered = signed_bytes(document)
    except ValueError as error:
        raise SignatureInvalid(f"the report has values that cannot be signed: {error}") from error
    try:
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(value, covered)
    except ValueError as error:
        raise SignatureInvalid(f"the public key of the signature is unusable: {error}") from error
    except InvalidSignature as error:
        raise SignatureInvalid("the report was changed after it was signed") from error
    if expected_key is not None and expected_key.public_bytes_raw() != raw:
        raise SignatureInvalid(
            f"the report is signed by {fingerprint(raw)}, not by "
            f"{fingerprint(expected_key.public_bytes_raw())} (--public-key)"
        )
    return fingerprint(raw)


def fingerprint(raw: bytes) -> str:
    """The fingerprint of the 32 bytes of a public key, as `ssh-keygen -l` shows it."""
    name = b"ssh-ed25519"
    blob = len(name).to_bytes(4, "big") + name + len(raw).to_bytes(4, "big") + raw
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def fingerprint_of(public_key: str) -> str:
    """The fingerprint of a public key in Base64, as a report has it. Raises `SignatureInvalid`."""
    return fingerprint(_decode(public_key, "public_key"))


def load_private_key(path: Path, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """The Ed25519 key of a file. Raises `KeyUnusable`."""
    data = _read(path)
    load = load_ssh_private_key if _SSH_MARK in data else load_pem_private_key
    try:
        key = load(data, passphrase)
    except TypeError as error:
        raise KeyUnusable(f"{path} is encrypted; give a key without a passphrase") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyUnusable(
            f"{path} is no private key in PEM (PKCS #8) or OpenSSH form ({error}); make one with "
            "openssl genpkey -algorithm ed25519 -out FILE"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyUnusable(f"{path} holds a {type(key).__name__}; it must be an Ed25519 key")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The Ed25519 key of a file. Raises `KeyUnusable`."""
    data = _read(path).strip()
    try:
        if data.startswith(b"-----BEGIN"):
            key: object = load_pem_public_key(data)
        elif data.startswith(b"ssh-"):
            key = load_ssh_public_key(data)
        else:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(data, validate=True))
    except (ValueError, UnsupportedAlgorithm, binascii.Error) as error:
        raise KeyUnusable(
            f"{path} is no public key in PEM, OpenSSH or Base64 form ({error})"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyUnusable(f"{path} holds a {type(key).__name__}; it must be an Ed25519 key")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyUnusable(f"{path} cannot be read: {error.strerror}") from error


def _decode(text: object, name: str) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (ValueError, binascii.Error) as error:
        raise SignatureInvalid(f"signature.{name} is not Base64") from error
