"""A disk that is full fails the audit with a clear reason; the service lives on and does it again once there is room."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from auditor.daemon import Service, _Jobs
from auditor.schedule import Cron
from auditor.settings import load
from auditor.state import State
from tests.state.conftest import NOW
from tests.test_cli import one_bill

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte, filled to the last byte by the file `filler`; skips where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if os.getuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes all the room; deleting it gives it back."""
    filler = place / "filler"
    with pytest.raises(OSError) as full, filler.open("wb", buffering=0) as handle:
        while handle.write(b"x" * 4096):
            pass
    assert full.value.errno == errno.ENOSPC
    return filler


@pytest.mark.parametrize("what", ["reports", "data"])
def test_an_audit_without_room_is_told_and_done_again_when_there_is_some(
    what: str, small_disk: Path, tmp_path: Path
) -> None:
    one_bill(tmp_path / "in")
    folders = {"reports": tmp_path / "reports", "data": tmp_path / "data"}
    folders[what] = small_disk / what
    for folder in folders.values():
        folder.mkdir()
    config = tmp_path / "auditor.toml"
    config.write_text(
        f'[lake]\ndata_dir = "{folders["data"]}"\n[state]\nurl = "sqlite:///{tmp_path}/state.db"\n'
        f'[service]\nreport_dir = "{folders["reports"]}"\nformats = ["json"]\n'
        f'[[sources.files]]\nname = "x"\npaths = ["{tmp_path}/in"]\n'
    )
    filler = fill(small_disk)
    now = [NOW]
    with State.open(str(tmp_path / "state.db"), clock=lambda: now[0]) as state:
        jobs = _Jobs(state, load(config), folders["data"], config)
        service = Service(state, {"audit": Cron("0 5 * * *", "UTC")}, jobs.by_name, lambda: now[0])
        jobs.service = service
        service.come_round()
        now[0] += timedelta(days=1)
        service.come_round()
        slot = state.slots()[0]
        assert (slot.status, slot.attempts, slot.retry_at) == ("failed", 1, now[0] + timedelta(minutes=2))
        assert slot.error is not None
        assert str(folders[what]) in slot.error
        assert "No space left" in slot.error
        assert (service.failure, service.health()[0]) == (None, 200)
        assert not [path for path in folders[what].rglob("*") if path.is_file()]  # nothing half written stays
        filler.unlink()
        now[0] += timedelta(minutes=2)
        service.come_round()
        assert [(slot.status, slot.attempts) for slot in state.slots() if slot.status != "baseline"] == [("done", 2)]
    [report] = folders["reports"].rglob("findings.json")
    [row] = json.loads(report.read_text())["reconciliation"]
    assert (row["lake_billed_cost"], row["difference"]) == ("4.608000000001", "0")
