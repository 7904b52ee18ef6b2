"""Puts report files into a folder or a bucket; the same file twice is the same file."""

import mimetypes
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from auditor.deliver.handover import Handover, NotHandedOver

_TIMEOUT = 60  # seconds without an answer; with its repetitions far less than a sender's claim lives
_TRIES = 3


def drop(
    files: Sequence[Path], target: str, run_id: str, handing_over: Handover, *, endpoint_url: str | None = None
) -> None:
    """Each file under `target`/`run_id`/ and, replacing the one before, under `target`/latest/.

    Handed over is what lies there whole: a drop that was cut off can be made again and does no harm. Raises NotHandedOver
    where the target cannot be written.
    """
    put = {"s3": _put_s3, "gs": _put_gs, "az": _put_az}.get(urlsplit(target).scheme)
    names = [(file, f"{folder}/{file.name}") for folder in (run_id, "latest") for file in files]
    if put is None:
        for file, name in names:
            _put_file(file, Path(target).expanduser() / name)
    else:
        put(names, target, endpoint_url)
    handing_over()


def _put_file(file: Path, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(file.read_bytes())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):  # it may never have come into being
            temporary.unlink()
        raise NotHandedOver(f"{path} cannot be written: {error.strerror or error}") from error


def _place(target: str, name: str) -> tuple[str, str]:
    """The bucket, or account, and the key below it."""
    parts = urlsplit(target)
    return parts.netloc, "/".join(part for part in (parts.path.strip("/"), name) if part)


def _content_type(file: Path) -> str:
    """What a browser needs to show a file instead of saving it."""
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def _put_s3(files: Sequence[tuple[Path, str]], target: str, endpoint_url: str | None) -> None:
    boto3, config, errors = _sdk("aws", "boto3", "botocore.config", "botocore.exceptions")
    how = config.Config(connect_timeout=10, read_timeout=_TIMEOUT, retries={"mode": "standard", "max_attempts": _TRIES})
    bucket, key = _place(target, "")
    try:
        client = boto3.client("s3", config=how, endpoint_url=endpoint_url)
        for file, name in files:
            bucket, key = _place(target, name)
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), ContentType=_content_type(file))
    except (errors.BotoCoreError, errors.ClientError) as error:
        raise NotHandedOver(f"s3://{bucket}/{key} cannot be written: {error}") from error


def _put_gs(files: Sequence[tuple[Path, str]], target: str, endpoint_url: str | None) -> None:
    storage, retry, errors, auth, credentials, requests = _sdk(
        "gcp",
        "google.cloud.storage",
        "google.cloud.storage.retry",
        "google.api_core.exceptions",
        "google.auth.exceptions",
        "google.auth.credentials",
        "requests.exceptions",
    )
    how: dict[str, Any] = {"client_options": {"api_endpoint": endpoint_url}} if endpoint_url else {}
    if urlsplit(endpoint_url or "").scheme == "http":  # an emulator of this machine, which gets no token
        how |= {"credentials": credentials.AnonymousCredentials(), "project": "none"}
    bucket, key = _place(target, "")
    try:
        client = storage.Client(**how)
        for file, name in files:
            bucket, key = _place(target, name)
            client.bucket(bucket).blob(key).upload_from_filename(
                str(file),
                content_type=_content_type(file),
                timeout=_TIMEOUT,
                retry=retry.DEFAULT_RETRY.with_timeout(_TIMEOUT),
            )
    except (errors.GoogleAPIError, auth.GoogleAuthError, requests.RequestException) as error:
        raise NotHandedOver(f"gs://{bucket}/{key} cannot be written: {error}") from error


def _put_az(files: Sequence[tuple[Path, str]], target: str, endpoint_url: str | None) -> None:
    blob, identity, errors = _sdk("azure", "azure.storage.blob", "azure.identity", "azure.core.exceptions")
    account, path = _place(target, "")
    # an emulator has the account in the path
    address = f"{endpoint_url.rstrip('/')}/{account}" if endpoint_url else f"https://{account}.blob.core.windows.net"
    how = {"connection_timeout": 10, "read_timeout": _TIMEOUT, "retry_total": _TRIES - 1}
    try:
        service = blob.BlobServiceClient(address, credential=identity.DefaultAzureCredential(), **how)
        for file, name in files:
            account, path = _place(target, name)
            container, _, key = path.partition("/")
            settings = blob.ContentSettings(content_type=_content_type(file))
            service.get_blob_client(container, key).upload_blob(
                file.read_bytes(), overwrite=True, content_settings=settings
            )
    except errors.AzureError as error:
        raise NotHandedOver(f"az://{account}/{path} cannot be written: {str(error).splitlines()[0]}") from error


def _sdk(extra: str, *names: str) -> list[Any]:
    try:
        return [import_module(name) for name in names]
    except ModuleNotFoundError as error:
        raise NotHandedOver(f"this bucket needs {error.name}: install auditor[{extra}]", again=False) from error
