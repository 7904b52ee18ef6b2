"""Whether a run would find what the one before it found, and that one's findings told anew without the engine.

A run keeps what its findings rest on: the program, the settings, the question and every file's identity. Where the next
run's are the same, only what depends on the clock, on mutes and on the runs before is worked out again.
"""

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import journal, live, remembered, totals
from auditor.assets import ROOMS, room
from auditor.collect.local import list_files
from auditor.finding import Finding
from auditor.journal import Journal
from auditor.landing import SourceReport
from auditor.render import Extras
from auditor.spans import BillEnd, is_ahead, spans
from auditor.state import State
from auditor.stored import change_extras

if TYPE_CHECKING:
    from auditor.scan import ScanRequest

log = logging.getLogger(__name__)

# Within one step of a file system's clock a file can change twice and bear one time. Linux steps its clock every 10 ms
# at most; file systems that count whole seconds count in steps of two.
_STEP, _COARSE_STEP = 0.05, 2.0
# What may be gone by the next run: a failure for such a reason is tried again.
_PASSING = re.compile(r"(?i)memory|space|permission|denied|errno|time[d ]*out|input/output|interrupt|too many open")
_LOOKED_BACK = 20  # runs
EXPORT = "export of bills as FOCUS"  # the note of a run that audits nothing
RESOLVED_DAYS = 366  # what was resolved earlier is told by then


@dataclass(frozen=True)
class Inputs:
    """What a run's findings rest on.

    `asked` covers program, settings and question, `files` the files' identities. The windows follow from `ends` and the
    clock, unless a charge `dated_ahead` has come true since.
    """

    asked: str
    files: str
    told_at: datetime
    ends: tuple[BillEnd, ...]
    dated_ahead: date | None
    has_bills: bool
    former_ids: Mapping[str, Sequence[str]]

    def record(self) -> dict[str, Any]:
        """The inputs as the state keeps them."""
        text = json.dumps(asdict(self), default=lambda value: value.isoformat())
        made: dict[str, Any] = json.loads(text)
        return made

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Inputs":
        """The inputs that `record` gave."""

        def moment(text: str | None) -> datetime | None:
            return datetime.fromisoformat(text) if text else None

        ends = tuple(
            BillEnd(end["provider"], date.fromisoformat(end["end"]), moment(end["exported"])) for end in record["ends"]
        )
        ahead = date.fromisoformat(record["dated_ahead"]) if record["dated_ahead"] else None
        told_at = datetime.fromisoformat(record["told_at"])
        return cls(
            record["asked"], record["files"], told_at, ends, ahead, record["has_bills"], dict(record["former_ids"])
        )


@dataclass(frozen=True)
class Told:
    """What a run ends with. `inputs` is null where the next run must not rely on it."""

    document: dict[str, Any]
    extras: Extras
    extras_text: str
    inputs: Inputs | None
    has_bills: bool
    note: str | None = None


@dataclass(frozen=True)
class Landed:
    """The identity of all files together, null where one changed so lately that none can be told; and the journals."""

    identity: str | None
    journals: tuple[Journal, ...]


@dataclass(frozen=True)
class Before:
    """The newest run, which was finished and kept its inputs."""

    run_id: str
    inputs: Inputs


def newest_run(state: State) -> Before | None:
    """The newest run, if the next one may be like it. After a run that broke off everything is read again.

    An export of bills that were known is passed over.
    """
    for run in state.runs_list(limit=_LOOKED_BACK):
        record = state.run_inputs(run.id) if run.status in ("complete", "partial") else None
        if record is not None:
            return Before(run.id, Inputs.from_record(record))
        if run.status != "complete" or run.note != EXPORT or state.deliveries(status=None, run_id=run.id):
            return None
    return None


def asked(request: "ScanRequest") -> str:
    """Digest of the program, the settings and the question; the files and the clock are apart."""
    question = {
        "paths": request.paths,
        "live": request.live,
        "as_of": request.as_of,
        "lookback_days": request.lookback_days,
        "rule_globs": request.rule_globs,
        "rules_dirs": [str(folder) for folder in request.rules_dirs],
        "overrides": request.overrides,
        "settings": request.settings.model_dump(mode="json"),
    }
    program = [metadata.version("auditor"), metadata.version("duckdb"), *_stamps([Path(__file__).parent])]
    rules = _stamps([*(room(name) for name in ROOMS if name in ("rules", "config")), *request.rules_dirs])
    return _digest([json.dumps(question, default=str, sort_keys=True), *program, *rules, str(os.geteuid())])


def _stamps(folders: Iterable[Path]) -> list[str]:
    """Name, size and time of every file that the program consists of; what the interpreter compiles aside is no part."""
    files = (file for folder in folders for file in folder.rglob("*") if file.suffix != ".pyc" and file.is_file())
    return sorted(f"{file} {(stat := file.stat()).st_size} {stat.st_mtime_ns}" for file in files)


def identify(paths: Sequence[str]) -> Landed:
    """What lies under the paths, by name, size, times and inode; no file is opened but the journals of collections.

    A journal tells when it was written and what that cost, so its own identity is what it says of the sources.
    """
    parts, journals, newest = [], [], 0.0
    for path, name in list_files(paths):
        stat = path.stat()
        if path.name == journal.JOURNAL and (read := journal.read(path)) is not None:
            journals.append(read)
            parts.append(f"{name} {live.problems([read])}")
            continue
        parts.append(f"{name} {stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}")
        step = _COARSE_STEP if stat.st_ctime_ns % 1_000_000_000 == 0 else _STEP
        newest = max(newest, stat.st_ctime + step)
    wait = newest - time.time()
    if 0 < wait <= _STEP:
        time.sleep(wait)
        return identify(paths)
    return Landed(None if wait > 0 else _digest(parts), tuple(journals))


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def may_be_told_again(reports: Iterable[SourceReport], failed_rules: bool) -> bool:
    """Whether what failed would fail again: a damaged file stays so, a full disk or a rule out of memory does not."""
    passing = any(report.status == "failed" and _PASSING.search(report.message or "") for report in reports)
    return not passing and not failed_rules


def tell_again(
    state: State,
    run_id: str,
    before: Before | None,
    request: "ScanRequest",
    asked_now: str,
    landed: Landed,
    data_dir: Path,
    now: datetime,
) -> Told | None:
    """The findings of the run before under this run's id and clock; null where anything is not as it was then."""
    if before is None or (before.inputs.asked, before.inputs.files) != (asked_now, landed.identity):
        return None
    inputs = before.inputs
    if now < inputs.told_at or not is_ahead(inputs.dated_ahead, now):
        return None
    document, kept = state.run_document(before.run_id), state.run_extras(before.run_id)
    if document is None or kept is None or not _same_windows(document, inputs, request, now):
        return None
    if not all((data_dir / file.path).is_file() for file in state.live_files()):
        return None  # the audit says which is missing
    known = {finding.id: finding for finding in state.findings_of(before.run_id)}
    shown = [finding["id"] for finding in document["findings"] if finding["status"] != "resolved"]
    costs = totals.costs_of(document)
    if known.keys() != set(shown) or costs is None or _falls_silent(state, inputs.told_at, now):
        return None
    # What the run before could not judge, this one cannot either, and all that it found is found again.
    findings = state.record_findings(
        run_id,
        [known[finding_id] for finding_id in shown],
        frozenset(),
        now=now,
        mutes=[mute.record() for mute in request.settings.mutes],
        former_ids=inputs.former_ids,
    )
    made = _retold(document, run_id, findings, costs, landed.journals)

    def change(extras: Extras) -> Mapping[str, Any]:
        days = request.settings.audit.max_data_age
        others = extras.notices[len(totals.stale_bills(document, days, extras.generated_at or inputs.told_at)) :]
        return {
            "previous": remembered.previous_run(state, run_id),
            "mutes": remembered.mutes(state),
            "realised": tuple(remembered.realised(state)),
            "notices": (*totals.stale_bills(made, days, now), *others),
            "generated_at": now,
        }

    text, extras = change_extras(kept, change)
    log.info("nothing changed since run=%s: its findings are told again", before.run_id)
    return Told(made, extras, text, inputs, inputs.has_bills, f"nothing changed since run {before.run_id}")


def _same_windows(document: Mapping[str, Any], inputs: Inputs, request: "ScanRequest", now: datetime) -> bool:
    found = spans(inputs.ends, request.settings.audit, request.as_of, request.lookback_days, now)
    told = {
        provider: {"start": totals.moment(start), "end": totals.moment(end)} for provider, (start, end) in found.items()
    }
    return bool(told == document["run"]["windows"])


def _falls_silent(state: State, before: datetime, now: datetime) -> bool:
    """Whether a finding was resolved so long ago that what it saved is not reckoned any more, but still was then."""
    first, last = before - timedelta(days=RESOLVED_DAYS), now - timedelta(days=RESOLVED_DAYS)
    return any(
        finding.resolved_at is not None and first <= finding.resolved_at < last
        for finding in state.list_findings(status=["resolved"])
    )


def _retold(
    document: Mapping[str, Any],
    run_id: str,
    findings: Sequence[Finding],
    costs: Mapping[str, tuple[Decimal, Decimal]],
    journals: Sequence[Journal],
) -> dict[str, Any]:
    """The document of the run before with this run's id and the findings' statuses, and the totals that follow."""
    status = {finding.id: finding.status for finding in findings}
    made = {
        **document,
        "run": {**document["run"], "id": run_id},
        "totals": totals.totals(costs, document["totals"]["currency"], findings),
        "findings": [{**told, "status": status[told["id"]]} for told in document["findings"] if told["id"] in status],
    }
    if journals:
        made["own_usage"] = live.usage_document(journals)
    return made
