"""A real mail server and a real receiver of webhooks, on this machine."""

import http.server
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

aiosmtpd = pytest.importorskip("aiosmtpd")
from aiosmtpd.controller import Controller  # noqa: E402
from aiosmtpd.smtp import AuthResult, LoginPassword  # noqa: E402


@dataclass(frozen=True)
class Certificate:
    """A certificate of `localhost` that signs itself."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.certificate, self.key)
        return made


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    words = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "9",
    ]
    words += [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        str(made.key),
        "-out",
        str(made.certificate),
    ]
    subprocess.run(words, check=True, capture_output=True)
    return made


@dataclass
class Post:
    """What a mail server was given, and what it is to answer."""

    mails: list[EmailMessage] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)  # to DATA, first to last; then 250
    rcpt: str = "250 OK"
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer == "hang up":
            self._keep(envelope)
            server.transport.abort()
            return "250 too late"
        if answer.startswith("250"):
            self._keep(envelope)
        return answer

    def _keep(self, envelope: Any) -> None:
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
        self.sizes.append(len(envelope.content))

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"hunter2", handled=False)


@contextmanager
def mail_server(certificate: Certificate | None = None, security: str = "none") -> Iterator[Post]:
    """A server that takes mail: in the clear, or after STARTTLS, or within TLS, the latter two after a login."""
    post = Post()
    how: dict[str, Any] = {}
    if certificate is not None:
        how = {"authenticator": post.authenticate, "auth_required": True, "auth_require_tls": security == "starttls"}
        if security == "starttls":
            how |= {"tls_context": certificate.context(), "require_starttls": True}
        else:
            how["ssl_context"] = certificate.context()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        post.port = free.getsockname()[1]
    controller = _Server(post, hostname="127.0.0.1", port=post.port, server_hostname="localhost", **how)
    controller.start()
    try:
        yield post
    finally:
        controller.stop()


class _Server(Controller):
    def _trigger_server(self) -> None:
        """The server makes its protocol at the first connection; over TLS the controller cannot make one itself."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as plain:
            if self.ssl_context is None:
                plain.recv(1)
                return
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as wrapped:
                wrapped.recv(1)


@pytest.fixture
def post() -> Iterator[Post]:
    with mail_server() as made:
        yield made


@dataclass
class Received:
    """What a webhook's receiver was given."""

    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    status: int = 204
    location: str | None = None
    url: str = ""


@pytest.fixture
def receiver() -> Iterator[Received]:
    received = Received()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append((dict(self.headers), content))
            if received.status == 0:  # took it, and dies before it answers
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(received.status)
            if received.location:
                self.send_header("Location", received.location)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield received
    server.shutdown()
    server.server_close()
