"""S3: objects below a prefix put down as they are, by ETag; of bills what the newest manifest of each period names."""

import hashlib
import json
import logging
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from auditor.collect.aws import access, words
from auditor.collect.aws.access import Account, CallFailed
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder, plain
from auditor.collect.work import in_words
from auditor.errors import LakeError, SettingsError, SourceError
from auditor.journal import Problem
from auditor.settings import AwsSource

log = logging.getLogger(__name__)

_BLOCK = 2**20
_DELIVERED_WITHIN = timedelta(hours=6)  # a delivery takes minutes; older data was put there by hand
_ATTEMPTS = 4  # times an object is gone on with after its connection was cut
# 20261001-20261101 of the legacy report, BILLING_PERIOD=2026-10 of Data Exports, year=2026/month=10 of Athena's layout
_PERIOD = re.compile(
    r"(?:^|/)(?:(\d{4})(\d{2})\d{2}-\d{8}|billing_period=(\d{4})-(\d{2})[^/]*|year=(\d{4})/month=(\d{1,2}))(?:/|$)",
    re.IGNORECASE,
)
_RUN = re.compile(r"/(\d{4}-?\d{2}-?\d{2}T[\d:-]+Z?)[^/]*/[^/]+$")
_LEGACY = re.compile(r"(?:^|/)\d{8}-\d{8}/")
_MANIFEST = re.compile(r"-Manifest\.json$", re.IGNORECASE)
_AUXILIARY = re.compile(
    r"(\.sql|\.ya?ml|\.zip\.sha256|/)$|/cost_and_usage_data_status/|/aws-programmatic-access-test-object$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Stored:
    """An object as a listing tells of it."""

    key: str
    etag: str
    size: int
    modified: str


@dataclass(frozen=True)
class Delivery:
    """Objects that belong together: those of one export and period, or of a folder without manifests."""

    bucket: str
    export: str
    period: str | None  # YYYY-MM
    manifest: Stored | None
    objects: dict[str, Stored] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return " ".join(part for part in (f"s3://{self.bucket}/{self.export}", self.period) if part)


class Bucket:
    """A bucket read with the first of several credentials that may: exports of several payers lie in several accounts."""

    def __init__(self, name: str, accounts: Sequence[Account], advance: Callable[[int], None] = lambda _: None) -> None:
        self.name = name
        self._accounts = list(accounts)
        self._advance = advance

    def list(self, prefix: str, **more: Any) -> Iterator[dict[str, Any]]:
        """The pages of a listing."""
        for position, account in enumerate(list(self._accounts)):
            try:
                pages = account.pages("s3:ListObjectsV2", Bucket=self.name, Prefix=prefix, **more)
                first = next(pages)
            except CallFailed as error:
                if position + 1 < len(self._accounts) and _is_denied(error):
                    continue
                raise
            self._accounts = [account, *(other for other in self._accounts if other is not account)]
            yield first
            yield from pages
            return

    def objects(self, prefix: str) -> Iterator[Stored]:
        for page in self.list(prefix):
            for one in page.get("Contents") or ():
                yield Stored(one["Key"], one["ETag"].strip('"'), int(one["Size"]), str(one["LastModified"]))

    def blocks(self, stored: Stored) -> Iterator[bytes]:
        """The object's bytes, of this very version; a cut connection is gone on with where it broke off."""
        done = 0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for block in self._answer(stored, done):
                    done += len(block)
                    self._advance(len(block))
                    yield block
            except _cuts() as error:
                if attempt == _ATTEMPTS:
                    raise SourceError(
                        f"s3://{self.name}/{stored.key}: the transfer was cut {attempt} times ({type(error).__name__})"
                    ) from error
                log.info("transfer cut bucket=%s key=%s done=%d of=%d", self.name, stored.key, done, stored.size)
                continue
            if done == stored.size:
                return
        raise SourceError(
            f"s3://{self.name}/{stored.key}: {done:,} of {stored.size:,} bytes came; the transfer was cut"
        )

    def _answer(self, stored: Stored, done: int) -> Iterator[bytes]:
        if done >= stored.size > 0:
            return
        wanted = {"Range": f"bytes={done}-"} if done else {}
        answer = self._get(stored, wanted, stored.size - done)
        body = answer["Body"]
        try:
            while block := body.read(_BLOCK):
                yield block
        finally:
            body.close()

    def _get(self, stored: Stored, wanted: dict[str, str], size: int) -> dict[str, Any]:
        for position, account in enumerate(list(self._accounts)):
            try:
                return account.call(
                    "s3:GetObject", Bucket=self.name, Key=stored.key, IfMatch=f'"{stored.etag}"', _bytes=size, **wanted
                )
            except CallFailed as error:
                if _code(error) in ("PreconditionFailed", "412", "NoSuchKey"):
                    raise SourceError(
                        f"s3://{self.name}/{stored.key} was replaced while it was fetched: it is being delivered; the next collection takes it whole"
                    ) from error
                if position + 1 < len(self._accounts) and _is_denied(error):
                    continue
                raise
        raise SourceError(f"s3://{self.name}: no credentials to read it with")


def _cuts() -> tuple[type[Exception], ...]:
    from botocore.exceptions import HTTPClientError, IncompleteReadError
    from urllib3.exceptions import HTTPError

    return (HTTPClientError, IncompleteReadError, HTTPError, ConnectionError, TimeoutError)


def _code(error: CallFailed) -> str:
    response = getattr(error.error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _is_denied(error: CallFailed) -> bool:
    return _code(error) in ("AccessDenied", "403", "Forbidden", "InvalidAccessKeyId", "AllAccessDisabled")


def address(url: str) -> tuple[str, str]:
    """Bucket and prefix of s3://BUCKET/PREFIX. Raises SettingsError for anything else."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise SettingsError(f"{url}: wanted s3://BUCKET/PREFIX")
    return parts.netloc, unquote(parts.path.lstrip("/"))


def fetch(
    url: str,
    into: LandingFolder,
    budget: Budget,
    now: datetime,
    *,
    endpoint_url: str | None = None,
    kind: str = "billing",
    months: int | None = None,
) -> list[str]:
    """Names of the files below `kind`/BUCKET that stand for what lies at the address, fetched or kept.

    A delivery that cannot be fetched whole leaves the earlier one in place and becomes a problem of the folder. Raises
    SettingsError for an address that is none, SourceError where there is nothing, CallFailed where it cannot be listed.
    """
    bucket, prefix = address(url)
    source = AwsSource(name="s3", endpoint_url=endpoint_url)
    place = Bucket(bucket, [access.base(source, budget)])
    found = deliveries(place, prefix, into, now, kind=kind, months=months)
    names: list[str] = []
    for delivery in found:
        try:
            names += take(place, delivery, into, now, kind=kind)
        except LakeError:
            raise
        except Exception as error:  # one delivery that fails ends no other
            refusal = in_words(error, words.explain)
            into.problem(
                Problem(kind, "s3:GetObject", f"{delivery.title}: {refusal.reason}", _hides(delivery), refusal.fix)
            )
    return names


def _hides(delivery: Delivery) -> str:
    return f"the newest delivery of {delivery.title}; what an earlier collection fetched of it is still read"


def newest_months(now: datetime, months: int) -> str:
    """The oldest of the newest months, as YYYY-MM."""
    count = now.year * 12 + now.month - 1 - (months - 1)
    return f"{count // 12:04d}-{count % 12 + 1:02d}"


def deliveries(
    bucket: Bucket, prefix: str, into: LandingFolder, now: datetime, *, kind: str = "billing", months: int | None = None
) -> list[Delivery]:
    """What lies below a prefix, put together by export and period, newest period first.

    Raises CallFailed where it cannot be listed, SourceError where there is nothing.
    """
    oldest = newest_months(now, months) if months else ""
    groups: dict[tuple[str, str | None], list[Stored]] = defaultdict(list)
    seen = 0
    for stored in bucket.objects(prefix):
        seen += 1
        period = period_of(stored.key)
        if stored.size == 0 or _AUXILIARY.search(stored.key) or (period is not None and period < oldest):
            continue
        groups[(_export(stored.key, period), period)].append(stored)
    if not seen:
        raise SourceError(
            f"s3://{bucket.name}/{prefix} holds nothing: the export has not delivered yet, or the prefix is another"
        )
    found = [_delivery(bucket.name, *key, members) for key, members in groups.items()]
    listed = [one for one in found if one.manifest is not None]
    named = {one.export for one in listed}
    for one in found:
        for other in listed:
            # Athena's layout keeps the data of a period in a folder of its own below the report's.
            if one is not other and one.period == other.period and _is_under(one.export, {other.export}):
                other.objects.update(one.objects)
    loose = [one for one in found if one.manifest is None and not _is_under(one.export, named)]
    return sorted([*listed, *loose], key=lambda one: (one.period or "", one.export), reverse=True)


def period_of(key: str) -> str | None:
    """The billing period in a key, as YYYY-MM."""
    match = _PERIOD.search(key)
    if match is None:
        return None
    year, month = [part for part in match.groups() if part]
    return f"{year}-{int(month):02d}"


def _export(key: str, period: str | None) -> str:
    """The folder of an export: data and manifests of one period lie below it."""
    if period is None:
        return key.rpartition("/")[0]
    match = _PERIOD.search(key)
    assert match is not None
    root = key[: match.start()]
    return re.sub(r"(^|/)(data|metadata)$", "", root)


def _is_under(export: str, named: set[str]) -> bool:
    """Whether a folder belongs to an export whose manifests tell what counts: Athena's layout has one below the other."""
    return any(export == one or export.startswith(f"{one}/") for one in named)


def _delivery(bucket: str, export: str, period: str | None, members: list[Stored]) -> Delivery:
    newest = _newest([one for one in members if _MANIFEST.search(one.key)])
    return Delivery(bucket, export, period, newest, {one.key: one for one in members if not _MANIFEST.search(one.key)})


def _newest(manifests: Sequence[Stored]) -> Stored | None:
    if any(_LEGACY.search(one.key) for one in manifests):
        # The manifest in the period's own folder names the newest assembly; those beside the data are copies.
        depth = min(one.key.count("/") for one in manifests)
        manifests = [one for one in manifests if one.key.count("/") == depth]
    runs = all(_run(one.key) for one in manifests)  # a copied bucket has lost the times, not the names of its folders
    return max(manifests, key=lambda one: (_run(one.key) if runs else "", one.modified, one.key), default=None)


def _run(key: str) -> str:
    match = _RUN.search(key)
    return re.sub(r"\D", "", match.group(1))[:14] if match else ""


def take(
    bucket: Bucket,
    delivery: Delivery,
    into: LandingFolder,
    now: datetime,
    *,
    kind: str = "billing",
    parallel: int = 4,
) -> list[str]:
    """Fetches a delivery, whole, before what it supersedes is dropped. Returns the names of its files."""
    wanted, manifest = _wanted(bucket, delivery, into, kind, now)
    new = [one for one in wanted if not into.holds(_name(kind, bucket.name, one.key), one.etag)]
    about = {"kind": kind, "now": now, "period": delivery.period}
    if _replaces(new, wanted, into, bucket.name, kind):
        _exchange(bucket, new, into, about, parallel)
    else:
        _each(new, parallel, lambda one: _put(bucket, one, into, about, bucket.blocks(one)))
    names = [_name(kind, bucket.name, one.key) for one in wanted]
    if delivery.manifest is not None and manifest is not None:
        name = _name(kind, bucket.name, delivery.manifest.key)
        if not into.holds(name, delivery.manifest.etag):
            _put(bucket, delivery.manifest, into, about, [manifest])
        names.append(name)
    into.drop(_superseded(delivery, into, bucket.name, kind, set(names)))
    return names


def _wanted(
    bucket: Bucket, delivery: Delivery, into: LandingFolder, kind: str, now: datetime
) -> tuple[list[Stored], bytes | None]:
    """The objects of the delivery and the manifest's own bytes.

    Raises SourceError where the manifest names objects that are not there (yet).
    """
    if delivery.manifest is None:
        return list(delivery.objects.values()), None
    name = _name(kind, bucket.name, delivery.manifest.key)
    if into.holds(name, delivery.manifest.etag):
        text = (into.path / plain(name)).read_bytes()
    else:
        text = b"".join(bucket.blocks(delivery.manifest))
    keys = _keys(text, delivery.manifest.key)
    absent = [key for key in keys if key not in delivery.objects]
    if absent:
        raise SourceError(
            f"{delivery.title}: the manifest names {len(keys)} files and {len(absent)} of them are not there, first {absent[0]}: it is being delivered; what was fetched before stays"
        )
    wanted = [delivery.objects[key] for key in keys]
    if into.holds(name, delivery.manifest.etag):
        _check_quiet(
            delivery, [one for one in wanted if not into.holds(_name(kind, bucket.name, one.key), one.etag)], now
        )
    return wanted, text


def _check_quiet(delivery: Delivery, changed: Sequence[Stored], now: datetime) -> None:
    """Data is replaced before its manifest is: until the new one is there, some of the files may be of the old delivery."""
    for one in changed:
        since = now - _time(one.modified)
        if delivery.manifest is not None and one.modified > delivery.manifest.modified and since < _DELIVERED_WITHIN:
            raise SourceError(
                f"{delivery.title}: {one.key} is newer than its manifest: it is being delivered; what was fetched before stays"
            )


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _keys(text: bytes, name: str) -> list[str]:
    try:
        document = json.loads(text)
        keys = document.get("reportKeys") or document.get("dataFiles") or []
    except (ValueError, AttributeError) as error:
        raise SourceError(f"the manifest {name} is no JSON object: {error}") from error
    return [address(key)[1] if key.startswith("s3://") else key.lstrip("/") for key in map(str, keys)]


def _name(kind: str, bucket: str, key: str) -> str:
    return plain(f"{kind}/{bucket}/{key}")


def _replaces(new: Sequence[Stored], wanted: Sequence[Stored], into: LandingFolder, bucket: str, kind: str) -> bool:
    """Whether objects took the place of others of their name: then one new file beside an old one is a wrong bill."""
    entries = into.entries
    return len(wanted) > 1 and any(_name(kind, bucket, one.key) in entries for one in new)


def _exchange(bucket: Bucket, new: Sequence[Stored], into: LandingFolder, about: dict[str, Any], parallel: int) -> None:
    """Fetches all beside the folder first, then puts them in their places; what a kill left beside it is used again."""
    staging = into.path.parent / f".{into.path.name}.staging"
    staging.mkdir(parents=True, exist_ok=True)

    def stage(one: Stored) -> None:
        target = _staged(staging, bucket.name, one)
        if target.is_file() and target.stat().st_size == one.size:
            return
        part = target.with_suffix(".part")
        try:
            with part.open("wb") as out:
                for block in bucket.blocks(one):
                    out.write(block)
            if part.stat().st_size != one.size:
                raise SourceError(f"{one.key}: the transfer was cut")
            part.replace(target)
        except OSError as error:
            raise LakeError(f"{staging} cannot be written to: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)

    need = sum(one.size for one in new)
    if shutil.disk_usage(staging).free < 2 * need:
        raise LakeError(f"{staging} has no room for {need:,} bytes twice, which a delivery in place of another needs")
    _each(new, parallel, stage)
    for one in new:
        _put(bucket, one, into, about, _read(_staged(staging, bucket.name, one)))
    for one in new:
        _staged(staging, bucket.name, one).unlink(missing_ok=True)
    if not any(staging.iterdir()):
        staging.rmdir()


def _staged(staging: Path, bucket: str, one: Stored) -> Path:
    return staging / hashlib.sha256(f"{bucket}/{one.key}/{one.etag}".encode()).hexdigest()


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _put(bucket: Bucket, one: Stored, into: LandingFolder, about: dict[str, Any], blocks: Iterable[bytes]) -> None:
    into.write(_name(about["kind"], bucket.name, one.key), blocks, etag=one.etag, size=one.size, **about)


def _each(objects: Sequence[Stored], parallel: int, run: Any) -> None:
    if len(objects) <= 1:
        for one in objects:
            run(one)
        return
    with ThreadPoolExecutor(min(parallel, len(objects)), "objects") as pool:
        for done in [pool.submit(run, one) for one in objects]:
            done.result()


def _superseded(delivery: Delivery, into: LandingFolder, bucket: str, kind: str, names: set[str]) -> list[str]:
    """Files of the same export and period that the delivery does not hold."""
    top = plain(f"{kind}/{bucket}") + "/"
    return [
        name
        for name, entry in into.entries.items()
        if name.startswith(top)
        and name not in names
        and entry.period == delivery.period
        and _belongs(name.removeprefix(top), delivery)
    ]


def _belongs(key: str, delivery: Delivery) -> bool:
    if delivery.manifest is None:
        return _export(key, period_of(key)) == delivery.export and not _MANIFEST.search(key)
    return period_of(key) == delivery.period and _is_under(_export(key, period_of(key)), {delivery.export})
