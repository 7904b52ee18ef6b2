"""A small server that speaks query_range and fails on demand."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Question = dict[str, str]
Reply = tuple[int, dict[str, str], bytes]


def matrix(metric: str, labels: dict[str, str], question: Question, **beside: Any) -> bytes:
    """An answer with a sample on every step asked for."""
    times = range(int(question["start"]), int(question["end"]) + 1, int(question["step"]))
    series = {"metric": {"__name__": metric, **labels}, "values": [[each, "7"] for each in times]}
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}, **beside}).encode()


EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


def error(status: int, text: str, **headers: str) -> Reply:
    body = json.dumps({"status": "error", "errorType": "execution", "error": text}).encode()
    return status, headers, body


class Fake:
    """Remembers what was asked; `reply` answers, or returns null to hang up without a word."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[Question], Reply | None] = lambda question: (200, {}, EMPTY)
        self.url = ""

    @property
    def ranges(self) -> list[Question]:
        return [each for each in self.asked if each["path"].endswith("query_range")]

    def of(self, metric: str) -> list[Question]:
        return [each for each in self.ranges if each["query"].startswith(f"{metric}{{")]


@contextmanager
def serve() -> Iterator[Fake]:
    fake, lock = Fake(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            question = {key: value[0] for key, value in parse_qs(parts.query).items()} | {"path": parts.path}
            with lock:
                fake.asked.append(question)
                fake.headers.append(dict(self.headers))
                reply = fake.reply(question)
            if reply is None:
                self.close_connection = True
                return
            status, headers, body = reply
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if "Content-Length" in headers:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()


def packed(body: bytes) -> tuple[dict[str, str], bytes]:
    return {"Content-Encoding": "gzip"}, gzip.compress(body)
