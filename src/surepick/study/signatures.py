"""Signatures and time stamps: who vouches for the head of a log or for a certificate, and since when.

A *head* is the number and the hash of an event: by the chain of hashes it stands for all events up to that one. An
*anchor* is an event that keeps a proof about an earlier head: a signature by an Ed25519 key, or a time stamp (RFC 3161)
of an authority. The time of a signature is what the writer's clock said. The time of a time stamp is the authority's.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from surepick.errors import InvalidInput, SurepickError
from surepick.study import clock

LONGEST_TOKEN = 65_536
"""Bytes of a time stamp; with all certificates of the authority it has about 6,000."""
# MessageImprint of RFC 3161: SHA-256 with or without the NULL of its parameters, then the 32 bytes; the serial number
# of the time stamp (an integer of at most 127 bytes); the time.
_STAMP = re.compile(
    rb"\x30[\x2f\x31]\x30[\x0b\x0d]\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01(?:\x05\x00)?\x04\x20(?P<hash>.{32})"
    rb"\x02[\x01-\x7f].{1,127}?\x18[\x0f-\x1f](?P<time>\d{14})(?:\.\d+)?Z",
    re.DOTALL,
)


class Stamp(NamedTuple):
    """What a time stamp says: a hash in hex, and a time as the log has them."""

    hash: str
    at: str


def read_stamp(token: bytes) -> Stamp:
    """Read the SHA-256 hash and the time of an RFC 3161 time stamp, a token or a whole response.

    This finds the two entries and checks no signature: `openssl ts -verify` does that (`openssl_command`).

    Raises:
        InvalidInput: there are none.
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
    return Stamp(found["hash"].hex(), clock.written(time))


def openssl_command(anchor: Mapping[str, Any], file: str) -> str:
    """Return what to type to check the time stamp of an anchor that is in that file."""
    token = base64.b64decode(anchor["token"])
    # Both are sequences: a token begins with the name of its type (tag 6), a response with a status.
    is_token = token[2 + (token[1] & 0x7F if token[1] & 0x80 else 0)] == 6
    return f"openssl ts -verify -digest {anchor['hash']} -in {file} {'-token_in ' * is_token}-CAfile authority.pem"


def head_text(n: int, digest: str) -> str:
    """Return the text that is signed for a head; no certificate is signed by the same text."""
    return f"surepick head {n} {digest}"


def check_anchor(event: Mapping[str, Any]) -> str:
    """Check the proof that an anchor keeps; return what it says, in words.

    Raises:
        InvalidInput: it is not about the head that the event names.
    """
    if ("token" in event) is ("signature" in event):
        raise InvalidInput("an anchor has a time stamp or a signature")
    if "token" in event:
        try:
            stamp = read_stamp(base64.b64decode(event["token"], validate=True))
        except binascii.Error as error:
            raise InvalidInput(f"its time stamp is no base64: {error}") from error
        if stamp.hash != event["hash"]:
            raise InvalidInput(f"its time stamp is of the hash {stamp.hash}")
        return f"time stamp of {stamp.at}, whose signature is not checked here"
    if not is_signed(event["signature"], head_text(event["event"], event["hash"])):
        raise InvalidInput("its signature is not of that head")
    return f"signed by the key {event['signature']['public_key']} at {event['at']}, by the writer's clock"


def is_encrypted(key: Path) -> bool:
    """Whether a private key in a PEM file needs a password."""
    try:
        return b"ENCRYPTED" in key.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{key} must be an Ed25519 private key in PEM: {error.strerror}.") from error


def signature_of(text: str, key: Path, password: str | None = None) -> dict[str, str]:
    """Sign a text by an Ed25519 private key in a PEM file."""
    _check_can_sign()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    locked = is_encrypted(key)
    if locked and not password:
        raise InvalidInput(f"{key} is encrypted; give its password (SUREPICK_KEY_PASSWORD at the command line).")
    try:
        private = load_pem_private_key(key.read_bytes(), password=password.encode() if locked and password else None)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{key} cannot be opened with this password; check it, and that the file is an Ed25519 private key in PEM."
            if locked
            else f"{key} must be an Ed25519 private key in PEM: {error}."
        ) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise InvalidInput(f"{key} must be an Ed25519 key, got one of another kind.")
    return {
        "public_key": private.public_key().public_bytes_raw().hex(),
        "value": private.sign(text.encode()).hex(),
    }


def is_signed(signature: Mapping[str, str], text: str) -> bool:
    """Whether the owner of the public key in the signature has signed this text."""
    _check_can_sign()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature["public_key"]))
    try:
        public.verify(bytes.fromhex(signature["value"]), text.encode())
    except InvalidSignature:
        return False
    return True


def read_public_key(path: Path) -> bytes:
    """Read an Ed25519 public key."""
    _check_can_sign()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 (optional)
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be an Ed25519 public key in PEM: {error}.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} must be an Ed25519 key, got one of another kind.")
    return key.public_bytes_raw()


def _check_can_sign() -> None:
    if find_spec("cryptography") is None:
        raise SurepickError("signatures need cryptography; install it with: pip install 'surepick[sign]'.")
