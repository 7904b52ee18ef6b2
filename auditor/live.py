"""A live audit's first half: the configured sources fetched into the data directory, where the scan reads them as files."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import journal, money
from auditor.journal import Journal, Problem, Usage
from auditor.landing import Recognised, SourceReport
from auditor.progress import Progress
from auditor.settings import Settings

if TYPE_CHECKING:
    from auditor.collect import Collected

LANDING = "landing"  # below the data directory


def is_live(settings: Settings) -> bool:
    """Whether anything is configured that must be fetched before it can be audited."""
    from auditor.collect import live_sources

    return bool(live_sources(settings))


def pull(settings: Settings, data_dir: Path, spool: Path, progress: Progress, now: datetime) -> list["Collected"]:
    """Fetches what is new at the configured sources into `data_dir`/landing, one folder a source.

    The caller holds the run lock. What cannot be fetched is in the folder's journal and becomes part of the report.
    """
    from auditor.collect import collect

    return collect(settings, data_dir / LANDING, spool, progress, now)


def fetch(
    paths: Sequence[str], settings: Settings, data_dir: Path, spool: Path, progress: Progress, now: datetime
) -> list[str]:
    """The paths as local ones: what a URL of an object store names is fetched into `data_dir`/landing first."""
    from auditor.collect import fetch as fetch_urls
    from auditor.collect import is_url

    urls = [path for path in paths if is_url(path)]
    if not urls:
        return list(paths)
    landed = fetch_urls(urls, settings, data_dir / LANDING, spool, progress, now)
    return [path for path in paths if not is_url(path)] + [str(path) for path in landed]


def folders(settings: Settings, data_dir: Path) -> list[Path]:
    """The folders of the configured live sources, of those that were collected."""
    from auditor.collect import live_sources

    places = [data_dir / LANDING / source.name for _, source in live_sources(settings)]
    return [place for place in places if (place / journal.JOURNAL).is_file()]


def journals(recognised: Iterable[Recognised]) -> list[Journal]:
    """The journals of collections among the landing files."""
    found = [journal.read(file.file.path) for file in recognised if file.kind == "journal"]
    return [each for each in found if each is not None]


def problems(found: Sequence[Journal]) -> list[SourceReport]:
    """What collections could not fetch, as sources that failed: one entry for each reason, naming where it applies."""
    reports = []
    for each in found:
        groups: dict[Problem, list[str]] = {}
        for problem in [*each.problems, *_unfinished(each)]:
            where = " ".join(part for part in (each.source, problem.account_id, problem.region) if part)
            groups.setdefault(replace(problem, account_id=None, region=None), []).append(where)
        reports += [_report(each, problem, where) for problem, where in groups.items()]
    return reports


def _report(source: Journal, problem: Problem, where: list[str]) -> SourceReport:
    message = f"{problem.what}: {problem.reason}; the report misses {problem.hides}"
    if problem.fix:
        message += f"; {problem.fix}"
    return SourceReport(
        source.provider, problem.kind, problem.what, list(dict.fromkeys(where)), 0, 0, [], "failed", message
    )


def _unfinished(source: Journal) -> list[Problem]:
    if source.finished_at is not None:
        return []
    reason = f"the collection that began at {source.started_at} did not come to its end"
    return [Problem("billing", "collect", reason, "what was not fetched by then", "run `auditor collect` again")]


def usage(found: Sequence[Journal]) -> list[Usage]:
    """What the collections used of the vendors' APIs, by API."""
    total: dict[tuple[str, str], Usage] = {}
    for each in found:
        for use in each.usage:
            key = (use.api, use.currency)
            before = total.get(key)
            if before is None:
                total[key] = use
                continue
            money = None if before.money is None or use.money is None else before.money + use.money
            total[key] = Usage(use.api, before.calls + use.calls, before.bytes + use.bytes, money, use.currency)
    return [total[key] for key in sorted(total)]


def usage_document(found: Sequence[Journal]) -> list[dict[str, Any]]:
    """The own usage as findings.json holds it: the audit's own cost at the vendors, by API."""

    def price(amount: Decimal | None) -> str | None:
        return None if amount is None else money.text(money.quantise(amount))

    return [
        {"api": use.api, "calls": use.calls, "bytes": use.bytes, "cost": price(use.money), "currency": use.currency}
        for use in usage(found)
    ]
