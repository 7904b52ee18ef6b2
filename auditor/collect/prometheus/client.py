"""One Prometheus, asked over HTTP."""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from auditor import secret
from auditor.collect.prometheus.signing import ROLES, Bearer, signer
from auditor.collect.work import Refusal
from auditor.errors import SourceError
from auditor.settings import PrometheusSource

log = logging.getLogger(__name__)

# Prometheus gives up on a query after two minutes, and says so; a proxy before it may be more patient.
_CONNECT_SECONDS, _READ_SECONDS = 10, 180
_ATTEMPTS = 3  # beyond what the adapter retries by itself: answers that break off, and a busy server
_TOO_MUCH = ("exceed", "too many", "limit", "too large", "too long", "memory", "timeout", "timed out", "canceled")


class TooMuch(Exception):
    """The server will not give so much in one answer."""


class Refused(Exception):
    """The server answered with an error, after all retries."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.text = status, text


class Client:
    """Safe for the threads of one collection."""

    def __init__(
        self, source: PrometheusSource, parallel: int = 1, retries: int = 5, backoff_seconds: float = 1.0
    ) -> None:
        self._source = source
        self._backoff_seconds = backoff_seconds
        self._session = requests.Session()
        self._session.auth = self._auth = signer(source)
        self._session.headers.update({"Accept-Encoding": "gzip", "User-Agent": "auditor"})
        self._session.headers.update({name: _value(text) for name, text in source.headers.items()})
        # 503 is looked at here: Prometheus says so too where a query took too long, and asking again would not help
        retry = Retry(
            total=retries,
            read=1,  # three minutes each
            backoff_factor=backoff_seconds,
            backoff_max=60,
            status_forcelist=(429, 500, 502),
            allowed_methods=("GET",),
            respect_retry_after_header=True,
            raise_on_status=False,
            redirect=False,
        )
        adapter = HTTPAdapter(max_retries=retry, pool_maxsize=parallel)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    @contextmanager
    def range(self, parameters: Mapping[str, str]) -> Iterator[requests.Response]:
        """A query_range answer whose body is still to be read, packed as it was sent.

        Raises TooMuch where less must be asked for, Refused for any other error of the server.
        """
        with self._answer("query_range", parameters) as response:
            yield response

    def query(self, expression: str, at: int) -> list[dict[str, Any]]:
        """The vector that an instant query gives. Raises as `range` does, SourceError where it gives something else."""
        try:
            body = self._body("query", {"query": expression, "time": str(at)})
        except requests.exceptions.ChunkedEncodingError:
            body = self._body("query", {"query": expression, "time": str(at)})
        try:
            return list(json.loads(body)["data"]["result"])
        except (ValueError, LookupError, TypeError) as error:
            raise SourceError(f"the answer of {self._source.url} is not one of Prometheus") from error

    def _body(self, call: str, parameters: Mapping[str, str]) -> bytes:
        with self._answer(call, parameters) as response:
            return response.content

    @contextmanager
    def _answer(self, call: str, parameters: Mapping[str, str]) -> Iterator[requests.Response]:
        for attempt in range(1, _ATTEMPTS + 1):
            response = self._get(call, parameters)
            try:
                if response.status_code == requests.codes.ok:
                    yield response
                    return
                if self._may_ask_again(response, attempt):
                    continue
                raise self._failure(response)
            finally:
                response.close()

    def _get(self, call: str, parameters: Mapping[str, str]) -> requests.Response:
        return self._session.get(
            f"{self._source.url.rstrip('/')}/api/v1/{call}",
            params=dict(parameters),
            stream=True,
            allow_redirects=False,  # the credentials are for the address that was configured
            timeout=(_CONNECT_SECONDS, _READ_SECONDS),
            # with each request: an environment's bundle would win over the session's own
            verify=True if self._source.ca_file is None else str(self._source.ca_file.expanduser()),
        )

    def _may_ask_again(self, response: requests.Response, attempt: int) -> bool:
        if attempt == _ATTEMPTS:
            return False
        if response.status_code == requests.codes.unauthorized and attempt == 1 and isinstance(self._auth, Bearer):
            self._auth.renew(str(response.request.headers.get("Authorization")))
            return True
        if response.status_code == requests.codes.service_unavailable and not _is_too_much(response):
            time.sleep(self._backoff_seconds * 2**attempt)
            return True
        return False

    @staticmethod
    def _failure(response: requests.Response) -> Exception:
        text = _text(response)
        return TooMuch(text) if _is_too_much(response) else Refused(response.status_code, text)


def _value(text: str) -> str:
    """A header's value; a key is given by reference."""
    return secret.resolve(text) if text.startswith(("env:", "file:", "credential:")) else text


def _is_too_much(response: requests.Response) -> bool:
    if response.status_code in (413, 504):
        return True
    # 400: Prometheus itself for more than 11,000 points a series; 422: its limit of samples; 503: it took too long
    text = _text(response).lower()
    return response.status_code in (400, 422, 500, 503) and any(word in text for word in _TOO_MUCH)


def _text(response: requests.Response) -> str:
    """What the server says is wrong, in one line."""
    try:
        body = response.json()
        said = body.get("error") or body.get("message") or body
    except (ValueError, AttributeError):
        said = response.text
    if isinstance(said, dict):  # Google: {"error": {"code": …, "message": …}}
        said = said.get("message") or said
    return " ".join(str(said).split())[:300] or response.reason or "no reason given"


def explain(source: PrometheusSource, error: Exception) -> Refusal | None:
    """What an error of the client means, and what helps."""
    if isinstance(error, requests.exceptions.RequestException | HTTPError):
        return _unreached(source, error)
    if isinstance(error, Refused):
        return Refusal(str(error), _fix(source, error.status))
    if isinstance(error, TooMuch):
        return Refusal(f"the server gives not even one step in one answer: {error}", "raise the server's query limits")
    if type(error).__module__.startswith(("google.auth", "azure.", "botocore")):
        return Refusal(f"no credentials ({_cause(error)})", f"log in, then {ROLES[source.auth]}")
    return None


def _unreached(source: PrometheusSource, error: Exception) -> Refusal:
    if isinstance(error, requests.exceptions.InvalidHeader):  # whose text holds the value, which may be a token
        return Refusal(
            "a header's value cannot be sent: it holds a line break or begins with a space", "check `headers`"
        )
    if isinstance(error, requests.exceptions.SSLError):
        return Refusal(
            f"{source.url} has no certificate that is trusted here", "name the certificate of its issuer as `ca_file`"
        )
    return Refusal(f"{source.url} cannot be reached ({_cause(error)})", "check `url`, and the way there from here")


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _fix(source: PrometheusSource, status: int) -> str | None:
    if status in (401, 403):
        return ROLES[source.auth]
    if 300 <= status < 400:
        return "set `url` to the address that answers itself"
    if status == 404:
        return (
            "set `url` to the address below which /api/v1/query_range answers; products put it below a prefix, "
            "such as /prometheus (Mimir), /select/0/prometheus (VictoriaMetrics), /workspaces/ID (Amazon), "
            "/v1/projects/PROJECT/location/global/prometheus (Google)"
        )
    return "ask for less at once: lower [limits] parallel" if status == 429 else None
