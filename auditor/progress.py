"""What a long step tells the person who waits; nothing in a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives the steps of a run."""

    def start(self, step: str, total_bytes: int | None) -> None:
        """A step begins; `total_bytes` is null where its size is not known."""

    def advance(self, bytes_done: int) -> None:
        """Part of the step is done."""

    def finish(self) -> None:
        """The step is over."""


class Silent:
    """No progress at all."""

    def start(self, step: str, total_bytes: int | None) -> None:
        pass

    def advance(self, bytes_done: int) -> None:
        pass

    def finish(self) -> None:
        pass


@contextmanager
def step(progress: Progress, name: str, total_bytes: int | None = None) -> Iterator[None]:
    progress.start(name, total_bytes)
    try:
        yield
    finally:
        progress.finish()
