"""Signatures and time stamps of certificates and of heads of a log.

A *head* is the number and hash of an event: by the hash chain it stands for all events up to that one. An *anchor* is
an event that keeps a proof about an earlier head: a signature, or a time stamp (RFC 3161) of an authority. The time of
a signature is that of the writer's clock; the time of a time stamp is the authority's.

The signature of a certificate is a DSSE envelope (Dead Simple Signing Envelope, version 1) with one Ed25519 signature
over the certificate's digest, which other tools read. An anchor keeps a bare signature of `head_text`, as key and value
in hex, because the form of events does not change. The first version signed certificates in the bare form too; such
signatures are still checked.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from surepick.errors import InvalidInput, SurepickError
from surepick.study.events import written

LONGEST_TOKEN = 65_536
"""Bytes of a time stamp; with all certificates of the authority it has about 6,000."""
PAYLOAD_TYPE = "application/vnd.surepick.certificate-digest"
"""Type of an envelope's payload: the digest of a certificate, in hex."""
# MessageImprint of RFC 3161: SHA-256 with or without the NULL of its parameters, then the 32 bytes; the serial number
# of the time stamp (an integer of at most 127 bytes); the time.
_STAMP = re.compile(
    rb"\x30[\x2f\x31]\x30[\x0b\x0d]\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01(?:\x05\x00)?\x04\x20(?P<hash>.{32})"
    rb"\x02[\x01-\x7f].{1,127}?\x18[\x0f-\x1f](?P<time>\d{14})(?:\.\d+)?Z",
    re.DOTALL,
)


class Stamp(NamedTuple):
    """Hash and time of a time stamp, written as in the log."""

    hash: str
    at: str


def read_stamp(token: bytes) -> Stamp:
    """Read the SHA-256 hash and the time of an RFC 3161 time stamp, a token or a whole response.

    This does not check the authority's signature; `openssl ts -verify` does (`openssl_command`).

    Raises:
        InvalidInput: the token has no such entries.
    """
    found = _STAMP.search(token) if len(token) <= LONGEST_TOKEN else None
    if found is None:
        raise InvalidInput(
            f"a time stamp must be an RFC 3161 token of a SHA-256 hash, of at most {LONGEST_TOKEN:,} bytes, got "
            f"{len(token):,} bytes without one; ask an authority for it with openssl ts -query -digest HASH -sha256."
        )
    try:
        time = datetime.strptime(found["time"].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInput(f"the time of a time stamp must be one, got {found['time'].decode()}.") from error
    return Stamp(found["hash"].hex(), written(time))


def openssl_command(anchor: Mapping[str, Any], file: str) -> str:
    """Return the command that checks the time stamp of an anchor, written to a file."""
    token = base64.b64decode(anchor["token"])
    # Both are sequences: a token begins with the name of its type (tag 6), a response with a status.
    is_token = token[2 + (token[1] & 0x7F if token[1] & 0x80 else 0)] == 6
    return f"openssl ts -verify -digest {anchor['hash']} -in {file} {'-token_in ' * is_token}-CAfile authority.pem"


def head_text(n: int, digest: str) -> str:
    """Return the text that is signed for a head."""
    return f"surepick head {n} {digest}"


def check_anchor(event: Mapping[str, Any]) -> str:
    """Check the proof of an anchor; return a description of the proof.

    Raises:
        InvalidInput: the proof is not about the head that the event names.
    """
    if ("token" in event) is ("signature" in event):
        raise InvalidInput("an anchor has a time stamp or a signature")
    if "token" in event:
        try:
            stamp = read_stamp(base64.b64decode(event["token"], validate=True))
        except binascii.Error as error:
            raise InvalidInput(f"its time stamp is not base64: {error}") from error
        if stamp.hash != event["hash"]:
            raise InvalidInput(f"its time stamp is of the hash {stamp.hash}")
        return f"time stamp of {stamp.at}, whose signature is not checked here"
    signer = signer_of(event["signature"], head_text(event["event"], event["hash"]))
    if signer is None:
        raise InvalidInput("its signature is not of that head")
    return f"signed by the key {signer} at {event['at']}, by the writer's clock"


def stamp_of_head(token: bytes, heads: Mapping[str, int], last: tuple[int, str]) -> dict[str, Any]:
    """Return the fields of an anchor that keeps a time stamp.

    Args:
        token: of the authority.
        heads: the number of each event of the log, by its hash.
        last: number and hash of the last event.
    """
    digest = read_stamp(token).hash
    if digest not in heads:
        raise InvalidInput(
            f"the time stamp must be of the hash of an event of this log, got one of {digest}; the last event, "
            f"{last[0]}, has the hash {last[1]}."
        )
    return {"event": heads[digest], "hash": digest, "token": _base64(token)}


def signature_of_head(head: tuple[int, str], key: Path, password: str | None) -> dict[str, Any]:
    """Return the fields of an anchor that keeps a signature of a head by a private key."""
    return {"event": head[0], "hash": head[1], "signature": signature_of(head_text(*head), key, password)}


def is_encrypted(key: Path) -> bool:
    """Whether a private key in a PEM file needs a password."""
    try:
        return b"ENCRYPTED" in key.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{key} must be an Ed25519 private key in PEM: {error.strerror}.") from error


def signature_of(text: str, key: Path, password: str | None = None) -> dict[str, str]:
    """Sign a text by an Ed25519 private key in a PEM file; return public key and signature in hex."""
    private = _read_private_key(key, password)
    return {"public_key": private.public_key().public_bytes_raw().hex(), "value": private.sign(text.encode()).hex()}


def envelope_of(digest: str, key: Path, password: str | None = None) -> dict[str, Any]:
    """Sign the digest of a certificate by an Ed25519 private key in a PEM file; return the DSSE envelope."""
    private = _read_private_key(key, password)
    keyid = private.public_key().public_bytes_raw().hex()
    return {**_payload(digest), "signatures": [{"keyid": keyid, "sig": _base64(private.sign(_encoded(digest)))}]}


def signer_of(signature: Any, text: str) -> str | None:
    """Return the public key, in hex, whose owner signed a text; None if the signature is not of this text.

    Args:
        signature: as `signature_of` or `envelope_of` returns it.
        text: the text, or the digest.

    Raises:
        InvalidInput: not a signature, or one with further entries.
    """
    ed25519, _ = _cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 (optional)

    try:
        if is_envelope := "payload" in signature:
            (one,) = signature["signatures"]
            public, value = one["keyid"], base64.b64decode(one["sig"], validate=True)
        else:
            one = signature
            public, value = one["public_key"], bytes.fromhex(one["value"])
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput("a signature must be a DSSE envelope with one Ed25519 signature.") from error
    if len(one) > 2:
        raise InvalidInput("a signature must have a key and a value, and nothing else.")
    if is_envelope and signature != {**_payload(text), "signatures": [one]}:
        return None
    try:
        key.verify(value, _encoded(text) if is_envelope else text.encode())
    except InvalidSignature:
        return None
    return str(public).lower()


def read_public_key(path: Path) -> str:
    """Read an Ed25519 public key in PEM; return the key in hex."""
    ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be an Ed25519 public key in PEM: {error}.") from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise InvalidInput(f"{path} must be an Ed25519 key, got one of another kind.")
    return str(key.public_bytes_raw().hex())


def _read_private_key(key: Path, password: str | None) -> Any:
    ed25519, serialization = _cryptography()
    locked = is_encrypted(key)
    if locked and not password:
        raise InvalidInput(f"{key} is encrypted; give its password (SUREPICK_KEY_PASSWORD at the command line).")
    try:
        private = serialization.load_pem_private_key(
            key.read_bytes(), password=password.encode() if locked and password else None
        )
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{key} cannot be opened with this password; check it, and that the file is an Ed25519 private key in PEM."
            if locked
            else f"{key} must be an Ed25519 private key in PEM: {error}."
        ) from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InvalidInput(f"{key} must be an Ed25519 key, got one of another kind.")
    return private


def _payload(digest: str) -> dict[str, str]:
    return {"payloadType": PAYLOAD_TYPE, "payload": _base64(digest.encode())}


def _encoded(digest: str) -> bytes:
    """Return the bytes that DSSE signs (its pre-authentication encoding): type and payload, each after its length."""
    return f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(digest.encode())} {digest}".encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _cryptography() -> tuple[Any, Any]:
    """Return the modules of the optional package."""
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SurepickError("signatures need cryptography; install it with: pip install 'surepick[sign]'.") from error
    return ed25519, serialization
