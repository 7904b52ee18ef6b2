"""A digest as JSON, posted with a signature."""

import hashlib
import hmac
import http.client
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from auditor import money
from auditor.deliver.digest import Digest
from auditor.deliver.handover import Handover, NotHandedOver, Uncertain
from auditor.deliver.mail import subject

SCHEMA_VERSION = "1.0"


def body(digest: Digest) -> bytes:
    """The digest as JSON; money is text, the lists are cut at the digest's rows and counted beside."""
    values = asdict(digest)
    for name in ("open", "new", "reopened", "resolved"):
        values[f"{name}_count"] = len(values[name])
        values[name] = values[name][: digest.rows]
    values |= {"schema_version": SCHEMA_VERSION, "subject": subject(digest)}
    return json.dumps(values, default=_plain, ensure_ascii=False).encode("utf-8", "replace")


def signature(secret: str, timestamp: str, content: bytes) -> str:
    """HMAC-SHA256 over `<timestamp>.<body>`: a receiver that also checks the age refuses what is played back."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + content, hashlib.sha256).hexdigest()


def hand_over_webhook(
    digest: Digest,
    *,
    url: str,
    secret: str,
    message_id: str,
    now: datetime,
    ca_file: Path | None,
    timeout: float,
    handing_over: Handover,
) -> None:
    """Post the digest. Raises NotHandedOver where the receiver refused it or was not there, Uncertain without an answer."""
    content = body(digest)
    timestamp = str(int(now.timestamp()))
    request = urllib.request.Request(  # noqa: S310 - the settings allow https, and http on this machine only
        url,
        data=content,
        method="POST",
        headers={
            "Content-Type": "application/json",
            "User-Agent": "auditor",
            "Idempotency-Key": message_id.strip("<>"),
            "X-Auditor-Timestamp": timestamp,
            "X-Auditor-Signature": signature(secret, timestamp, content),
        },
    )
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    handing_over()
    try:
        with opener.open(request, timeout=timeout) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotHandedOver(f"webhook: the receiver answered {error.code}", again=error.code in _PASSING) from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, (ConnectionRefusedError, ssl.SSLCertVerificationError)) or _no_name(error.reason):
            raise NotHandedOver(f"webhook: {error.reason}") from error
        raise Uncertain(f"webhook: no answer: {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise Uncertain(f"webhook: no answer: {error or type(error).__name__}") from error


_PASSING = (408, 425, 429, 500, 502, 503, 504)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signed body goes to the address that was configured and to no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _no_name(reason: object) -> bool:
    import socket

    return isinstance(reason, socket.gaierror)


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return money.text(value)
    raise TypeError(f"a digest holds no {type(value).__name__}")
