"""A job of the service in a process of its own: its memory is given back, it can be stopped, and it ends with the service.

`python -m auditor.child scan …` is `auditor scan …`; `python -m auditor.child pull DATA_DIR [CONFIG]` fetches what the
live sources have. Standard input is the lifeline: the service holds its other end and writes nothing, so that the end of
the service, however it came, is the end of this input. That needs no group of processes and no help of the system.
"""

import logging
import os
import signal
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.errors import AuditorError, LakeError

if TYPE_CHECKING:
    from auditor.settings import Settings

log = logging.getLogger("auditor.child")  # and not `__main__`, as which it runs

GRACE_SECONDS = 20.0  # to give a lock back; what is about to be committed is committed whole or not at all
_LOCK_WAIT = timedelta(minutes=10)  # as long as an audit waits


def main() -> None:
    """Do what the words say, for as long as the service lives."""
    threading.Thread(target=_end_with_the_service, name="auditor-lifeline", daemon=True).start()
    if sys.argv[1:2] == ["pull"]:
        sys.exit(_pull(*map(Path, sys.argv[2:])))
    from auditor.cli import main as command_line

    command_line()


def _end_with_the_service() -> None:
    try:
        while os.read(sys.stdin.fileno(), 1):
            pass
    except OSError:
        log.debug("lifeline broke", exc_info=True)  # it is gone either way
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(128 + signal.SIGTERM)


def _pull(data_dir: Path, config: Path | None = None) -> int:
    from auditor import settings
    from auditor.cli.logs import start_logging

    start_logging(1, "json")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        pull(settings.load(config), data_dir, datetime.now(UTC))
    except AuditorError as error:
        print(f"auditor: {error}", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        return 130
    return 0


def pull(loaded: "Settings", data_dir: Path, now: datetime) -> None:
    """Fetch what the live sources have.

    What one of them did not give is in its journal, for the report of the next audit. Raises LakeError where none gave
    anything, so that it is tried again.
    """
    from auditor import live
    from auditor.progress import Silent
    from auditor.state import State

    with (
        State.open(loaded.state.address(data_dir)) as state,
        state.run_lock(f"pull, process {os.getpid()}", wait=_LOCK_WAIT),
        tempfile.TemporaryDirectory(prefix="auditor-", ignore_cleanup_errors=True) as spool,
    ):
        collected = live.pull(loaded, data_dir, Path(spool), Silent(), now)
    for source in collected:
        for problem in source.problems:
            log.warning("not fetched source=%s what=%s reason=%s", source.name, problem.what, problem.reason)
        log.info("fetched source=%s files=%d problems=%d", source.name, source.files, len(source.problems))
    if collected and all(source.problems and not source.files for source in collected):
        first = collected[0]
        raise LakeError(f"no live source gave anything: {first.name}: {first.problems[0].reason}")


if __name__ == "__main__":
    main()
