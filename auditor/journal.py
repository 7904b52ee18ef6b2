"""The journal of a collected folder: which files lie there, what could not be fetched, and what fetching cost.

One `auditor-landing.jsonl` lies at the top of each source's folder. Its first line is the head; every further line is
added the moment a thing has happened, so that a killed collection leaves a true journal, which merely has no end.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

JOURNAL = "auditor-landing.jsonl"
HEAD_KEY = "auditor_landing"  # by this key of its first line a journal is recognised
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """One landing file: `name` is its path below the source's folder, `etag` what the vendor calls this content."""

    name: str
    kind: str  # billing, telemetry, inventory, flows, prices
    size: int
    fetched_at: str
    account_id: str | None = None
    region: str | None = None
    period: str | None = None
    etag: str | None = None


@dataclass(frozen=True)
class Problem:
    """Something that could not be fetched: what was asked of whom, why it failed, what the report misses, what helps."""

    kind: str
    what: str  # the vendor's own name of the call, such as cloudwatch:GetMetricData
    reason: str
    hides: str
    fix: str | None = None
    account_id: str | None = None
    region: str | None = None


@dataclass(frozen=True)
class Usage:
    """What one API was used for in a collection; `money` is what the vendor charges for it, null where unknown."""

    api: str
    calls: int
    bytes: int
    money: Decimal | None
    currency: str = "USD"


@dataclass
class Journal:
    """A journal as read; of several lines about one file the last counts."""

    source: str
    provider: str | None
    started_at: str
    finished_at: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    marks: dict[str, Any] = field(default_factory=dict)


def line(kind: str, about: Mapping[str, Any]) -> str:
    return json.dumps({kind: about}, sort_keys=True, default=str) + "\n"


def head_line(journal: Journal) -> str:
    about = {
        "version": VERSION,
        "source": journal.source,
        "provider": journal.provider,
        "started_at": journal.started_at,
    }
    return line(HEAD_KEY, about)


def entry_line(entry: Entry) -> str:
    return line("file", {name: value for name, value in asdict(entry).items() if value is not None})


def problem_line(problem: Problem) -> str:
    return line("problem", {name: value for name, value in asdict(problem).items() if value is not None})


def read(path: Path) -> Journal | None:
    """The journal in a file; null where its first line is none. A torn last line, left by a kill, is left out."""
    journal: Journal | None = None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for text in lines:
            try:
                record = json.loads(text)
            except ValueError:
                log.info("journal ends in a torn line path=%s", path)
                continue
            if not isinstance(record, dict):
                continue
            if HEAD_KEY in record:
                head = record[HEAD_KEY]
                journal = Journal(str(head.get("source")), head.get("provider"), str(head.get("started_at")))
            elif journal is None:
                return None
            else:
                _take(journal, record)
    return journal


def _take(journal: Journal, record: Mapping[str, Any]) -> None:
    for kind, about in record.items():
        if kind == "file":
            entry = Entry(**{name: about.get(name) for name in Entry.__dataclass_fields__})
            journal.entries[entry.name] = entry
        elif kind == "gone":
            journal.entries.pop(about["name"], None)
        elif kind == "problem":
            journal.problems.append(Problem(**{name: about.get(name) for name in Problem.__dataclass_fields__}))
        elif kind == "usage":
            money = None if about.get("money") is None else Decimal(about["money"])
            journal.usage.append(
                Usage(about["api"], about["calls"], about["bytes"], money, about.get("currency", "USD"))
            )
        elif kind == "mark":
            journal.marks[about["name"]] = about["value"]
        elif kind == "finished":
            journal.finished_at = about["at"]
