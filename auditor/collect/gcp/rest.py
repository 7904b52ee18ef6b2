"""Google's REST APIs as one session: credentials, pages, retries, and refusals with their reason."""

import json
import logging
import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import google.auth
import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from auditor.collect.budget import Budget
from auditor.collect.gcp.calls import CALLS, Call
from auditor.settings import LOOPBACK

log = logging.getLogger(__name__)

# Permissions are what limits it; several of the APIs know no narrower scope.
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT = (10, 120)  # seconds to connect, and between two bytes
_ATTEMPTS = 6
_LONGEST_WAIT = 60.0
_BUSY = frozenset({408, 429, 500, 502, 503, 504})

Params = Mapping[str, str | int | list[str]]


@dataclass
class Refused(Exception):
    """An API said no; `reason` is the vendor's own word, such as SERVICE_DISABLED."""

    call: Call
    status: int
    reason: str
    message: str
    about: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.call.name}: {self.status} {self.reason}: {self.message}"


def is_stand_in(endpoint_url: str | None) -> bool:
    """Whether an emulator on this machine is asked, which gets no credentials."""
    parts = urlsplit(endpoint_url or "")
    return parts.scheme == "http" and parts.hostname in LOOPBACK


def credentials(endpoint_url: str | None) -> tuple[Any, str | None]:
    """The application default credentials and their project; none for an emulator on this machine."""
    if is_stand_in(endpoint_url):
        return AnonymousCredentials(), None  # type: ignore[no-untyped-call]
    found, project = google.auth.default(scopes=[_SCOPE])
    return found, project


class Google:
    """What the collector's parts ask by. Safe for threads, each of which has a session of its own."""

    def __init__(self, endpoint_url: str | None, budget: Budget) -> None:
        self.endpoint_url = endpoint_url
        self.budget = budget
        self.credentials, self.project = credentials(endpoint_url)
        self._local = threading.local()

    def book(self, name: str, *, money: Decimal = Decimal(0), bytes_: int = 0, calls: int = 1) -> Call:
        """The call of this name, booked. Raises BudgetReached where a cap forbids it."""
        call = CALLS[name]
        api, _, method = name.partition(".")
        self.budget.spend(f"{api}:{method}", calls=calls, money=money, bytes_=bytes_)
        return call

    def ask(self, name: str, params: Params | None = None, **where: str) -> bytes:
        """The answer of a REST call, as delivered. Raises Refused."""
        url = CALLS[name].url.format(**where)
        for attempt in range(1, _ATTEMPTS + 1):
            call = self.book(name)
            try:
                answer = self._get(url, params or {})
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                if attempt == _ATTEMPTS:
                    raise
                log.info("asked again call=%s attempt=%d reason=%s", name, attempt, type(error).__name__)
                wait(None, attempt)
                continue
            if answer.status_code < 300:
                self.book(name, calls=0, bytes_=len(answer.content))
                return answer.content
            refusal = _refused(call, answer)
            if attempt == _ATTEMPTS or not _is_passing(refusal):
                raise refusal
            log.info("asked again call=%s attempt=%d reason=%s", name, attempt, refusal.reason)
            wait(answer.headers.get("Retry-After"), attempt)
        raise AssertionError("the last attempt returns or raises")

    def _get(self, url: str, params: Params) -> requests.Response:
        session = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = AuthorizedSession(self.credentials)  # type: ignore[no-untyped-call]
        headers = {}
        if self.endpoint_url:
            parts = urlsplit(url)
            headers["Host"] = str(parts.hostname)  # of the services that share paths the stand-in knows which is meant
            url = self.endpoint_url.rstrip("/") + parts.path
        answer: requests.Response = session.get(url, params=params, headers=headers, timeout=_TIMEOUT)
        return answer

    def pages(self, name: str, params: Params | None = None, **where: str) -> Iterator[dict[str, Any]]:
        """All pages of a list, one at a time."""
        asked = dict(params or {})
        while True:
            page = json.loads(self.ask(name, asked, **where))
            yield page
            if not page.get("nextPageToken"):
                return
            asked["pageToken"] = page["nextPageToken"]


def wait(retry_after: str | None, attempt: int) -> None:
    """Sleeps as long as the vendor asks for, else twice as long each time, never in step with other threads."""
    asked = float(retry_after) if retry_after and retry_after.isdecimal() else None
    time.sleep(min(_LONGEST_WAIT, asked if asked is not None else 2 ** (attempt - 1) * random.uniform(0.5, 1)))  # noqa: S311


def _is_passing(refusal: Refused) -> bool:
    """Whether asking again may help: Compute says 403 where a rate limit is meant."""
    return refusal.status in _BUSY or refusal.reason in ("rateLimitExceeded", "userRateLimitExceeded")


def _refused(call: Call, answer: requests.Response) -> Refused:
    """The error of an answer, in either of the forms that Google's APIs have."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return Refused(call, answer.status_code, str(answer.reason or "error"), "")
    if not isinstance(error, dict):
        return Refused(call, answer.status_code, str(error), "")
    details = [one for one in error.get("details") or () if isinstance(one, dict) and one.get("reason")]
    older = [one for one in error.get("errors") or () if isinstance(one, dict) and one.get("reason")]
    if details:
        reason, about = str(details[0]["reason"]), details[0].get("metadata") or {}
    else:
        reason, about = str(older[0]["reason"] if older else error.get("status") or "error"), {}
    return Refused(call, answer.status_code, reason, str(error.get("message", "")), about)
