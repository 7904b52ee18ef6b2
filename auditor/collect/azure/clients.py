"""The clients of Azure: one credential, one way to wait when throttled, one place where calls are booked.

The clients' own pipelines are not taken, because the one of the resource manager registers resource providers by itself:
that writes, and nothing here may.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import AccessToken, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline import PipelineResponse, policies
from azure.core.rest import HttpRequest, HttpResponse
from azure.mgmt.core import ARMPipelineClient

from auditor.collect.azure.calls import CALLS, ROLE
from auditor.collect.budget import Budget
from auditor.collect.work import Refusal
from auditor.errors import SourceError
from auditor.settings import LOOPBACK

MANAGEMENT = "https://management.azure.com"
PRICES = "https://prices.azure.com"
_BLOB_SUFFIX = "blob.core.windows.net"
CHUNK = 8 * 2**20  # bytes of a blob in one request, and in memory for each download under way
_RETRIES = 8
_TIMEOUTS: dict[str, Any] = {"connection_timeout": 20, "read_timeout": 120}  # seconds
_AGENT = f"auditor/{version('auditor')}"
_LONGEST_WAIT = 600.0  # seconds; a vendor who asks for more will not answer today
_MICROSOFT = re.compile(r"^x-ms-ratelimit-microsoft\.[a-z.-]*retry-after$")
_T = TypeVar("_T")


class CallFailed(Exception):
    """A call that Azure refused or did not answer, as its client told it (`__cause__`)."""

    def __init__(self, name: str, where: str, error: AzureError) -> None:
        super().__init__(f"{name} {where}: {error}")
        self.name, self.where, self.error = name, where, error


class Patience(policies.RetryPolicy[Any, Any]):
    """The client's own policy, that also waits as Cost Management and Resource Graph ask for in headers of their own.

    All calls read, so that a POST may be repeated like a GET.
    """

    def __init__(self) -> None:
        super().__init__(retry_total=_RETRIES, retry_status=_RETRIES, retry_connect=4, retry_read=4)

    def configure_retries(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**super().configure_retries(options), "methods": frozenset(("GET", "HEAD", "POST"))}

    def get_retry_after(self, response: PipelineResponse[Any, Any]) -> float | None:
        headers = {name.lower(): value for name, value in response.http_response.headers.items()}
        waits = [_seconds(value) for name, value in headers.items() if _MICROSOFT.match(name)]
        usual: float | None = super().get_retry_after(response)
        if response.http_response.status_code == 429:
            waits.append(_seconds(headers.get("x-ms-user-quota-resets-after", "")))
        known = [wait for wait in (*waits, usual) if wait is not None]
        return max(known) if known else None

    def is_retry(self, settings: dict[str, Any], response: PipelineResponse[Any, Any]) -> bool:
        wait = self.get_retry_after(response) if response.http_response.status_code == 429 else None
        if wait is not None:
            return wait <= _LONGEST_WAIT
        return bool(super().is_retry(settings, response))


def _seconds(text: str) -> float | None:
    """`7`, or `00:00:07` as Resource Graph writes it."""
    parts = text.strip().split(":")
    try:
        return sum(float(part) * float(60**at) for at, part in enumerate(reversed(parts)))
    except ValueError:
        return None


class Nobody:
    """The credential for an emulator on this machine: there is nothing to prove to it."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        return AccessToken("", 2**33)


class Azure:
    """The clients of one source. Safe for threads; made lazily, because making one asks for nothing yet."""

    def __init__(
        self, budget: Budget, endpoint_url: str | None = None, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        self._budget = budget
        self.advance = advance  # told of every byte that came
        self.endpoint_url = endpoint_url.rstrip("/") if endpoint_url else None
        parts = urlsplit(endpoint_url or "")
        # Settings refuse http elsewhere; a token must never travel in the clear, so it is looked at here as well.
        self._is_local = parts.scheme == "http" and parts.hostname in LOOPBACK
        if parts.scheme == "http" and not self._is_local:
            raise SourceError(f"{endpoint_url}: http is for this machine only")
        self._credential: Any = None
        self._clients: dict[object, Any] = {}
        self._lock = threading.RLock()

    @property
    def credential(self) -> Any:
        """Azure's default chain: environment, workload identity, managed identity, the logins of az and azd."""
        with self._lock:
            if self._credential is None:
                from azure.identity import DefaultAzureCredential

                self._credential = Nobody() if self._is_local else DefaultAzureCredential()
            return self._credential

    def _once(self, key: object, make: Callable[[], _T]) -> _T:
        with self._lock:
            if key not in self._clients:
                self._clients[key] = make()
            found: _T = self._clients[key]
            return found

    def _policies(self, scope: str) -> list[Any]:
        token: TokenCredential = self.credential
        authentication: Any = (
            policies.SansIOHTTPPolicy() if self._is_local else policies.BearerTokenCredentialPolicy(token, scope)
        )
        return [
            policies.RequestIdPolicy(),
            policies.HeadersPolicy(),
            policies.UserAgentPolicy(_AGENT),
            policies.ProxyPolicy(),
            policies.ContentDecodePolicy(),
            policies.RedirectPolicy(),
            Patience(),
            authentication,
            policies.SensitiveHeaderCleanupPolicy(),
        ]

    @property
    def _management(self) -> str:
        return self.endpoint_url or MANAGEMENT

    def arm(self) -> "ARMPipelineClient[HttpRequest, HttpResponse]":
        return self._once(
            "arm",
            lambda: ARMPipelineClient(self._management, policies=self._policies(f"{MANAGEMENT}/.default"), **_TIMEOUTS),
        )

    def costs(self) -> Any:
        from azure.mgmt.costmanagement import CostManagementClient

        return self._once(
            "costs",
            lambda: CostManagementClient(
                self.credential,
                base_url=self._management,
                policies=self._policies(f"{MANAGEMENT}/.default"),
                **_TIMEOUTS,
            ),
        )

    def graph(self) -> Any:
        from azure.mgmt.resourcegraph import ResourceGraphClient

        return self._once(
            "graph",
            lambda: ResourceGraphClient(
                self.credential,
                base_url=self._management,
                policies=self._policies(f"{MANAGEMENT}/.default"),
                **_TIMEOUTS,
            ),
        )

    def metrics(self, region: str) -> Any:
        from azure.monitor.querymetrics import MetricsClient

        host = self.endpoint_url or f"https://{region}.metrics.monitor.azure.com"
        return self._once(
            ("metrics", host),
            lambda: MetricsClient(
                host,
                self.credential,
                policies=self._policies("https://metrics.monitor.azure.com/.default"),
                **_TIMEOUTS,
            ),
        )

    def prices(self) -> "ARMPipelineClient[HttpRequest, HttpResponse]":
        """Retail prices are public: no token is sent."""
        return self._once(
            "prices",
            lambda: ARMPipelineClient(
                self.endpoint_url or PRICES,
                policies=[
                    policies.UserAgentPolicy(_AGENT),
                    policies.ProxyPolicy(),
                    policies.RedirectPolicy(),
                    Patience(),
                ],
                **_TIMEOUTS,
            ),
        )

    def container(self, account: str, container: str, host: str | None = None) -> Any:
        """A client of one container; an emulator has the account in the path."""
        from azure.storage.blob import BlobServiceClient, ExponentialRetry

        class StorePatience(ExponentialRetry):
            """The store's own policy, which knows nothing of the header in which a busy store says how long.

            It also asks for minutes for a login that is not there.
            """

            def increment(
                self, settings: dict[str, Any], request: Any, response: Any = None, error: Any = None
            ) -> bool:
                if isinstance(error, ClientAuthenticationError):
                    return False
                return bool(super().increment(settings, request, response, error))

            def get_backoff_time(self, settings: dict[str, Any]) -> float:
                answer = settings["history"][-1].http_response if settings["history"] else None
                wait = _seconds(str(answer.headers.get("Retry-After", ""))) if answer is not None else None
                return min(wait, _LONGEST_WAIT) if wait is not None else float(super().get_backoff_time(settings))

        url = (
            f"{self.endpoint_url}/{account}" if self.endpoint_url else f"https://{host or f'{account}.{_BLOB_SUFFIX}'}"
        )
        service = self._once(
            ("blobs", url),
            lambda: BlobServiceClient(
                url,
                credential=None if self._is_local else self.credential,
                retry_policy=StorePatience(initial_backoff=1, increment_base=2, retry_total=_RETRIES),
                **_TIMEOUTS,
                max_single_get_size=CHUNK,
                max_chunk_get_size=CHUNK,
                user_agent=_AGENT,
            ),
        )
        return service.get_container_client(container)

    @contextmanager
    def asking(
        self, name: str, where: str, *, calls: int = 1, money: Decimal = Decimal(0), bytes_: int = 0
    ) -> Iterator[None]:
        """Books one call of the table, and wraps what Azure's client raises. Raises CallFailed and BudgetReached."""
        if name not in CALLS:
            raise KeyError(name)
        self._budget.spend(name, calls=calls, money=money, bytes_=bytes_)
        try:
            yield
        except AzureError as error:
            raise CallFailed(name, where, error) from error

    def came(self, name: str, size: int) -> None:
        """Books bytes whose number was not known before. Raises BudgetReached."""
        self._budget.spend(name, calls=0, bytes_=size)
        self.advance(size)

    def get(self, name: str, where: str, **query: str) -> HttpResponse:
        """One answer of the resource manager, of a call whose path the table tells."""
        call = CALLS[name]
        path = re.sub(r"\{\w+\}", lambda _: where, call.path)
        params = {"api-version": str(call.version), **query}
        return self._send(name, where, HttpRequest("GET", self._management + path, params=params))

    def pages(self, name: str, where: str, **query: str) -> Iterator[HttpResponse]:
        """Every page of a list of the resource manager."""
        answer = self.get(name, where, **query)
        yield answer
        while link := answer.json().get("nextLink"):
            answer = self._send(name, where, HttpRequest("GET", self.same_host(link)))
            yield answer

    def post(self, name: str, where: str, link: str, body: object) -> HttpResponse:
        """The next page of an answer that is asked for by sending the question again."""
        return self._send(name, where, HttpRequest("POST", self.same_host(link), json=body))

    def _send(self, name: str, where: str, request: HttpRequest) -> HttpResponse:
        with self.asking(name, where):
            answer = self.arm().send_request(request)
            answer.raise_for_status()
        self.came(name, len(answer.content))
        return answer

    def same_host(self, link: str) -> str:
        """The link to a next page, which must lead to where the page came from: the token goes there too."""
        if urlsplit(link)[:2] != urlsplit(self._management)[:2]:
            raise SourceError(f"the next page is said to lie at {urlsplit(link).netloc}, which is not asked")
        return link


def raw(response: PipelineResponse[Any, Any], *_: Any) -> Any:
    """For the clients' `cls`: the answer as it came, not what the client makes of it."""
    return response.http_response


def explain(error: Exception) -> Refusal | None:
    """What a failed call means, and what helps."""
    if not isinstance(error, CallFailed):
        return None
    cause = error.error
    status = cause.status_code if isinstance(cause, HttpResponseError) else None
    code = _code(cause)
    where = (f" at {error.where}" if error.where else "") + (f" ({code})" if code else "")
    if isinstance(cause, ClientAuthenticationError) and status != 401:  # no call was made: there is no token to make it
        return Refusal(f"no credential of Azure's default chain works: {_first_line(cause)}", _LOG_IN)
    known = {
        401: Refusal(f"the token was refused{where}: it has expired or is of another tenant", _LOG_IN),
        403: Refusal(f"access is denied{where}", _grant(error.name, error.where)),
        404: Refusal(f"nothing exists{where}", "correct the name under [[sources.azure]], or take it out"),
        412: Refusal(f"it changed while it was read{where}", "run again"),
        429: Refusal(f"Azure still refused after waiting as it asked for{where}", _LATER),
    }
    if status in known:
        return known[status]
    if status is None or status >= 500:
        return Refusal(f"Azure did not answer{where}: {_first_line(cause)}", _LATER)
    return Refusal(f"Azure answered {status}{where}: {_first_line(cause)}", "run with -vv and report the log")


_LOG_IN = "run `az login`, or give the process AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or a managed identity"
_LATER = "run again later; a smaller [limits] parallel asks less at once"


def _grant(name: str, where: str) -> str:
    call = CALLS[name]
    if call.granted_by:
        return f"grant {call.granted_by}"
    if where.lower().startswith("/providers/microsoft.billing"):
        return "grant a reading role of the billing account (Enrollment reader, Billing account reader)"
    if call.data_actions:
        return (
            f"grant {', '.join(call.data_actions)}: "
            "az role assignment create --assignee PRINCIPAL --role 'Storage Blob Data Reader' --scope STORAGE_ACCOUNT_ID; "
            "where the account has a firewall, let this machine in"
        )
    scope = where if where.startswith("/") else "/subscriptions/ID"
    wanted = "its types' read actions" if name == "resourcegraph:resources" else ", ".join(call.actions)
    return (
        f"grant {wanted}: `auditor permissions azure` prints the role, "
        f"az role assignment create --assignee PRINCIPAL --role '{ROLE}' --scope {scope}"
    )


def _code(error: AzureError) -> str | None:
    inner = getattr(error, "error", None)
    code = getattr(inner, "code", None) or getattr(error, "error_code", None)
    return str(code) if code else None


def _first_line(error: AzureError) -> str:
    return (str(error).splitlines() or ["no message"])[0][:300]
