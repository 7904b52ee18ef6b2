"""Drops what the retentions no longer keep, and what killed runs left behind."""

import logging
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from auditor.settings import Settings
from auditor.state import State

log = logging.getLogger(__name__)

# A file younger than this may belong to a delivery that is about to be committed.
_LEFT_BEHIND = timedelta(days=1)
_UNFINISHED = ".part"  # who holds the run lock knows that nobody is writing it any more


def tidy(state: State, settings: Settings, data_dir: Path, report_dir: Path, now: datetime) -> dict[str, int]:
    """What was dropped, by kind. Raises RunLocked while an audit runs."""
    with state.run_lock("housekeeping", wait=timedelta(minutes=1)):
        before_reports = now - timedelta(days=settings.state.report_days)
        dropped = {
            "documents": state.forget_documents(before_reports),
            "reports": _drop_reports(report_dir, before_reports),
            "lake_files": _drop_lake_files(state, settings, data_dir, now),
            "left_behind": drop_left_behind(state, data_dir, now),
            "slots": state.forget_slots(before_reports),
            "mutes": state.expire_mutes(now),
            "unknown": state.settle_unknown(now=now),
        }
    log.info("housekeeping done %s", " ".join(f"{name}={count}" for name, count in dropped.items()))
    return dropped


def _drop_reports(folder: Path, before: datetime) -> int:
    old = [path for path in _entries(folder) if path.is_dir() and path.stat().st_mtime < before.timestamp()]
    for path in old:
        shutil.rmtree(path)
    return len(old)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _drop_lake_files(state: State, settings: Settings, data_dir: Path, now: datetime) -> int:
    gone = state.forget_files(now - timedelta(days=settings.lake.superseded_days))
    for name in gone:
        (data_dir / name).unlink(missing_ok=True)
    return len(gone)


def drop_left_behind(state: State, data_dir: Path, now: datetime) -> int:
    """Deletes what killed runs wrote to the lake and no run knows; returns how many files. The caller holds the run lock.

    A state that knows no file of the lake is a new one, or another's: it only tells what was never finished.
    """
    old = (now - _LEFT_BEHIND).timestamp() if state.live_files() else 0.0
    files = [path for path in (data_dir / "lake").rglob("*") if path.is_file()]
    found = [path for path in files if path.suffix == _UNFINISHED or path.stat().st_mtime < old]
    unknown = state.unreferenced([path.relative_to(data_dir).as_posix() for path in found])
    for name in unknown:
        (data_dir / name).unlink(missing_ok=True)
    return len(unknown)
