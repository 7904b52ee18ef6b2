"""A real Prometheus on this machine, filled with samples of the past."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FOUND = shutil.which("prometheus"), shutil.which("promtool")


def open_metrics(samples: Iterable[tuple[str, dict[str, str], float, float]]) -> str:
    """(metric, labels, time, value) as promtool reads them; samples of a metric stand together."""
    lines, seen = [], set()
    for metric, labels, when, value in samples:
        if metric not in seen:
            seen.add(metric)
            lines.append(f"# TYPE {metric} unknown")
        inner = ",".join(f'{key}="{text}"' for key, text in labels.items())
        lines.append(f"{metric}{{{inner}}} {value!r} {when:.0f}")
    return "\n".join([*lines, "# EOF", ""])


@contextmanager
def prometheus(folder: Path, text: str) -> Iterator[str]:
    """Its address, while it runs."""
    server, tool = FOUND
    assert server and tool
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "samples.txt").write_text(text, "utf-8")
    (folder / "prometheus.yml").write_text("global: {}\n", "utf-8")
    made = [tool, "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=1024h", folder / "samples.txt"]
    subprocess.run([*made, folder / "data"], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen([server, *arguments], stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
    try:
        _wait(f"http://127.0.0.1:{port}/-/ready", folder / "log.txt")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(url: str, log: Path) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(log.read_text("utf-8"))
