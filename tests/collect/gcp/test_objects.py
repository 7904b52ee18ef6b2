"""Buckets, mirrored from a storage emulator by Google's own client."""

import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from gcp_storage_emulator.server import create_server  # type: ignore[import-untyped]
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client  # type: ignore[import-untyped]

from auditor.collect import gcp
from auditor.collect.gcp import objects
from auditor.collect.work import Collection
from auditor.settings import GcpSource
from tests.collect.gcp.conftest import NOW

Make = Callable[..., Collection]


class Bucket:
    """A bucket of the emulator, and what was read of it."""

    def __init__(self, url: str, bucket: Any) -> None:
        self.url, self._bucket = url, bucket

    def write(self, key: str, text: str) -> None:
        self._bucket.blob(key).upload_from_string(text)

    def remove(self, key: str) -> None:
        self._bucket.blob(key).delete()


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    url = f"http://127.0.0.1:{port}"
    client = Client("none", AnonymousCredentials(), client_options=ClientOptions(api_endpoint=url))
    yield Bucket(url, client.create_bucket("acme-bills"))
    server.stop()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were downloaded; one that contains `locked` cannot be."""
    from google.cloud.storage import Blob

    seen: list[str] = []
    download = Blob.download_to_file

    def counted(self: Any, *given: Any, **more: Any) -> None:
        seen.append(self.name)
        if "locked" in self.name:
            from google.api_core.exceptions import Forbidden

            raise Forbidden("no")
        download(self, *given, **more)

    monkeypatch.setattr(Blob, "download_to_file", counted)
    return seen


def fetch(
    bucket: Bucket, collection: Collection, url: str = "gs://acme-bills/export", months: int | None = None
) -> list[str]:
    return objects.fetch(
        url,
        collection.folder,
        collection.budget,
        collection.now,
        endpoint_url=bucket.url,
        kind="billing",
        months=months,
    )


def text(collection: Collection, name: str) -> str:
    return (collection.folder.path / name).read_text()


def test_only_what_changed_is_read_again_and_what_is_gone_goes(bucket: Bucket, gather: Make, reads: list[str]) -> None:
    bucket.write("export/a.json", "one")
    bucket.write("export/b.json", "two")
    bucket.write("other/c.json", "not asked for")
    collection = gather()
    assert fetch(bucket, collection) == ["billing/acme-bills/export/a.json", "billing/acme-bills/export/b.json"]
    assert sorted(reads) == ["export/a.json", "export/b.json"]
    reads.clear()
    fetch(bucket, gather())
    assert reads == []
    bucket.write("export/a.json", "newer")
    bucket.remove("export/b.json")
    collection = gather()
    assert fetch(bucket, collection) == ["billing/acme-bills/export/a.json"]
    assert reads == ["export/a.json"] and text(collection, "billing/acme-bills/export/a.json") == "newer"
    assert not (collection.folder.path / "billing/acme-bills/export/b.json").exists()


def test_of_a_newer_set_that_is_not_whole_nothing_replaces_the_older(
    bucket: Bucket, gather: Make, reads: list[str]
) -> None:
    bucket.write("export/000.json", "old 0")
    bucket.write("export/001.json", "old 1")
    fetch(bucket, gather())
    bucket.write("export/000.json", "new 0")
    bucket.write("export/001-locked.json", "new 1")
    bucket.remove("export/001.json")
    collection = gather()
    fetch(bucket, collection)
    assert text(collection, "billing/acme-bills/export/000.json") == "old 0"
    assert text(collection, "billing/acme-bills/export/001.json") == "old 1"
    (problem,) = collection.folder.problems
    assert problem.reason == "the permission storage.objects.get is missing"
    assert problem.hides == "1 changed files of gs://acme-bills/export, of which all older files are kept"
    bucket.remove("export/001-locked.json")
    collection = gather()
    fetch(bucket, collection)
    assert text(collection, "billing/acme-bills/export/000.json") == "new 0" and collection.folder.problems == []


def test_periods_older_than_those_wanted_are_not_read(bucket: Bucket, gather: Make, reads: list[str]) -> None:
    for period in ("202607", "2026-08", "billing_period=2026-09", "20261001-20261031", "prod"):
        bucket.write(f"export/{period}/part.json", period)
    fetch(bucket, gather(), months=2)
    assert sorted(reads) == [
        "export/20261001-20261031/part.json",
        "export/billing_period=2026-09/part.json",
        "export/prod/part.json",
    ]


def test_a_set_killed_in_the_middle_goes_on_behind_the_files_that_landed(
    bucket: Bucket, gather: Make, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        bucket.write(f"export/{number}.json", f"file {number}")
    monkeypatch.setattr(objects, "_AT_ONCE", 1)
    collection = gather()
    write = collection.folder.write

    def killed(name: str, *given: Any, **more: Any) -> Any:
        if "3.json" in name:
            raise KeyboardInterrupt
        return write(name, *given, **more)

    monkeypatch.setattr(collection.folder, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        fetch(bucket, collection)
    landed = {name.rpartition("/")[2] for name in collection.folder.entries}
    assert {"0.json", "1.json", "2.json"} <= landed and "3.json" not in landed
    reads.clear()
    fetch(bucket, gather())
    assert set(reads) == {f"export/{number}.json" for number in range(6)} - {f"export/{name}" for name in landed}


def test_bytes_are_booked_before_they_are_read(bucket: Bucket, gather: Make, reads: list[str]) -> None:
    bucket.write("export/large.json", "x" * 5000)
    collection = gather(bytes=4000)
    assert fetch(bucket, collection) == [] and reads == []
    (problem,) = collection.folder.problems
    assert "[limits] bytes = 4000 is reached" in problem.reason


def test_exports_of_a_source_are_mirrored_and_a_bucket_that_is_not_there_stands_alone(
    bucket: Bucket, gather: Make
) -> None:
    bucket.write("export/a.json", "one")
    urls = ["gs://acme-gone/export", "gs://acme-bills/export"]
    source = GcpSource(name="prod", exports=urls, metrics=False, inventory=False, endpoint_url=bucket.url)
    collection = gather(NOW + timedelta(hours=1))
    gcp.collect(source, collection)
    assert list(collection.folder.entries) == ["billing/acme-bills/export/a.json"]
    (problem,) = collection.folder.problems
    assert problem.hides == "the bills below gs://acme-gone/export"
    assert problem.reason == "there is no such thing, or it is hidden from these credentials"
