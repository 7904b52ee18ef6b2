"""The conductor: landing files in, facts, marts, findings and a report's document out."""

import fnmatch
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from auditor import bills, budgets, document, live, render
from auditor.assets import room
from auditor.bills import Bill
from auditor.collect.local import gather
from auditor.detect.rule import Rule, checked_overrides, load_rules
from auditor.detect.run import DetectResult, Window, detect
from auditor.errors import LakeError, SettingsError
from auditor.intake import take_bills
from auditor.lake import marts, store
from auditor.landing import Recognised, SourceReport
from auditor.normalise import flows, inventory, prices, telemetry
from auditor.normalise.recognise import Sorted, sort_files
from auditor.progress import Progress, step
from auditor.realised import realised_savings
from auditor.settings import Settings
from auditor.state import RunLock, State
from auditor.stored import dump_extras

log = logging.getLogger(__name__)

DONE, FOUND, USAGE, PARTIAL, NOTHING = 0, 1, 2, 3, 4
_LEVELS = ("low", "medium", "high", "critical")


@dataclass(frozen=True)
class ScanRequest:
    """What to audit and how, as the command line and the configuration say together."""

    paths: tuple[str, ...]
    settings: Settings
    live: bool = False  # fetch the configured sources first
    data_dir: Path | None = None
    as_of: date | None = None
    lookback_days: int | None = None
    rule_globs: tuple[str, ...] = ()
    rules_dirs: tuple[Path, ...] = ()
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    fail_on: str | None = None


@dataclass(frozen=True)
class ScanResult:
    """A run's document, the series beside it, and the exit status it asks for."""

    run_id: str
    document: dict[str, Any]
    extras: Any
    exit_status: int


def scan(request: ScanRequest, progress: Progress, now: datetime) -> ScanResult:
    """Audits what lies under the paths.

    Raises SettingsError for wrong usage, LakeError where the data directory cannot be used. A source or rule that fails
    is recorded and makes the run partial.
    """
    rules = _select_rules(request)
    with (
        _workplace(request) as (data_dir, spool),
        _open_state(request, data_dir) as state,
        state.run_lock(f"scan on {socket.gethostname()}, process {os.getpid()}", wait=timedelta(minutes=10)) as lock,
    ):
        engine = request.settings.engine
        con = store.connect(engine.memory_limit, engine.threads, spool)
        run_id = state.begin_run(as_of=None, now=now)
        try:
            result = _run(request, rules, con, state, lock, run_id, data_dir, spool, progress, now)
        except BaseException as error:
            how = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            state.finish_run(run_id, how, None, exit_status=NOTHING)
            raise
        finally:
            con.close()
        return result


@contextmanager
def _workplace(request: ScanRequest) -> Iterator[tuple[Path, Path]]:
    """The data directory (a temporary one that leaves nothing behind, unless one is named) and the spool."""
    chosen = request.data_dir or request.settings.lake.data_dir
    with tempfile.TemporaryDirectory(prefix="auditor-", ignore_cleanup_errors=True) as scratch:
        spool = Path(scratch) / "spool"
        spool.mkdir()
        data_dir = chosen or Path(scratch) / "data"
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(
                f"the data directory {data_dir} cannot be made: {error.strerror}; choose another with --data-dir"
            ) from error
        yield data_dir, spool


def _open_state(request: ScanRequest, data_dir: Path) -> State:
    return State.open(request.settings.state.address(data_dir))


def _select_rules(request: ScanRequest) -> list[Rule]:
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


def _run(
    request: ScanRequest,
    rules: Sequence[Rule],
    con: duckdb.DuckDBPyConnection,
    state: State,
    lock: RunLock,
    run_id: str,
    data_dir: Path,
    spool: Path,
    progress: Progress,
    now: datetime,
) -> ScanResult:
    paths = live.fetch(request.paths, request.settings, data_dir, spool, progress, now)
    if request.live:
        pulled = live.pull(request.settings, data_dir, spool, progress, now)
        paths += [str(source.path) for source in pulled]
    lock.check()
    with step(progress, "Looking at the files"):
        files, unopened = gather(paths, spool)
        found = sort_files(files)
    reports = [SourceReport(None, None, None, [name], 1, 0, [], "failed", reason) for name, reason in unopened]
    reports += [
        SourceReport(None, None, unread.format, [unread.file.name], 1, 0, [], unread.status, unread.reason)
        for unread in found.unread
    ]
    journals = live.journals(found.recognised)
    reports += live.problems(journals)
    reports += take_bills(found, con, state, run_id, data_dir, spool, request.settings.tags.settings(), progress)
    reports += _take_observations(found, con, progress)
    known = [bills.from_record(record) for record in state.deliveries() if record.identities]
    choice = bills.choose(known)
    _note_choice(reports, choice)
    with step(progress, "Building the marts"):
        store.load(con, data_dir, state.live_files())
        store.keep_counted(con, choice.counted, choice.partly)
        store.pair_azure_costs(con)
        windows = _windows(con, request, known, now)
        audit = request.settings.audit
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
    lock.check()
    with step(progress, "Running the rules"):
        overrides, shared = _parameters(request, rules)
        result = detect(con, rules, windows, overrides, shared)
    lock.check()
    findings = state.record_findings(
        run_id,
        result.findings,
        _judged(result, reports, windows),
        now=now,
        mutes=[mute.record() for mute in request.settings.mutes],
        former_ids={rule.id: rule.was for rule in rules},
    )
    _keep_realised(con, state, run_id, windows, now)
    result = replace(result, findings=(*findings, *state.resolved_in(run_id)))
    status = _status(reports, result)
    made = document.build(con, run_id, known, choice, reports, windows, result, status, request.settings.audit.currency)
    if journals:
        made["own_usage"] = live.usage_document(journals)
    extras = document.build_extras(
        con,
        made,
        windows,
        rules,
        choice,
        audit.max_data_age,
        now,
        parameters=checked_overrides(rules, overrides, shared),
        settings=_settings(request),
        previous=_previous(state, run_id),
        mutes=_mutes(state),
        realised=_realised(state),
        rule_seconds=result.seconds,
    )
    exit_status = _exit_status(request, reports, known, made, status)
    state.finish_run(
        run_id,
        status,
        made,
        exit_status=exit_status,
        extras=dump_extras(extras),
        windows=made["run"]["windows"],
        billing_currency=made["run"]["currency"],
    )
    log.info("run finished run=%s status=%s findings=%d", run_id, status, len(findings))
    return ScanResult(run_id, made, extras, exit_status)


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


def _windows(
    con: duckdb.DuckDBPyConnection, request: ScanRequest, known: Sequence[Bill], now: datetime
) -> dict[str, Window]:
    """The audit window of each provider that has charges: up to --as-of, else up to its last complete day."""
    audit = request.settings.audit
    as_of = request.as_of or audit.as_of
    lookback = timedelta(days=request.lookback_days or audit.lookback_days)
    # A charge dated after tomorrow is a slip or a prepaid term, and no sign that the bill has come that far.
    ends = con.execute(
        """
        select provider, coalesce(
            max(day) filter (where day <= $tomorrow and ChargeCategory = 'Usage' and ChargeFrequency is distinct from 'Recurring'),
            max(day) filter (where day <= $tomorrow),
            min(day)
        ) + 1
        from charges group by all order by all
        """,
        {"tomorrow": (now + timedelta(days=1)).date()},
    ).fetchall()
    windows = {}
    for provider, end in ends:
        if as_of is not None:
            last = datetime(as_of.year, as_of.month, as_of.day, tzinfo=UTC)
        else:
            last = _held_back(
                datetime(end.year, end.month, end.day, tzinfo=UTC),
                audit.hold_back_days,
                [bill for bill in known if bill.provider == provider],
                now,
            )
        windows[provider] = Window(last - lookback, last)
    return windows


def _held_back(end: datetime, days: int, known: Sequence[Bill], now: datetime) -> datetime:
    """The last days of an open month still change; a whole month, one exported well after its end, or a past one do not."""
    exported = max((bill.delivered_at for bill in known if bill.delivered_at), default=None)
    month_after = (end.replace(day=1) + timedelta(days=32)).replace(day=1)
    if (
        end.day == 1
        or now >= month_after + timedelta(days=days)
        or (exported is not None and exported >= end + timedelta(days=days))
    ):
        return end
    if exported is not None:
        day = datetime(exported.year, exported.month, exported.day, tzinfo=UTC)
        return min(end, day - timedelta(days=days))
    return end - timedelta(days=days)


def _parameters(request: ScanRequest, rules: Sequence[Rule]) -> tuple[dict[str, dict[str, object]], dict[str, object]]:
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


def _settings(request: ScanRequest) -> list[render.Setting]:
    """The settings that shape the figures, as the report names them."""
    audit = request.settings.audit
    given = {"lookback_days": request.lookback_days, "as_of": request.as_of}
    return [
        render.Setting(name, str(value), about.description or "")
        for name, about in type(audit).model_fields.items()
        if (value := given.get(name) or getattr(audit, name)) is not None
    ]


def _previous(state: State, run_id: str) -> render.PreviousRun | None:
    """The figures of the newest finished run before this one; null without one that left its document."""
    for run in state.runs_list():
        if run.id == run_id or run.status not in ("complete", "partial"):
            continue
        before = state.run_document(run.id)
        if before and before["run"]["as_of"]:
            totals = before["totals"]
            return render.PreviousRun(
                run.id,
                before["run"]["as_of"],
                Decimal(totals["effective_cost"]),
                Decimal(totals["monthly_savings_net"]),
                totals["currency"],
            )
    return None


def _realised(state: State) -> list[render.Realised]:
    """What later bills show that resolved findings saved, the largest first."""
    known = {finding.id: finding for finding in state.list_findings(status=["resolved"])}
    rows = [(saving, known[saving.finding_id]) for saving in state.realised_savings() if saving.finding_id in known]
    return [
        render.Realised(
            finding.title,
            finding.resource_name or finding.resource_id or finding.subject,
            saving.billing_period,
            saving.baseline_effective_cost,
            saving.actual_effective_cost,
            saving.realised_savings,
            saving.billing_currency,
        )
        for saving, finding in sorted(rows, key=lambda row: (-row[0].realised_savings, row[0].finding_id))
    ]


def _mutes(state: State) -> dict[str, render.Mute]:
    """Finding id -> why it is muted."""
    known = {mute.id: mute for mute in state.mutes_list(expired=True)}
    muted = ((finding.id, known.get(finding.mute_id or "")) for finding in state.list_findings(status=["muted"]))
    return {
        finding_id: render.Mute(mute.author, mute.reason, mute.until.isoformat() if mute.until else None)
        for finding_id, mute in muted
        if mute is not None
    }


def _keep_realised(
    con: duckdb.DuckDBPyConnection, state: State, run_id: str, windows: Mapping[str, Window], now: datetime
) -> None:
    """Keeps what the bill shows of findings resolved within the year; what was resolved earlier is told by then."""
    resolved = [finding for _, finding in state.resolved_findings(now - timedelta(days=366))]
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


def _exit_status(
    request: ScanRequest, reports: Sequence[SourceReport], known: Sequence[Bill], made: Mapping[str, Any], status: str
) -> int:
    if not known and not any(report.status == "ok" for report in reports):
        return NOTHING
    if request.fail_on:
        wanted = _LEVELS[_LEVELS.index(request.fail_on) :]
        if any(
            finding["severity"] in wanted and finding["status"] in ("new", "open", "reopened")
            for finding in made["findings"]
        ):
            return FOUND
    return PARTIAL if status == "partial" else DONE
