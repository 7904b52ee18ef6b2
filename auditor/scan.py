"""The conductor: an audit is run, or where nothing changed since the last one, that one's findings are told again."""

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from auditor import live, reuse
from auditor.errors import LakeError
from auditor.progress import Progress, step
from auditor.settings import Settings
from auditor.state import State

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
    asked = reuse.asked(request)
    with (
        workplace(request) as (data_dir, spool),
        _open_state(request, data_dir) as state,
        state.run_lock(f"scan on {socket.gethostname()}, process {os.getpid()}", wait=timedelta(minutes=10)) as lock,
    ):
        before = reuse.newest_run(state)
        if before is None or before.inputs.asked != asked:
            _check_rules(request)  # before anything is fetched or recorded
        run_id = state.begin_run(as_of=None, now=now)
        try:
            paths = _fetch(request, data_dir, spool, progress, now)
            lock.check()
            with step(progress, "Looking for changes"):
                landed = reuse.identify(paths)
                told = reuse.tell_again(state, run_id, before, request, asked, landed, data_dir, now)
            if told is None:
                from auditor.audit import Place, audit

                told = audit(request, paths, Place(state, lock, run_id, data_dir, spool), asked, landed, progress, now)
            exit_status = _exit_status(request, told)
            _finish(state, run_id, told, exit_status)
        except BaseException as error:
            how = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            state.finish_run(run_id, how, None, exit_status=NOTHING)
            raise
        return ScanResult(run_id, told.document, told.extras, exit_status)


def _check_rules(request: ScanRequest) -> None:
    from auditor.audit import select_rules

    select_rules(request)


def _fetch(request: ScanRequest, data_dir: Path, spool: Path, progress: Progress, now: datetime) -> list[str]:
    """The local paths of what is to be audited; what lies elsewhere is fetched first."""
    paths = live.fetch(request.paths, request.settings, data_dir, spool, progress, now)
    if request.live:
        paths += [str(source.path) for source in live.pull(request.settings, data_dir, spool, progress, now)]
    return paths


def _finish(state: State, run_id: str, told: reuse.Told, exit_status: int) -> None:
    run = told.document["run"]
    state.finish_run(
        run_id,
        run["status"],
        told.document,
        exit_status=exit_status,
        extras=told.extras_text,
        windows=run["windows"],
        billing_currency=run["currency"],
        note=told.note,
        inputs=told.inputs.record() if told.inputs else None,
    )
    log.info("run finished run=%s status=%s findings=%d", run_id, run["status"], len(told.document["findings"]))


@contextmanager
def workplace(request: ScanRequest) -> Iterator[tuple[Path, Path]]:
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


def _exit_status(request: ScanRequest, told: reuse.Told) -> int:
    document = told.document
    if not told.has_bills and not any(source["status"] == "ok" for source in document["sources"]):
        return NOTHING
    if request.fail_on:
        wanted = _LEVELS[_LEVELS.index(request.fail_on) :]
        if any(
            finding["severity"] in wanted and finding["status"] in ("new", "open", "reopened")
            for finding in document["findings"]
        ):
            return FOUND
    return PARTIAL if document["run"]["status"] == "partial" else DONE
