"""A Google of our own, and a collection of it; nothing leaves this machine."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.work import Collection
from auditor.progress import Silent
from auditor.settings import Limits
from tests.collect.gcp.server import FakeGoogle

NOW = datetime(2026, 10, 5, 6, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "localhost", "::1"):
            raise AssertionError(f"a test wanted to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    with FakeGoogle() as fake:
        yield fake


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the collector would have slept."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    return slept


@pytest.fixture
def gather(tmp_path: Path) -> Iterator[Callable[..., Collection]]:
    """Collections into one folder, one after the other."""
    opened: list[LandingFolder] = []

    def make(now: datetime = NOW, days: int = 3, months: int = 2, **limits: Any) -> Collection:
        for folder in opened:
            folder.__exit__(None, None, None)
        folder = LandingFolder(tmp_path / "landing", "prod", "gcp", now)
        opened.append(folder)
        asked = Limits(**limits)
        end = now.replace(minute=0)
        start = end.replace(hour=0) - timedelta(days=days)
        return Collection(folder, Budget(asked), asked, start, end, now, Silent(), tmp_path, months)

    yield make
    for folder in opened:
        folder.__exit__(None, None, None)
