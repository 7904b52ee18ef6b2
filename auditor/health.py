"""Health, readiness and metrics of the service over HTTP."""

import http.server
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from auditor.errors import SettingsError

log = logging.getLogger(__name__)

# What a path answers: a status and a text.
Answer = Callable[[], tuple[int, str]]
Labels = tuple[tuple[str, str], ...]


@contextmanager
def serving(listen: str, answers: Mapping[str, Answer]) -> Iterator[tuple[str, int] | None]:
    """Answer GET on these paths while the body runs; gives the address, null for an empty `listen`.

    Raises SettingsError for an address that cannot be listened on.
    """
    if not listen:
        yield None
        return
    host, port = parse_listen(listen)
    handler = type("Handler", (_Handler,), {"answers": answers})
    server_class = _Server6 if ":" in host else http.server.ThreadingHTTPServer
    try:
        server = server_class((host, port), handler)
    except OSError as error:
        raise SettingsError(f"[service] listen {listen}: {error.strerror or error}") from error
    thread = threading.Thread(target=server.serve_forever, name="auditor-health", daemon=True)
    thread.start()
    try:
        yield str(server.server_address[0]), int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def parse_listen(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8321` or `[::1]:8321`. Raises SettingsError for anything else."""
    try:
        parts = urlsplit(f"//{listen}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise SettingsError(f"[service] listen {listen}: wanted HOST:PORT, for example 127.0.0.1:8321")
    return host, port


class _Server6(http.server.ThreadingHTTPServer):
    import socket

    address_family = socket.AF_INET6


class _Handler(http.server.BaseHTTPRequestHandler):
    answers: Mapping[str, Answer]
    server_version = "auditor"
    sys_version = ""
    timeout = 10

    def do_GET(self) -> None:
        answer = self.answers.get(urlsplit(self.path).path)
        status, text = (404, "no such page\n") if answer is None else answer()
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("health request client=%s %s", self.client_address[0], format % args)


def labelled(label: str, samples: Mapping[str, float]) -> dict[Labels, float]:
    """Samples that differ in one label."""
    return {((label, value),): sample for value, sample in samples.items()}


def metric(name: str, kind: str, help_: str, samples: Mapping[Labels, float]) -> list[str]:
    """One metric in the text format of Prometheus; samples by their labels."""
    lines = [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
    for labels, value in samples.items():
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
        lines.append(f"{name}{{{inside}}} {value:.17g}" if inside else f"{name} {value:.17g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
