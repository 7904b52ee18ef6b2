"""The audit itself: landing files in, facts, marts, findings and a report's document out."""

import fnmatch
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from auditor import bills, budgets, document, live, remembered, render
from auditor.assets import room
from auditor.collect.local import gather
from auditor.detect.rule import Rule, checked_overrides, load_rules
from auditor.detect.run import DetectResult, Window, detect
from auditor.errors import SettingsError
from auditor.housekeeping import drop_left_behind
from auditor.intake import take_bills
from auditor.lake import marts, store
from auditor.landing import Recognised, SourceReport
from auditor.normalise import flows, inventory, prices, telemetry
from auditor.normalise.recognise import Sorted, sort_files
from auditor.progress import Progress, step
from auditor.realised import realised_savings
from auditor.reuse import RESOLVED_DAYS, Inputs, Landed, Told, may_be_told_again
from auditor.spans import BillEnd, bill_ends, spans
from auditor.state import RunLock, State
from auditor.stored import dump_extras

if TYPE_CHECKING:
    from auditor.scan import ScanRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where one run works: its state and lock, the data directory and the spool."""

    state: State
    lock: RunLock
    run_id: str
    data_dir: Path
    spool: Path


def audit(
    request: "ScanRequest",
    paths: Sequence[str],
    place: Place,
    asked: str,
    landed: Landed,
    progress: Progress,
    now: datetime,
) -> Told:
    """Reads what lies under the paths and judges it; the run is not ended yet."""
    rules = select_rules(request)
    left = drop_left_behind(place.state, place.data_dir, now)
    if left:
        log.info("lake files of killed runs dropped files=%d", left)
    engine = request.settings.engine
    con = store.connect(engine.memory_limit, engine.threads, place.spool)
    try:
        return _audit(request, rules, con, paths, place, asked, landed, progress, now)
    finally:
        con.close()


def select_rules(request: "ScanRequest") -> list[Rule]:
    """The rules that the request and the configuration leave. Raises SettingsError for one that does not exist."""
    rules = load_rules([room("rules"), *request.rules_dirs])
    disabled = {rule_id for rule_id, table in request.settings.rules.items() if table.get("enabled") is False}
    unknown = sorted(disabled - {rule.id for rule in rules})
    if unknown:
        raise SettingsError(f"configuration: no rule is called {unknown[0]!r}; `auditor rules list` names them")
    chosen = [rule for rule in rules if rule.id not in disabled]
    if request.rule_globs:
        chosen = [rule for rule in chosen if any(fnmatch.fnmatchcase(rule.id, glob) for glob in request.rule_globs)]
        if not chosen:
            raise SettingsError(
                f"--rules {' '.join(request.rule_globs)}: no rule has such an id; `auditor rules list` names them"
            )
    return chosen


def _audit(
    request: "ScanRequest",
    rules: Sequence[Rule],
    con: duckdb.DuckDBPyConnection,
    paths: Sequence[str],
    place: Place,
    asked: str,
    landed: Landed,
    progress: Progress,
    now: datetime,
) -> Told:
    state, run_id = place.state, place.run_id
    found, reports = _look(paths, place.spool, progress)
    journals = live.journals(found.recognised)
    reports += live.problems(journals)
    tags = request.settings.tags.settings()
    reports += take_bills(found, con, state, run_id, place.data_dir, place.spool, tags, progress).reports
    reports += _take_observations(found, con, progress)
    known = [bills.from_record(record) for record in state.deliveries() if record.identities]
    choice = bills.choose(known)
    _note_choice(reports, choice)
    with step(progress, "Building the marts"):
        span = _build_marts(request, con, place, choice, known, now)
    place.lock.check()
    with step(progress, "Running the rules"):
        overrides, shared = _parameters(request, rules)
        result = detect(con, rules, span.windows, overrides, shared)
    place.lock.check()
    former_ids = {rule.id: tuple(rule.was) for rule in rules if rule.was}
    judged = _judged(result, reports, span.windows)
    result = _remember(request, con, place, result, judged, former_ids, span.windows, now)
    status, audit = _status(reports, result), request.settings.audit
    made = document.build(con, run_id, known, choice, reports, span.windows, result, status, audit.currency)
    if journals:
        made["own_usage"] = live.usage_document(journals)
    extras = document.build_extras(
        con,
        made,
        span.windows,
        rules,
        choice,
        audit.max_data_age,
        now,
        parameters=checked_overrides(rules, overrides, shared),
        settings=_settings(request),
        previous=remembered.previous_run(state, run_id),
        mutes=remembered.mutes(state),
        realised=remembered.realised(state),
        rule_seconds=result.seconds,
    )
    failed_rules = any(entry.status == "failed" for entry in result.coverage)
    inputs = None
    if landed.identity is not None and may_be_told_again(reports, failed_rules=failed_rules):
        inputs = Inputs(asked, landed.identity, now, span.ends, span.dated_ahead, bool(known), former_ids)
    return Told(made, extras, dump_extras(extras), inputs, bool(known))


def _look(paths: Sequence[str], spool: Path, progress: Progress) -> tuple[Sorted, list[SourceReport]]:
    """The files by what they are, and a report of each that cannot be opened or recognised."""
    with step(progress, "Looking at the files"):
        files, unopened = gather(paths, spool)
        found = sort_files(files)
    reports = [SourceReport(None, None, None, [name], 1, 0, [], "failed", reason) for name, reason in unopened]
    reports += [
        SourceReport(None, None, unread.format, [unread.file.name], 1, 0, [], unread.status, unread.reason)
        for unread in found.unread
    ]
    return found, reports


@dataclass(frozen=True)
class _Span:
    """The audited time: the window of each provider, and the ends of the bills that it follows from."""

    windows: dict[str, Window]
    ends: tuple[BillEnd, ...]
    dated_ahead: date | None


def _build_marts(
    request: "ScanRequest",
    con: duckdb.DuckDBPyConnection,
    place: Place,
    choice: bills.Choice,
    known: Sequence[bills.Bill],
    now: datetime,
) -> _Span:
    """Builds all that rules read, of the charges that count."""
    store.load(con, place.data_dir, place.state.live_files())
    store.keep_counted(con, choice.counted, choice.partly)
    store.pair_azure_costs(con)
    audit = request.settings.audit
    ends, dated_ahead = bill_ends(con, known, now)
    found = spans(ends, audit, request.as_of, request.lookback_days, now)
    windows = {provider: Window(start, end) for provider, (start, end) in found.items()}
    marts.build_marts(
        con,
        {provider: marts.Window(window.start, window.end) for provider, window in windows.items()},
        marts.LedgerThresholds(
            float(audit.max_utilization),
            float(audit.max_memory_idle),
            float(audit.min_coverage),
            float(audit.starved_max_utilization),
            float(audit.storage_limit),
        ),
    )
    budgets.create_table(con, request.settings.budgets, windows)
    return _Span(windows, tuple(ends), dated_ahead)


def _remember(
    request: "ScanRequest",
    con: duckdb.DuckDBPyConnection,
    place: Place,
    result: DetectResult,
    judged: set[tuple[str, str]],
    former_ids: Mapping[str, Sequence[str]],
    windows: Mapping[str, Window],
    now: datetime,
) -> DetectResult:
    """The findings with the statuses that their history gives them, and those that are resolved since the last run."""
    findings = place.state.record_findings(
        place.run_id,
        result.findings,
        judged,
        now=now,
        mutes=[mute.record() for mute in request.settings.mutes],
        former_ids=former_ids,
    )
    _keep_realised(con, place.state, place.run_id, windows, now)
    return replace(result, findings=(*findings, *place.state.resolved_in(place.run_id)))


def _take_observations(found: Sorted, con: duckdb.DuckDBPyConnection, progress: Progress) -> list[SourceReport]:
    for table, columns in store.OBSERVED.items():
        store.create_empty(con, table, columns)
    reports: list[SourceReport] = []
    loaders: Mapping[str, Callable[[duckdb.DuckDBPyConnection, Sequence[Recognised]], list[SourceReport]]] = {
        "telemetry": telemetry.load,
        "inventory": inventory.load,
        "flows": flows.load,
        "prices": prices.load,
    }
    for kind, load in loaders.items():
        files = [file for file in found.recognised if file.kind == kind]
        if files:
            with step(progress, f"Reading {kind}", sum(file.file.size for file in files)):
                reports += load(con, files)
                if kind == "telemetry":
                    for sentence in telemetry.finish(con):
                        log.info("telemetry %s", sentence)
    return reports


def _note_choice(reports: list[SourceReport], choice: bills.Choice) -> None:
    for bill, note in choice.notes:
        for report in reports:
            if report.kind == "billing" and tuple(report.paths) == bill.paths:
                report.message = f"{report.message}; {note}" if report.message else note


def _parameters(
    request: "ScanRequest", rules: Sequence[Rule]
) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
    """What configuration and command line say of the rules, and the settings that several rules share."""
    overrides: dict[str, dict[str, object]] = {}
    for rule_id, table in request.settings.rules.items():
        if table.get("enabled") is not False:
            overrides.setdefault(rule_id, {}).update(
                {name: value for name, value in table.items() if name != "enabled"}
            )
    for rule_id, given in request.overrides.items():
        overrides.setdefault(rule_id, {}).update(given)
    selected = {rule.id for rule in rules}
    shared = request.settings.audit.model_dump(
        include={"idle_days", "max_utilization", "max_p95", "max_memory_idle", "min_coverage", "min_monthly_cost"},
        exclude_unset=True,
    )
    understood = {
        rule_id: values for rule_id, values in overrides.items() if rule_id in selected or not request.rule_globs
    }
    return understood, shared


def _settings(request: "ScanRequest") -> list[render.Setting]:
    """The settings that shape the figures, as the report names them."""
    audit = request.settings.audit
    given = {"lookback_days": request.lookback_days, "as_of": request.as_of}
    return [
        render.Setting(name, str(value), about.description or "")
        for name, about in type(audit).model_fields.items()
        if (value := given.get(name) or getattr(audit, name)) is not None
    ]


def _keep_realised(
    con: duckdb.DuckDBPyConnection, state: State, run_id: str, windows: Mapping[str, Window], now: datetime
) -> None:
    """Keeps what the bill shows of findings resolved within the year; what was resolved earlier is told by then."""
    resolved = [finding for _, finding in state.resolved_findings(now - timedelta(days=RESOLVED_DAYS))]
    ends = {provider: window.end.date() for provider, window in windows.items()}
    state.record_realised(run_id, realised_savings(con, resolved, ends), now=now)


def _judged(
    result: DetectResult, reports: Sequence[SourceReport], windows: Mapping[str, Window]
) -> set[tuple[str, str]]:
    """(rule, provider) pairs whose silence means that a known finding is gone: rules that ran over whole data."""
    failed = {report.provider for report in reports if report.status == "failed"}
    if None in failed:
        return set()
    return {
        (entry.rule_id, provider)
        for entry in result.coverage
        if entry.status in ("ran", "degraded")
        for provider in windows
        if provider not in failed
    }


def _status(reports: Sequence[SourceReport], result: DetectResult) -> str:
    broken = any(report.status == "failed" for report in reports) or any(
        entry.status == "failed" for entry in result.coverage
    )
    return "partial" if broken else "complete"
