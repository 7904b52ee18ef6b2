"""Collectors: the vendors' own answers, put down as landing files. Nothing is interpreted here.

Each module of a cloud has

    collect(source, collection) -> None    fetches what the source's settings ask for
    check(source) -> Iterator[Check]       what `auditor doctor` says of the source
    policy() -> str                        the least-privilege policy of all calls that `collect` and `check` make
    explain(error) -> Refusal | None       the vendor's own exceptions in words
    objects.fetch(url, folder, ...)        what lies under a URL of the cloud's object store
"""

import importlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from auditor.checks import Check
from auditor.collect.budget import Budget
from auditor.collect.folder import LandingFolder, plain
from auditor.collect.work import Collection, Task
from auditor.errors import SettingsError
from auditor.journal import Problem
from auditor.progress import Progress, step
from auditor.settings import Settings

log = logging.getLogger(__name__)

CLOUDS = ("aws", "gcp", "azure")
_MODULES = (*CLOUDS, "prometheus", "slurm")


@dataclass(frozen=True)
class Collected:
    """One source, collected: its folder, and what could not be fetched."""

    name: str
    path: Path
    files: int
    problems: Sequence[Problem]


def live_sources(settings: Settings) -> list[tuple[str, Any]]:
    """(module, source) of each live source of the configuration."""
    return [(name, source) for name in _MODULES for source in getattr(settings.sources, name)]


def collect(settings: Settings, root: Path, spool: Path, progress: Progress, now: datetime) -> list[Collected]:
    """Fetches every live source into a folder of its own below `root`.

    A source that fails is a problem in its journal and stops no other. Raises SettingsError where the SDK of a
    configured source is not installed, LakeError where there is no room.
    """
    sources = [(_module(name), name, source) for name, source in live_sources(settings)]
    budget = Budget(settings.limits)
    end = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    start = end.replace(hour=0) - timedelta(days=settings.audit.lookback_days + settings.audit.hold_back_days + 1)
    made = []
    for module, name, source in sources:
        provider = name if name in CLOUDS else None
        with LandingFolder(root / source.name, source.name, provider, now) as folder:
            collection = Collection(
                folder, budget, settings.limits, start, end, now, progress, spool, settings.limits.months
            )
            whole = Task(
                "billing",
                f"collect {name}",
                f"what source {source.name} would tell",
                partial(module.collect, source, collection),
            )
            with step(progress, f"Collecting {source.name}"):
                collection.attempt(whole, getattr(module, "explain", lambda _: None))
            _expire(folder, settings, start, now)
            folder.finish(budget.take(), datetime.now(UTC))
            made.append(Collected(source.name, folder.path, len(folder.entries), folder.problems))
    return made


def _expire(folder: LandingFolder, settings: Settings, start: datetime, now: datetime) -> None:
    """Drops what was fetched too long ago; what a later collection kept or renewed is young again.

    Bills of one folder go together, with the youngest of them: what is left of a bill would be a wrong bill.
    """
    oldest = {"billing": now - timedelta(days=settings.lake.landing_days)}
    fetched = {name: datetime.fromisoformat(entry.fetched_at) for name, entry in folder.entries.items()}
    youngest: dict[str, datetime] = {}
    for name, entry in folder.entries.items():
        if entry.kind == "billing":
            place = name.rpartition("/")[0]
            youngest[place] = max(youngest.get(place, fetched[name]), fetched[name])
    expired = [
        name
        for name, entry in folder.entries.items()
        if youngest.get(name.rpartition("/")[0] if entry.kind == "billing" else "", fetched[name])
        < oldest.get(entry.kind, start)
    ]
    if expired:
        log.info("landing files expired source=%s files=%d", folder.path.name, len(expired))
        folder.drop(expired)


_STORES = {"s3": "aws", "gs": "gcp", "az": "azure"}


def is_url(path: str) -> bool:
    """Whether a path names a place in an object store."""
    return path.partition("://")[0] in _STORES and "://" in path


def fetch(
    urls: Sequence[str], settings: Settings, root: Path, spool: Path, progress: Progress, now: datetime
) -> list[Path]:
    """Fetches what lies under `s3://`, `gs://` and `az://` into a folder each below `root`, with its journal.

    What cannot be fetched is a problem in the journal. Raises SettingsError where the store's SDK is not installed.
    """
    budget = Budget(settings.limits)
    made = []
    for url in dict.fromkeys(urls):
        cloud = _STORES[url.partition("://")[0]]
        objects = _module(f"{cloud}.objects")
        explain = _module(cloud).explain
        name = plain(re.sub(r"[^A-Za-z0-9._-]+", "-", url.rstrip("/")))
        with LandingFolder(root / name, url, cloud, now) as folder, step(progress, f"Fetching {url}"):
            collection = Collection(folder, budget, settings.limits, now, now, now, progress, spool)
            mirror = partial(objects.fetch, url, folder, budget, now, endpoint_url=None, kind="billing", months=None)
            collection.attempt(Task("billing", f"read {url}", "what lies there", mirror), explain)
            folder.finish(budget.take(), datetime.now(UTC))
            made.append(folder.path)
    return made


def check(settings: Settings) -> Iterator[Check]:
    """What can be said of every live source: reachable, permitted, present, fresh; none stops the others."""
    for name, source in live_sources(settings):
        try:
            module = _module(name)
        except SettingsError as error:
            yield Check("bad", f"source {source.name}", str(error))
            continue
        try:
            yield from module.check(source)
        except Exception as error:  # whatever an SDK raises says something of this source only
            log.debug("source %s cannot be looked at", source.name, exc_info=True)
            first = str(error).splitlines()[0][:300] if str(error) else "no message"
            yield Check("bad", f"source {source.name}", f"cannot be looked at ({type(error).__name__}: {first})")


def policy(cloud: str) -> str:
    """The least-privilege policy of a cloud's collector, ready to paste."""
    return str(_module(cloud).policy())


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"auditor.collect.{name}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("auditor"):
            raise
        extra = name.partition(".")[0]
        raise SettingsError(f"{extra} needs {error.name}, which is not installed: install auditor[{extra}]") from error
