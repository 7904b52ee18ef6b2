"""Reports go to buckets that speak the vendors' own protocols: S3, Google Cloud Storage and Azure blobs."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.deliver import NotHandedOver, drop
from auditor.errors import SettingsError
from auditor.settings import parse
from tests.deliver.conftest import Certificate

WANTED = {f"team/{folder}/{name}" for folder in ("r1", "latest") for name in ("report.html", "findings.json")}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "report.html", tmp_path / "findings.json"]
    for path in made:
        path.write_text(f"first {path.name}")
    return made


def drop_twice(files: list[Path], target: str, endpoint_url: str) -> None:
    """The report of one run, and another of the same run: what a cut-off drop is followed by."""
    calls: list[str] = []
    drop(files, target, "r1", lambda: calls.append("handed over"), endpoint_url=endpoint_url)
    for path in files:
        path.write_text(path.name)
    drop(files, target, "r1", lambda: calls.append("handed over"), endpoint_url=endpoint_url)
    assert calls == ["handed over"] * 2


def refused(files: list[Path], target: str, endpoint_url: str) -> str:
    """Why a target cannot be written; what was not written was not handed over."""
    calls: list[str] = []
    with pytest.raises(NotHandedOver) as error:
        drop(files, target, "r1", lambda: calls.append("handed over"), endpoint_url=endpoint_url)
    assert calls == []
    return str(error.value)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that speaks S3."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_a_report_goes_to_s3(files: list[Path], s3: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="acme-reports")
    drop_twice(files, "s3://acme-reports/team", s3)
    assert {item["Key"] for item in client.list_objects_v2(Bucket="acme-reports")["Contents"]} == WANTED
    page = client.get_object(Bucket="acme-reports", Key="team/latest/report.html")
    assert (page["ContentType"], page["Body"].read()) == ("text/html; charset=utf-8", b"report.html")


def test_a_bucket_of_s3_that_is_not_there_is_named(files: list[Path], s3: str) -> None:
    assert "s3://nowhere/r1/report.html" in refused(files, "s3://nowhere", s3)


@pytest.fixture
def gs() -> Iterator[str]:
    """A server that speaks Google Cloud Storage."""
    make = pytest.importorskip("gcp_storage_emulator.server").create_server
    pytest.importorskip("google.cloud.storage")
    port = a_free_port()
    server = make("127.0.0.1", port, in_memory=True, default_bucket="acme-reports")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def test_a_report_goes_to_google_cloud_storage(files: list[Path], gs: str) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    drop_twice(files, "gs://acme-reports/team", gs)
    client = storage.Client("none", AnonymousCredentials(), client_options={"api_endpoint": gs})
    blobs = {blob.name: blob for blob in client.list_blobs("acme-reports")}
    assert set(blobs) == WANTED
    page = blobs["team/latest/report.html"]
    assert page.content_type.startswith("text/html")  # the emulator keeps no more of it
    assert page.download_as_bytes() == b"report.html"


def test_a_bucket_of_google_that_is_not_there_is_named(files: list[Path], gs: str) -> None:
    assert "gs://nowhere/r1/report.html" in refused(files, "gs://nowhere", gs)


@pytest.fixture
def az(certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Azurite, which asks for a token as Azure does, but believes one that nobody signed."""
    pytest.importorskip("azure.storage.blob")
    program = os.environ.get("AZURITE_BLOB") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("no azurite: npm install azurite, and its azurite-blob on the PATH or in AZURITE_BLOB")
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", _Credential)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.certificate))
    port = a_free_port()
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(tmp_path / "azurite"), "--silent"]
    words += ["--oauth", "basic", "--cert", str(certificate.certificate), "--key", str(certificate.key)]
    words += ["--skipApiVersionCheck", "--disableTelemetry"]
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port))
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(20)


class _Credential:
    """A token of the right shape, issuer and audience."""

    def get_token(self, *_: str, **__: Any) -> Any:
        from azure.core.credentials import AccessToken

        now = int(time.time())
        claims = {
            "iss": "https://sts.windows.net/tenant/",
            "aud": "https://storage.azure.com",
            "nbf": now - 60,
            "iat": now - 60,
            "exp": now + 3600,
        }
        parts = (
            json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, claims, {"signed": "by nobody"})
        )
        token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        return AccessToken(token, now + 3600)


def test_a_report_goes_to_azure(files: list[Path], az: str) -> None:
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient(f"{az}/devstoreaccount1", credential=_Credential())
    container = service.create_container("reports")
    drop_twice(files, "az://devstoreaccount1/reports/team", az)
    assert {blob.name for blob in container.list_blobs()} == WANTED
    page = container.get_blob_client("team/latest/report.html").download_blob()
    assert page.properties.content_settings.content_type == "text/html; charset=utf-8"
    assert page.readall() == b"report.html"
    assert "az://devstoreaccount1/nowhere/r1/report.html" in refused(files, "az://devstoreaccount1/nowhere", az)


@pytest.mark.parametrize("target", ["s3://acme-reports", "gs://acme-reports", "az://acme/reports"])
def test_a_store_that_does_not_answer_is_tried_again_later(
    files: list[Path], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("boto3", "google.cloud.storage", "azure.storage.blob"):
        pytest.importorskip(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    # nothing of Google's or Azure's own patience, which would make this a test of minutes
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", _Credential)
    monkeypatch.setattr("auditor.deliver.files._TRIES", 1)
    monkeypatch.setattr("auditor.deliver.files._TIMEOUT", 1)
    scheme = "https" if target.startswith("az") else "http"
    assert target in refused(files, target, f"{scheme}://127.0.0.1:{a_free_port()}")


@pytest.mark.parametrize("path", ["ftp://acme/reports", "s3://", "az://acme", "gs:///team"])
def test_a_place_that_is_none_is_refused_before_anything_is_sent(path: str) -> None:
    with pytest.raises(SettingsError, match="is no place"):
        parse({"delivery": {"files": {"path": path}}}, "here")


def a_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def wait_for(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.1)
