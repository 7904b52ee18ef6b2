"""Puts report files into a folder or a bucket; the same file twice is the same file."""

import os
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from auditor.deliver.handover import Handover, NotHandedOver


def drop(files: Sequence[Path], target: str, run_id: str, handing_over: Handover) -> None:
    """Each file under `target`/`run_id`/ and, replacing the one before, under `target`/latest/.

    Raises NotHandedOver where the target cannot be written.
    """
    handing_over()
    put = {"s3": _put_s3, "gs": _put_gs, "az": _put_az}.get(urlsplit(target).scheme, _put_file)
    for folder in (run_id, "latest"):
        for file in files:
            put(file, target, f"{folder}/{file.name}")


def _put_file(file: Path, target: str, name: str) -> None:
    path = Path(target).expanduser() / name
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


def _put_s3(file: Path, target: str, name: str) -> None:
    boto3, errors = _sdk("aws", "boto3", "botocore.exceptions")
    bucket, key = _place(target, name)
    try:
        boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
    except (errors.BotoCoreError, errors.ClientError) as error:
        raise NotHandedOver(f"s3://{bucket}/{key} cannot be written: {error}") from error


def _put_gs(file: Path, target: str, name: str) -> None:
    storage, errors, auth = _sdk("gcp", "google.cloud.storage", "google.api_core.exceptions", "google.auth.exceptions")
    bucket, key = _place(target, name)
    try:
        storage.Client().bucket(bucket).blob(key).upload_from_filename(str(file))
    except (errors.GoogleAPIError, auth.GoogleAuthError) as error:
        raise NotHandedOver(f"gs://{bucket}/{key} cannot be written: {error}") from error


def _put_az(file: Path, target: str, name: str) -> None:
    blob, identity, errors = _sdk("azure", "azure.storage.blob", "azure.identity", "azure.core.exceptions")
    account, path = _place(target, name)
    container, _, key = path.partition("/")
    try:
        address = f"https://{account}.blob.core.windows.net"
        service = blob.BlobServiceClient(address, credential=identity.DefaultAzureCredential())
        service.get_blob_client(container, key).upload_blob(file.read_bytes(), overwrite=True)
    except errors.AzureError as error:
        raise NotHandedOver(f"az://{account}/{path} cannot be written: {error}") from error


def _sdk(extra: str, *names: str) -> list[Any]:
    try:
        return [import_module(name) for name in names]
    except ModuleNotFoundError as error:
        raise NotHandedOver(f"this bucket needs {error.name}: install auditor[{extra}]", again=False) from error
