"""AWS on this machine, credentials that are none, and no way out to the network."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

pytest.importorskip("moto.server")

from auditor.collect import aws as collector
from auditor.collect.aws import access
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.work import Collection
from auditor.progress import Silent
from auditor.settings import AwsSource, Limits
from tests.collect.aws.server import BASE, Aws, serving

NOW = datetime(2026, 10, 1, 0, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two services are known to escape emulators."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test reaches for {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"AKIAX{BASE}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waits that the SDK wanted, in seconds, each made short."""
    import botocore.endpoint

    waits: list[float] = []
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=waits.append))
    return waits


@pytest.fixture
def aws() -> Iterator[Aws]:
    from moto.s3.models import s3_backends

    made = Aws()
    s3_backends.reset()
    yield made
    s3_backends.reset()
    assert made.wrong == []


@pytest.fixture
def url(aws: Aws) -> Iterator[str]:
    with serving(aws) as address:
        yield address


@pytest.fixture
def s3(url: str) -> Any:
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1")


Collect = Callable[..., LandingFolder]


@pytest.fixture
def collect(url: str, tmp_path: Path) -> Collect:
    """Collects into tmp_path/landing/aws; keyword arguments are the source's settings, `now` and `limits` the run's."""

    def run(now: datetime = NOW, limits: Limits | None = None, days: int = 30, **settings: Any) -> LandingFolder:
        defaults = {"metrics": False, "inventory": False}
        source = AwsSource(name="aws", endpoint_url=url, **{**defaults, **settings})
        limits = limits or Limits(parallel=4)
        end = now.replace(minute=0, second=0, microsecond=0)
        start = end.replace(hour=0) - timedelta(days=days)
        with LandingFolder(tmp_path / "landing" / "aws", "aws", "aws", now) as folder:
            budget = Budget(limits)
            collection = Collection(folder, budget, limits, start, end, now, Silent(), tmp_path, limits.months)
            collector.collect(source, collection)
            folder.finish(budget.take(), now)
        return folder

    return run


@pytest.fixture
def account(url: str) -> access.Account:
    return access.base(AwsSource(name="aws", endpoint_url=url), Budget(Limits()))
