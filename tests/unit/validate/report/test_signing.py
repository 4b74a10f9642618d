"""Signatures: a changed report is found, and only Ed25519 keys are taken."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from paceline.operations.validate.report.document import render_document
from paceline.operations.validate.report.signing import (
    KeyUnusable,
    SignatureInvalid,
    check_signature,
    fingerprint,
    load_private_key,
    load_public_key,
    sign,
)
from paceline.operations.validate.values import Status
from unit.validate.samples import document, result

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def signed() -> dict[str, Any]:
    report = document(result("a", Status.FAIL, p99_ms=0.1), result("é"))
    return json.loads(json.dumps(sign(render_document(report), KEY)))


def test_a_signed_report_is_valid_after_a_round_trip_through_a_file() -> None:
    report = signed()
    reordered = json.loads(json.dumps(dict(reversed(report.items())), indent=4))
    expected = fingerprint(KEY.public_key().public_bytes_raw())
    assert check_signature(report) == check_signature(reordered) == expected


def _set_status(report: dict[str, Any]) -> None:
    report["checks"][0]["status"] = "PASS"


def _drop_check(report: dict[str, Any]) -> None:
    report["checks"].pop()


def _set_figure(report: dict[str, Any]) -> None:
    report["checks"][0]["figures"]["p99_ms"] = 0.1000000001


def _add_key(report: dict[str, Any]) -> None:
    report["note"] = "approved"


def _swap_key(report: dict[str, Any]) -> None:
    raw = OTHER.public_key().public_bytes_raw()
    report["signature"]["public_key"] = base64.b64encode(raw).decode()


def _flip_bit(report: dict[str, Any]) -> None:
    value = bytearray(base64.b64decode(report["signature"]["value"]))
    value[5] ^= 1
    report["signature"]["value"] = base64.b64encode(value).decode()


@pytest.mark.parametrize(
    "change", [_set_status, _drop_check, _set_figure, _add_key, _swap_key, _flip_bit]
)
def test_any_change_invalidates(change: Callable[[dict[str, Any]], None]) -> None:
    report = signed()
    change(report)
    with pytest.raises(SignatureInvalid, match="changed after it was signed"):
        check_signature(report)


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        (None, "not signed"),
        ({"algorithm": "none"}, "algorithm is 'none'"),
        ({"algorithm": "ed25519", "note": "approved"}, "the key 'note', which is not signed"),
        ({"algorithm": "ed25519", "public_key": "!", "value": ""}, "public_key is not Base64"),
        ({"algorithm": "ed25519", "public_key": "AAAA", "value": ""}, "public key .* unusable"),
    ],
)
def test_a_broken_signature_is_refused(signature: object, reason: str) -> None:
    with pytest.raises(SignatureInvalid, match=reason):
        check_signature({**signed(), "signature": signature})


@pytest.mark.parametrize("value", [float("nan"), "\ud800"])
def test_values_that_cannot_be_signed_are_not_taken_for_a_broken_key(value: object) -> None:
    with pytest.raises(SignatureInvalid, match="the report has values that cannot be signed"):
        check_signature({**signed(), "seconds": value})


def test_a_report_of_another_key_is_refused() -> None:
    assert check_signature(signed(), KEY.public_key())
    with pytest.raises(SignatureInvalid, match=r"is signed by SHA256:.*, not by SHA256:"):
        check_signature(signed(), OTHER.public_key())


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_pem_and_ssh_keys_are_read(tmp_path: Path, form: PrivateFormat) -> None:
    file = tmp_path / "key"
    file.write_bytes(KEY.private_bytes(Encoding.PEM, form, NoEncryption()))
    assert load_private_key(file).private_bytes_raw() == KEY.private_bytes_raw()


def test_public_keys_are_read_in_every_form(tmp_path: Path) -> None:
    public = KEY.public_key()
    file = tmp_path / "key.pub"
    for data in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" user@host\n",
        base64.b64encode(public.public_bytes_raw()) + b"\n",
    ):
        file.write_bytes(data)
        assert load_public_key(file) == public


def test_unusable_keys_are_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "key"
    curve = generate_private_key(SECP256R1())
    for data, reason in (
        (b"hello", "no private key in PEM"),
        (curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "Ed25519"),
        (
            KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
            "encrypted",
        ),
    ):
        file.write_bytes(data)
        with pytest.raises(KeyUnusable, match=reason):
            load_private_key(file)
    file.write_bytes(b"hello")
    with pytest.raises(KeyUnusable, match="no public key"):
        load_public_key(file)
    with pytest.raises(KeyUnusable, match="cannot be read"):
        load_private_key(tmp_path / "none")
