"""Azurite, an Azure of our own beside it, and no network but this machine's."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor.collect import azure
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder
from auditor.collect.work import Collection
from auditor.journal import Journal, read
from auditor.progress import Silent
from auditor.settings import AzureSource, Limits
from tests.collect.azure.fake import NOW, Cloud, serving, wait_until_answering

ACCOUNT = "devstoreaccount1"  # Azurite's own account and its well-known key
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this folder reaches another host, whatever a client thinks of."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            raise OSError(f"a test wanted to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of the Blob service."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Azurite needs Node.js")
    folders = [os.environ.get("AUDITOR_NODE_MODULES"), str(Path(__file__).parent / "node_modules")]
    mains = [Path(folder) / "azurite/dist/src/blob/main.js" for folder in folders if folder]
    main = next((path for path in mains if path.is_file()), None)
    if main is None:
        pytest.skip("Azurite is not installed: npm ci in tests/collect/azure, or set AUDITOR_NODE_MODULES")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    process = subprocess.Popen(
        [node, str(main), *words, "--silent", "--disableTelemetry"], cwd=tmp_path_factory.mktemp("azurite")
    )
    try:
        wait_until_answering(port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


Put = Callable[[str, bytes], None]


@pytest.fixture
def container(azurite: int, request: pytest.FixtureRequest) -> Any:
    """An empty container that everybody may read, as the anonymous client of an emulator does."""
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient(f"http://127.0.0.1:{azurite}/{ACCOUNT}", credential=KEY)
    name = f"c{abs(hash(request.node.nodeid)):x}"
    client = service.create_container(name, public_access="container")
    yield client
    client.delete_container()


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with serving(Cloud(accounts=(ACCOUNT,))) as started:
        yield started


@pytest.fixture
def stored(cloud: Cloud, azurite: int) -> Cloud:
    """The cloud with its blobs in Azurite."""
    cloud.azurite = azurite
    return cloud


@pytest.fixture
def pull(tmp_path: Path, cloud: Cloud) -> Callable[..., Journal]:
    """Collects into one folder, again and again; gives the folder's journal."""

    def run(now: datetime = NOW, limits: Limits | None = None, days: int = 32, **settings: Any) -> Journal:
        source = AzureSource(name="azure", endpoint_url=cloud.url, **settings)
        limits = limits or Limits(parallel=4)
        end = now.replace(minute=0, second=0, microsecond=0)
        budget = Budget(limits)
        with LandingFolder(tmp_path / "azure", "azure", "azure", now) as folder:
            collection = Collection(
                folder, budget, limits, end.replace(hour=0) - timedelta(days=days), end, now, Silent(), tmp_path,
                limits.months,
            )  # fmt: skip
            azure.collect(source, collection)
            folder.finish(budget.take(), now)
        journal = read(tmp_path / "azure" / "auditor-landing.jsonl")
        assert journal is not None
        return journal

    return run
