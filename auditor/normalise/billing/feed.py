"""Compressed text handed to DuckDB through pipes, inflated and checked on the way.

DuckDB inflates gzip without comparing checksums, and takes a stream that breaks off for its end. Here each byte is inflated
once, by ISA-L, whose checks see both; a text of many gigabytes is never written out.
"""

import errno
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import zstandard
from isal import igzip, isal_zlib

from auditor.landing import LandingFile, Recognised
from auditor.normalise.billing import salvage

_BLOCK = 1 << 20
_PATIENCE = 0.005  # seconds between two looks for readers
_LEAVE = 10.0  # seconds for a writer to notice that its reader is gone
_DAMAGE = (EOFError, OSError, zlib.error, zstandard.ZstdError, isal_zlib.error)


class Feed:
    """`files` as they are to be read; `is_sound` is false after the reading where one of them broke off or is damaged."""

    def __init__(self, files: list[Recognised]) -> None:
        self.files = files
        self.is_sound = True


@contextmanager
def feeding(files: Sequence[Recognised], spool: Path) -> Iterator[Feed]:
    """The files with pipes in place of those that are compressed. Each may be read once, inside the block."""
    made, waiting = [], {}
    for number, file in enumerate(files):
        if not is_fed(file):
            made.append(file)
            continue
        pipe = spool / f"feed-{os.getpid()}-{threading.get_ident()}-{number}.txt"
        os.mkfifo(pipe)
        waiting[pipe] = file
        made.append(
            replace(
                file,
                file=LandingFile(pipe, file.file.name, file.file.size),
                shape=replace(file.shape, compression="none"),
            )
        )
    feed = Feed(made)
    over = threading.Event()
    attendant = threading.Thread(target=_attend, args=(feed, dict(waiting), over), daemon=True)
    attendant.start()
    try:
        yield feed
    finally:
        over.set()
        attendant.join()
        for pipe in waiting:
            pipe.unlink()


def is_fed(file: Recognised) -> bool:
    """Whether the file goes through a pipe: what is rewritten before it is read is checked then.

    JSON does not: DuckDB keeps all of what it reads of a pipe as JSON in memory.
    """
    shape = file.shape
    return (
        shape.compression in ("gzip", "zstd")
        and shape.form == "csv"
        and shape.encoding == "utf-8"
        and not shape.skip_lines
    )


def _attend(feed: Feed, waiting: dict[Path, Recognised], over: threading.Event) -> None:
    """Begins to write into each pipe when its reader comes: DuckDB opens some of many files at a time, in its own order."""
    writers = []
    while waiting and not over.wait(_PATIENCE):
        for pipe, file in list(waiting.items()):
            try:
                number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody reads it yet
                    continue
                raise
            os.set_blocking(number, True)
            del waiting[pipe]
            writers.append(threading.Thread(target=_write, args=(feed, file, number), daemon=True))
            writers[-1].start()
    for writer in writers:
        writer.join(_LEAVE)


def _write(feed: Feed, file: Recognised, number: int) -> None:
    with suppress(BrokenPipeError), os.fdopen(number, "wb") as out:  # a reader that gave up says itself why
        try:
            for block in _inflated(file):
                out.write(block)
        except BrokenPipeError:
            raise
        except _DAMAGE:  # type: ignore[misc]  # isal has no types
            feed.is_sound = False  # what remains sound is found out by reading it again with more care


def _inflated(file: Recognised) -> Iterator[bytes]:
    if file.shape.compression == "zstd":
        yield from salvage.zstd_blocks(file.file.path)
        return
    with igzip.open(file.file.path, "rb") as stream:  # type: ignore[no-untyped-call]
        while block := stream.read(_BLOCK):
            yield block
