"""Blobs below a prefix as landing files: only what is new, and of a bill only what counts.

A daily export writes the whole month anew with every run. Of an export and a period the newest run whose files are all
there is fetched, put down under names that readers pass over, and shown to them when it is whole.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from azure.core import MatchConditions

from auditor.collect.azure.clients import CHUNK, Azure, CallFailed
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder, plain
from auditor.errors import SourceError
from auditor.journal import Problem

_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_RUN_TIME = re.compile(r"^\d{12,14}$|^\d{8}T\d{4,6}Z?$")  # 202610190612, where an export does not overwrite
_SPAN = re.compile(r"(?:^|/)(\d{4})(\d{2})\d{2}-(\d{4})(\d{2})\d{2}(?:/|$)")
_DATA = re.compile(
    r"\.(csv|tsv|json|jsonl|ndjson|parquet|avro|log|zip|tar|tgz)(\.(gz|zst))?$|\.(gz|zst|snappy)$", re.IGNORECASE
)
_PAGE = 5000  # blobs in one answer, the most that the service gives
STAGED = "._"  # readers of a folder pass such names over


@dataclass(frozen=True)
class Place:
    """A prefix of a container. `host` is the account's where it is not the public cloud's."""

    account: str
    container: str
    prefix: str
    host: str | None = None

    @property
    def folder(self) -> str:
        return f"{self.account}/{self.container}"


@dataclass(frozen=True)
class Blob:
    name: str
    etag: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Run:
    """One run of an export for one period: `blobs` in the order in which they are put down, the manifest last."""

    group: str  # what its runs have in common in their paths
    first: str | None  # YYYY-MM
    last: str | None
    time: datetime
    blobs: tuple[Blob, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What is wanted of a prefix, and what lies there: names that are gone may be dropped."""

    place: Place
    runs: tuple[Run, ...]
    listed: frozenset[str]  # names below the landing folder
    since: str | None


def parse(url: str) -> Place:
    """The place in `https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX` or `az://ACCOUNT/CONTAINER/PREFIX`."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise SourceError(f"{url.partition('?')[0]}: give the address without its signature; az's own login is used")
    path = [part for part in parts.path.split("/") if part]
    if parts.scheme == "az" and parts.netloc and path:
        return Place(parts.netloc, path[0], "/".join(path[1:]))
    if parts.scheme == "https" and ".blob." in parts.netloc and path:
        account = parts.netloc.partition(".")[0]
        public = parts.netloc.endswith(".blob.core.windows.net")
        return Place(account, path[0], "/".join(path[1:]), None if public else parts.netloc)
    raise SourceError(f"{url}: wanted https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX or az://ACCOUNT/CONTAINER")


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
    """Mirrors a prefix below `billing/<account>/<container>/` (or another kind's folder); returns the names that stand.

    What fails is raised after everything else was tried, so that one broken period costs no other.
    """
    azure = Azure(budget, endpoint_url)
    wanted = plan(azure, url, into, now, kind=kind, months=months)
    names: list[str] = []
    failure: Exception | None = None
    for run in wanted.runs:
        try:
            take(azure, wanted, run, into, now, kind=kind)
            names += [_landing(kind, wanted.place, blob.name) for blob in run.blobs]
        except (SourceError, CallFailed) as error:
            failure = failure or error
    drop_gone(wanted, into, kind=kind)
    if failure is not None:
        raise failure
    return names


def plan(azure: Azure, url: str, into: LandingFolder, now: datetime, *, kind: str, months: int | None) -> Plan:
    """Lists the prefix and chooses: for bills the newest whole run of each period, for everything else all blobs."""
    place = parse(url)
    listed = list(listing(azure, place))
    names = frozenset(_landing(kind, place, blob.name) for blob in listed)
    since = _months_back(now, months) if months is not None else None
    if kind != "billing":
        runs = [Run(plain(blob.name), *_span(blob.name), blob.modified, (blob,)) for blob in listed]
    else:
        runs = _newest(_runs(azure, place, listed, into, now))
    wanted = [run for run in runs if since is None or run.last is None or run.last >= since]
    return Plan(place, tuple(sorted(wanted, key=lambda run: run.group)), names, since)


def take(azure: Azure, wanted: Plan, run: Run, into: LandingFolder, now: datetime, *, kind: str) -> None:
    """Fetches one run, shows it to readers, and drops what it replaces."""
    for blob in run.blobs:
        bring(azure, wanted, run, blob, into, now, kind=kind)
    show(wanted, run, into, kind=kind)


def bring(azure: Azure, wanted: Plan, run: Run, blob: Blob, into: LandingFolder, now: datetime, *, kind: str) -> None:
    """Fetches one blob of a run, unless this very content lies here; readers do not see it yet."""
    name = _landing(kind, wanted.place, blob.name)
    if not into.holds(name, blob.etag) and not into.holds(_staged(name), blob.etag):
        _download(azure, wanted.place, blob, into, _staged(name), kind=kind, period=run.first, now=now)


def show(wanted: Plan, run: Run, into: LandingFolder, *, kind: str) -> None:
    """Shows a run to readers and drops what it replaces, if all of its blobs lie here; else nothing changes."""
    names = {_landing(kind, wanted.place, blob.name): blob for blob in run.blobs}
    fresh = [name for name, blob in names.items() if not into.holds(name, blob.etag)]
    if not all(into.holds(_staged(name), names[name].etag) for name in fresh):
        return
    older = [name for name in _of_group(wanted.place, run.group, into, kind) if name not in names]
    if run.missing:
        stays = any(not _is_staged(name) for name in older)
        _tell_missing(run, into, kind, "an older delivery is used" if stays else "part of the costs")
        if stays:
            return
    for name in fresh:
        into.adopt(_staged(name), name)
    into.drop(older)


def _tell_missing(run: Run, into: LandingFolder, kind: str, means: str) -> None:
    into.problem(
        Problem(
            kind,
            "storage:blobs.list",
            f"{run.blobs[-1].name} names {len(run.missing)} files that are not there, such as {run.missing[0]}",
            f"the newest costs of {run.first or 'a period'}: {means}",
            "run the export again in the portal, or wait for its next run",
        )
    )


def drop_gone(wanted: Plan, into: LandingFolder, *, kind: str) -> None:
    """Drops files whose blobs are gone, but for periods before the months that are asked for; and leftovers of staging."""
    groups = {run.group for run in wanted.runs}
    head = f"{plain(f'{kind}/{wanted.place.folder}/{wanted.place.prefix}')}"
    gone = []
    for name, entry in into.entries.items():
        if not (name == head or name.startswith(f"{head}/")):
            continue
        blob = _blob_of(name, wanted.place, kind)
        is_old = wanted.since is not None and (_span(blob)[1] or entry.period or wanted.since) < wanted.since
        if _landing(kind, wanted.place, blob) not in wanted.listed and not is_old and _group(blob) not in groups:
            gone.append(name)
    into.drop(gone)


def listing(azure: Azure, place: Place) -> Iterator[Blob]:
    """Every blob below the prefix that holds anything."""
    client = azure.container(place.account, place.container, place.host)
    pages = client.list_blobs(name_starts_with=place.prefix or None, results_per_page=_PAGE).by_page()
    while True:
        with azure.asking("storage:blobs.list", f"{place.folder}/{place.prefix}"):
            page = list(next(pages, ()))  # may be empty and yet not the last
        for blob in page:
            if _is_inside(blob.name, place) and blob.size:
                yield Blob(blob.name, blob.etag.strip('"'), blob.size, blob.last_modified)
        if not pages.continuation_token:
            return


def spans(place: Place, into: LandingFolder, *, kind: str) -> Iterator[tuple[str | None, str | None]]:
    """First and last month of each file of the prefix that readers see; null where nothing tells them."""
    for name, entry in into.entries.items():
        blob = _blob_of(name, place, kind)
        if not _is_staged(name) and name.startswith(f"{kind}/{place.folder}/") and _is_inside(blob, place):
            first, last = _span(blob)
            yield first or entry.period, last or entry.period


def kinds(azure: Azure, place: Place, blobs: Sequence[Blob], most: int) -> set[str]:
    """Types of export that the newest manifests tell, in small letters."""
    newest: dict[str, Blob] = {}
    for blob in sorted(blobs, key=lambda blob: blob.modified):
        if _is_manifest(blob.name):
            newest[_group(blob.name)] = blob
    told = sorted(newest.values(), key=lambda blob: blob.modified)[-most:]
    read = (_parse_manifest(blob, b"".join(_chunks(azure, place, blob))) for blob in told)
    return {about["type"].lower() for about in read if about}


def _is_inside(blob: str, place: Place) -> bool:
    # `exports/ea` is a prefix of `exports/ea-old/…` too, which is another folder.
    return not place.prefix or blob == place.prefix or blob.startswith(place.prefix + "/")


def _landing(kind: str, place: Place, name: str) -> str:
    return plain(f"{kind}/{place.folder}/{name}")


def _blob_of(name: str, place: Place, kind: str) -> str:
    """The blob of a landing file, staged or not."""
    folder, _, last = name.removeprefix(f"{kind}/{place.folder}/").rpartition("/")
    last = last.removeprefix(STAGED)
    return f"{folder}/{last}" if folder else last


def _staged(name: str) -> str:
    folder, _, last = name.rpartition("/")
    return f"{folder}/{STAGED}{last}"


def _is_staged(name: str) -> bool:
    return name.rpartition("/")[2].startswith(STAGED)


def _group(name: str) -> str:
    """The export and the period in a path: what is left when the parts that a run has for itself are taken out."""
    name = plain(name)  # as it is below the landing folder
    folder, _, last = name.rpartition("/")
    shared = _shared(name)
    if not _SPAN.search(name) and not _is_manifest(name):
        return name  # only exports write into folders of a period; elsewhere ids in names tell parts apart
    if _is_manifest(name) or shared != folder.strip("/"):
        return shared
    # Older exports write one file a run, with the run's id in its name.
    bare = _GUID.sub("", last)
    return f"{shared}/{bare}" if bare != last else name


def _shared(name: str) -> str:
    """The folder that all runs of an export and period share."""
    parts = plain(name).split("/")[:-1]
    return "/".join(part for part in parts if part and not _GUID.fullmatch(part) and not _RUN_TIME.match(part))


def _of_group(place: Place, group: str, into: LandingFolder, kind: str) -> list[str]:
    head = f"{kind}/{place.folder}/"
    blobs = {name: _blob_of(name, place, kind) for name in into.entries if name.startswith(head)}
    return [name for name, blob in blobs.items() if group in (_group(blob), _shared(blob))]


def _span(name: str) -> tuple[str | None, str | None]:
    """First and last month of a path such as …/20261001-20261031/…."""
    found = _SPAN.search(name)
    return (f"{found[1]}-{found[2]}", f"{found[3]}-{found[4]}") if found else (None, None)


def _is_manifest(name: str) -> bool:
    return name.rpartition("/")[2].lower() in ("manifest.json", "_manifest.json")


def _months_back(now: datetime, months: int) -> str:
    at = now.year * 12 + now.month - months
    return f"{at // 12:04d}-{at % 12 + 1:02d}"


def _runs(azure: Azure, place: Place, listed: Sequence[Blob], into: LandingFolder, now: datetime) -> list[Run]:
    """Every run that lies here: those with a manifest, and those whose files tell by their names alone."""
    manifests = [blob for blob in listed if _is_manifest(blob.name)]
    by_name = {blob.name: blob for blob in listed}
    told = _read_manifests(azure, place, manifests, into)
    runs = [_run_of(blob, told[blob.name], by_name) for blob in manifests if blob.name in told]
    groups = {run.group for run in runs}
    named = {blob.name for run in runs for blob in run.blobs}
    loose: dict[tuple[str, str], list[Blob]] = {}
    for blob in listed:
        group = _group(blob.name)
        # Data beside a manifest's runs that no manifest names are a run that is being written, or a deleted one's.
        is_known = blob.name in named or group in groups or _shared(blob.name) in groups
        if not is_known and _DATA.search(blob.name):
            run = (_GUID.findall(blob.name) or [""])[-1]
            loose.setdefault((group, run), []).append(blob)
    for (group, _), blobs in loose.items():
        newest = max(blob.modified for blob in blobs)
        runs.append(Run(group, *_span(blobs[0].name), newest, tuple(sorted(blobs, key=lambda blob: blob.name))))
    return runs


def _newest(runs: Iterable[Run]) -> list[Run]:
    """Of each export and period the newest whole run; where none is whole, the newest."""
    by_group: dict[str, list[Run]] = {}
    for run in runs:
        by_group.setdefault(run.group, []).append(run)
    return [max(group, key=lambda run: (not run.missing, run.time)) for group in by_group.values()]


def _run_of(manifest: Blob, about: Mapping[str, Any], by_name: Mapping[str, Blob]) -> Run:
    folder = manifest.name.rpartition("/")[0]
    blobs: list[Blob] = []
    missing: list[str] = []
    for name in about["blobs"]:
        found = by_name.get(name) or by_name.get(f"{folder}/{name.rpartition('/')[2]}")
        if found is None:
            missing.append(name)
        else:
            blobs.append(found)
    first, last = _span(manifest.name)
    # The manifest belongs to the group of its files, which is that of its own folder.
    return Run(
        _group(manifest.name),
        about["first"] or first,
        about["last"] or last,
        _time(about["submitted"]) or manifest.modified,
        (*blobs, manifest),
        tuple(missing),
    )


def _read_manifests(
    azure: Azure, place: Place, manifests: Sequence[Blob], into: LandingFolder
) -> dict[str, dict[str, Any]]:
    """What each manifest says, by name. All are read, once: when a blob was put there does not tell when it was made."""
    mark = f"manifests {place.folder}/{place.prefix}"
    known: dict[str, dict[str, Any]] = into.mark(mark) or {}
    told = {}
    for blob in manifests:
        about = known.get(blob.name)
        if about is None or about["etag"] != blob.etag:
            content = b"".join(_chunks(azure, place, blob))
            try:
                about = _parse_manifest(blob, content)
            except SourceError as error:  # its data files still tell by their names which run is the newest
                into.problem(Problem("billing", "storage:blobs.get", str(error), "whether that run is whole"))
                continue
        if about is not None:
            told[blob.name] = about
    if told != known:
        into.set_mark(mark, told)
    return told


def _parse_manifest(blob: Blob, content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except ValueError as error:
        raise SourceError(f"{blob.name}: the manifest is no JSON ({error}); run the export again") from error
    if not isinstance(document, dict) or not isinstance(document.get("blobs"), list):
        return None  # a manifest of something else
    run = document.get("runInfo") or {}
    return {
        "etag": blob.etag,
        "first": str(run.get("startDate") or "")[:7] or None,
        "last": str(run.get("endDate") or "")[:7] or None,
        "submitted": run.get("submittedTime") or run.get("endTime"),
        "type": str((document.get("exportConfig") or {}).get("type") or ""),
        "blobs": [str(one.get("blobName") or "") for one in document["blobs"] if one.get("blobName")],
    }


def _time(text: object) -> datetime | None:
    try:
        # .NET writes seven decimals, which datetime does not take
        when = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(text)).replace("Z", "+00:00"))
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _chunks(azure: Azure, place: Place, blob: Blob) -> Iterator[bytes]:
    """The blob's bytes. The client repeats a request whose answer breaks off; a blob that changes meanwhile is refused."""
    calls = max(1, -(-blob.size // CHUNK))
    with azure.asking("storage:blobs.get", f"{place.folder}/{blob.name}", calls=calls, bytes_=blob.size):
        client = azure.container(place.account, place.container, place.host).get_blob_client(blob.name)
        for block in client.download_blob(
            etag=f'"{blob.etag}"', match_condition=MatchConditions.IfNotModified, max_concurrency=1
        ).chunks():
            azure.advance(len(block))
            yield block


def _download(
    azure: Azure,
    place: Place,
    blob: Blob,
    into: LandingFolder,
    name: str,
    *,
    kind: str,
    period: str | None,
    now: datetime,
) -> None:
    into.write(name, _chunks(azure, place, blob), kind=kind, now=now, etag=blob.etag, size=blob.size, period=period)
