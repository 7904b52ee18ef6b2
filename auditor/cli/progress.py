"""Progress bars on a terminal, by bytes; silence in a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from auditor.progress import Progress, Silent


class _Shown:
    """Steps of a run as bars that go when the step is over."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start(self, step: str, total_bytes: int | None) -> None:
        self._task = self._bars.add_task(step, total=total_bytes)

    def advance(self, bytes_done: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, bytes_done)

    def finish(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


@contextmanager
def progress_for(console: Console, *, shown: bool) -> Iterator[Progress]:
    if not shown or not console.is_terminal:
        yield Silent()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        yield _Shown(bars)
