"""What lies under a gs:// address, mirrored by content: only what has changed is read."""

import logging
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import datetime
from functools import partial
from typing import IO, Any, TypeVar

from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.storage import Client  # type: ignore[import-untyped]
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse  # type: ignore[import-untyped]
from google.cloud.storage.retry import DEFAULT_RETRY  # type: ignore[import-untyped]

from auditor.collect.budget import Budget, BudgetReached
from auditor.collect.folder import LandingFolder, plain
from auditor.collect.gcp.rest import Google
from auditor.collect.gcp.words import explain, from_client
from auditor.collect.work import Refusal
from auditor.errors import SourceError
from auditor.journal import Problem

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_RETRY = DEFAULT_RETRY.with_timeout(180)
_TIMEOUT = (10, 120)
_AT_ONCE = 4
_BLOCK = 1 << 20
# `2026-08`, `202608`, `billing_period=2026-08`, `20260801-20260831` as a folder's whole name
_PERIOD = re.compile(
    r"^(?:billing_?period=)?(20\d\d)-?(\d\d)(?:-?\d\d)?(?:[-_]\d{4}-?\d{2}(?:-?\d{2})?)?$", re.IGNORECASE
)


def fetch(
    url: str,
    into: LandingFolder,
    budget: Budget,
    now: datetime,
    *,
    endpoint_url: str | None,
    kind: str,
    months: int | None,
) -> list[str]:
    """Mirrors gs://BUCKET/PREFIX below `kind`/BUCKET/; returns the names of what lies here of it afterwards.

    Files of one folder belong together: where one of them cannot be read, all of the folder stay as they were, because
    shards of two exports are no bill. Folders named for a period older than `months` are not read. What is gone from the
    bucket goes from here. Objects that fail are problems of the folder; raises where the list itself fails.
    """
    bucket, prefix = _parts(url)
    google = Google(endpoint_url, budget)
    with closing(_client(google)) as client:
        mirror = _Mirror(client, google, into, now, kind, bucket)
        folders = _folders(listed(client, google, bucket, prefix))
        kept = set()  # folders in which an older set stays, as a newer one did not come whole
        for folder, blobs in sorted(folders.items()):
            if (months is None or not _is_older(folder, now, months)) and not mirror.take(folder, blobs):
                kept.add(mirror.name(folder))
        present = {mirror.name(blob.name) for blobs in folders.values() for blob in blobs}
        begin = f"{kind}/{bucket}/{prefix}"
        gone = [name for name in into.entries if name.startswith(begin) and name not in present]
        into.drop(name for name in gone if name.rpartition("/")[0] not in kept)
    return sorted(present & set(into.entries))


def _is_older(folder: str, now: datetime, months: int) -> bool:
    first = now.year * 12 + now.month - months  # months since year 0, counted from 0
    for part in folder.split("/"):
        found = _PERIOD.match(part)
        if found and 1 <= int(found[2]) <= 12:
            return int(found[1]) * 12 + int(found[2]) - 1 < first
    return False


def newest(url: str, google: Google) -> datetime | None:
    """When the newest object below an address was written, null where there is none."""
    bucket, prefix = _parts(url)
    with closing(_client(google)) as client:
        times = [blob.updated for blob in listed(client, google, bucket, prefix) if blob.updated]
    return max(times, default=None)


def _parts(url: str) -> tuple[str, str]:
    bucket, _, prefix = url.removeprefix("gs://").partition("/")
    if not bucket:
        raise SourceError(f"{url}: wanted gs://BUCKET/PREFIX")
    return bucket, prefix.rstrip("*")


def _client(google: Google) -> Any:
    options = ClientOptions(api_endpoint=google.endpoint_url) if google.endpoint_url else None
    return Client(google.project or "none", google.credentials, client_options=options)


def _ask(google: Google, name: str, call: Callable[[], _T], bytes_: int = 0) -> _T:
    made = google.book(name, bytes_=bytes_)
    try:
        return call()
    except GoogleAPICallError as error:
        raise from_client(made, error) from error


def listed(client: Any, google: Google, bucket: str, prefix: str) -> Iterator[Any]:
    """The objects below a prefix; the marks that consoles leave for empty folders are none."""
    found = client.list_blobs(bucket, prefix=prefix or None, retry=_RETRY, timeout=_TIMEOUT)
    pages = found.pages
    while True:
        page = _ask(google, "storage.objects.list", lambda: next(pages, None))
        if page is None:
            return
        yield from (blob for blob in page if not blob.name.endswith("/"))
        if not found.next_page_token:
            return


def _folders(blobs: Iterable[Any]) -> dict[str, list[Any]]:
    folders: dict[str, list[Any]] = defaultdict(list)
    for blob in blobs:
        folders[blob.name.rpartition("/")[0]].append(blob)
    return folders


class _Mirror:
    def __init__(self, client: Any, google: Google, into: LandingFolder, now: datetime, kind: str, bucket: str) -> None:
        self._client, self._google, self._into, self._now = client, google, into, now
        self._kind, self._bucket = kind, bucket

    def name(self, key: str) -> str:
        return plain(f"{self._kind}/{self._bucket}/{key}")

    def take(self, folder: str, blobs: Sequence[Any]) -> bool:
        """Brings one folder up to date; false where something of it could not be read."""
        changed = [blob for blob in blobs if not self._into.holds(self.name(blob.name), _etag(blob))]
        replaces = any(self.name(blob.name) in self._into.entries for blob in changed)
        log.info("objects bucket=%s folder=%s files=%d changed=%d", self._bucket, folder, len(blobs), len(changed))
        with ExitStack() as waiting, ThreadPoolExecutor(_AT_ONCE, "objects") as pool:
            # An older set is replaced once the newer is here as a whole; a first one may land file by file.
            read = partial(self._read, waiting) if replaces else self._read_and_put
            results = list(pool.map(partial(self._tried, read), changed))
            failed = [error for _, error in results if error is not None]
            for error in failed[:1]:
                self._note(folder, error, len(failed), replaces)
            if replaces and not failed:
                for blob, (file, _) in zip(changed, results, strict=True):
                    self._put(blob, file)
            return not failed

    @staticmethod
    def _tried(read: Callable[[Any], _T], blob: Any) -> tuple[_T | None, Exception | None]:
        try:
            return read(blob), None
        except (SourceError, BudgetReached) as error:
            return None, error
        except Exception as error:
            if explain(error) is None:
                raise
            return None, error

    def _note(self, folder: str, error: Exception, count: int, replaces: bool) -> None:
        known = explain(error)
        if known is None:
            fix = "raise the cap under [limits], or ask for less" if isinstance(error, BudgetReached) else None
            known = Refusal(str(error), fix)
        hides = f"{count} changed files of gs://{self._bucket}/{folder}"
        if replaces:
            hides += ", of which all older files are kept"
        self._into.problem(Problem(self._kind, "storage:objects.get", known.reason, hides, known.fix))

    def _read(self, waiting: ExitStack, blob: Any) -> IO[bytes]:
        return self._download(blob, waiting.enter_context(self._room()))

    def _read_and_put(self, blob: Any) -> None:
        with self._room() as file:
            self._put(blob, self._download(blob, file))

    def _room(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._into.path)  # nameless: a kill leaves nothing behind

    def _download(self, blob: Any, file: IO[bytes]) -> IO[bytes]:
        """The object as it is stored, of the generation that was listed, checked against the checksum of the store."""

        def download() -> None:
            blob.download_to_file(
                file, raw_download=True, if_generation_match=blob.generation, retry=_RETRY, timeout=_TIMEOUT
            )

        try:
            _ask(self._google, "storage.objects.get", download, bytes_=int(blob.size or 0))
        except (DataCorruption, InvalidResponse) as error:
            raise SourceError(f"{blob.name}: the transfer failed ({error})") from error
        file.seek(0)
        return file

    def _put(self, blob: Any, file: IO[bytes] | None) -> None:
        if file is None:
            raise AssertionError("what is put down was read")
        self._into.write(
            self.name(blob.name),
            iter(partial(file.read, _BLOCK), b""),
            kind=self._kind,
            now=self._now,
            etag=_etag(blob),
            size=blob.size,
        )


def _etag(blob: Any) -> str:
    """What names the content: the store's etag also changes with a label."""
    return str(blob.md5_hash or blob.crc32c or blob.etag)
