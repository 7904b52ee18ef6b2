"""One source's collection: tasks side by side, each of which stands or falls alone."""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from auditor.collect.budget import Budget, BudgetReached
from auditor.collect.folder import LandingFolder
from auditor.errors import LakeError, SettingsError, SourceError
from auditor.journal import Problem
from auditor.progress import Progress
from auditor.settings import Limits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One thing to fetch: `what` is the vendor's own name of the call, `hides` what the report misses without it."""

    kind: str
    what: str
    hides: str
    run: Callable[[], None]
    account_id: str | None = None
    region: str | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a vendor refused, in words for the report, and what helps."""

    reason: str
    fix: str | None = None


Explain = Callable[[Exception], Refusal | None]


@dataclass(frozen=True)
class Collection:
    """What a collector works with. `start` and `end` bound the telemetry wanted, `end` being the last full hour."""

    folder: LandingFolder
    budget: Budget
    limits: Limits
    start: datetime
    end: datetime
    now: datetime
    progress: Progress
    spool: Path
    months: int = 4  # billing periods wanted, the newest included

    def each(self, tasks: Iterable[Task], explain: Explain) -> None:
        """Runs tasks, at most `[limits] parallel` at once. One that fails becomes a problem of the report.

        `explain` puts the vendor's own exceptions into words; null means that it does not know the exception. LakeError
        (no room to write) ends the collection.
        """
        with ThreadPoolExecutor(self.limits.parallel, "collect") as pool:
            waiting: dict[Future[None], Task] = {}
            try:
                for task in tasks:
                    if len(waiting) >= 4 * self.limits.parallel:  # a lazy list of a million tasks stays lazy
                        self._reap(waiting, explain)
                    waiting[pool.submit(task.run)] = task
                while waiting:
                    self._reap(waiting, explain)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _reap(self, waiting: dict[Future[None], Task], explain: Explain) -> None:
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            task = waiting.pop(future)
            error = future.exception()
            if error is not None:
                self._failed(task, error, explain)

    def attempt(self, task: Task, explain: Explain) -> bool:
        """Runs one task here and now; false where it failed, which is then a problem of the report."""
        try:
            task.run()
        except Exception as error:
            self._failed(task, error, explain)
            return False
        return True

    def _failed(self, task: Task, error: BaseException, explain: Explain) -> None:
        if isinstance(error, LakeError) or not isinstance(error, Exception):
            raise error
        refusal = in_words(error, explain)
        log.warning(
            "not collected what=%s account=%s region=%s reason=%s",
            task.what,
            task.account_id,
            task.region,
            refusal.reason,
        )
        log.debug("the failure", exc_info=error)
        self.folder.problem(
            Problem(task.kind, task.what, refusal.reason, task.hides, refusal.fix, task.account_id, task.region)
        )


def in_words(error: Exception, explain: Explain) -> Refusal:
    """A failure as the report tells it."""
    if isinstance(error, BudgetReached):
        return Refusal(str(error), "raise the cap under [limits], or ask for less")
    if isinstance(error, SourceError | SettingsError):
        return Refusal(str(error))
    known = explain(error)
    if known is not None:
        return known
    first = str(error).splitlines()[0][:300] if str(error) else "no message"
    return Refusal(
        f"failed unexpectedly ({type(error).__name__}: {first})", "run again with -vv and report it with the log"
    )
