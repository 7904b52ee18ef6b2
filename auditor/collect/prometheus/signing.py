"""How a request to a Prometheus proves who asks: the credentials come from a reference or a cloud's own chain."""

import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from auditor import secret
from auditor.errors import SourceError
from auditor.settings import LOOPBACK, PrometheusSource

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/monitoring.read"
_AZURE_SCOPE = "https://prometheus.monitor.azure.com/.default"

ROLES = {
    "sigv4": "grant aps:QueryMetrics on the workspace (managed policy AmazonPrometheusQueryAccess)",
    "google": "grant roles/monitoring.viewer on the project",
    "azure": "grant the role Monitoring Data Reader on the Azure Monitor workspace",
    "bearer": "give a `token` that may read the query API",
    "basic": "give a `username` and `password` that may read the query API",
    "none": "set `auth` to what the server wants: bearer, basic, sigv4, google or azure",
}


class _Nobody(AuthBase):
    """Sends no credentials, not even those of a .netrc, which requests would take by itself."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Bearer(AuthBase):
    """A token that is asked for once, and again after the server refused it."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._token: str | None = None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        with self._lock:
            if self._token is None:
                self._token = self._ask()
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def renew(self, refused: str) -> None:
        """Forgets the token that was refused, unless another thread has renewed it meanwhile."""
        with self._lock:
            if refused == f"Bearer {self._token}":
                self._token = None


class _SigV4(AuthBase):
    """AWS's signature, with the keys of its own chain; they renew themselves."""

    def __init__(self, url: str) -> None:
        from botocore.session import Session

        session = Session()
        credentials = session.get_credentials()
        if credentials is None:
            raise SourceError("AWS's own chain holds no credentials: log in, or set AWS_PROFILE")
        self._credentials = credentials
        host = urlsplit(url).hostname or ""
        # aps-workspaces.REGION.amazonaws.com; CloudWatch's own PromQL answers at monitoring.REGION.amazonaws.com.
        parts = host.split(".")
        named = (
            parts[1] if len(parts) > 2 and host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws")) else None
        )
        self._region = named or session.get_config_variable("region") or "us-east-1"
        self._service = "monitoring" if host.startswith("monitoring.") else "aps"

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        signed = AWSRequest(method=request.method, url=request.url, data=request.body)
        SigV4Auth(self._credentials, self._service, self._region).add_auth(signed)
        request.headers.update(dict(signed.headers))
        return request


def signer(source: PrometheusSource) -> AuthBase:
    """Raises SourceError where a credential is missing or its SDK is not installed, SettingsError for a bad reference."""
    local = urlsplit(source.url).hostname in LOOPBACK
    try:
        if source.auth == "bearer":
            return Bearer(lambda: secret.resolve(_wanted(source, "token")))
        if source.auth == "basic":
            user = _wanted(source, "username")
            return HTTPBasicAuth(user.encode(), secret.resolve(_wanted(source, "password")).encode())
        if source.auth == "sigv4":
            return _SigV4(source.url)
        if source.auth == "google" and not local:
            return Bearer(_google_token)
        if source.auth == "azure" and not local:
            return Bearer(_azure_token())
    except ModuleNotFoundError as error:
        extra = {"sigv4": "aws", "google": "gcp", "azure": "azure"}[source.auth]
        raise SourceError(
            f'auth = "{source.auth}" needs {error.name}, which is not installed: install auditor[{extra}]'
        ) from error
    return _Nobody()  # an emulator on this machine gets no token of a real cloud


def _wanted(source: PrometheusSource, name: str) -> str:
    value = getattr(source, name)
    if not value:
        raise SourceError(f'[[sources.prometheus]] {source.name}: auth = "{source.auth}" wants `{name}`')
    return str(value)


def _google_token() -> str:
    import google.auth
    from google.auth.transport.requests import Request

    credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    credentials.refresh(Request())  # type: ignore[no-untyped-call]  # of the library
    return str(credentials.token)


def _azure_token() -> Callable[[], str]:
    from azure.identity import DefaultAzureCredential

    credential = DefaultAzureCredential()
    return lambda: credential.get_token(_AZURE_SCOPE).token
