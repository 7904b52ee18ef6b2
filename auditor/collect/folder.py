"""A source's landing folder: files put down whole or not at all, and a journal of them that survives a kill."""

import json
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from auditor import journal
from auditor.errors import LakeError, SourceError
from auditor.journal import Entry, Journal, Problem, Usage

_PART = ".part"
_RESERVE = 256 * 2**20  # bytes that stay free on the disk, for the lake and the state


class LandingFolder:
    """Where one source's files land. Safe for the threads of one collection; one collection at a time.

    Names are POSIX paths below the folder, made of the vendor's own names; whatever they hold, nothing is written outside.
    """

    def __init__(self, path: Path, source: str, provider: str | None, now: datetime) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._journal = Journal(source, provider, now.isoformat())
        try:
            path.mkdir(parents=True, exist_ok=True)
            before = self._before()
            if before is not None:
                self._journal.entries, self._journal.marks = before.entries, before.marks
            self._stream = self._compacted()
        except OSError as error:
            raise LakeError(f"the landing folder {path} cannot be used: {error.strerror}") from error

    def _before(self) -> Journal | None:
        place = self.path / journal.JOURNAL
        found = journal.read(place) if place.is_file() else None
        if found is not None:
            found.entries = {
                name: entry for name, entry in found.entries.items() if self._is_whole(self.path / name, entry.size)
            }
        return found

    @staticmethod
    def _is_whole(path: Path, size: int) -> bool:
        return path.is_file() and path.stat().st_size == size

    def _compacted(self) -> Any:
        """A journal of what lies here, in place of the old one, open for what comes."""
        fresh = self.path / (journal.JOURNAL + _PART)
        with fresh.open("w", encoding="utf-8") as stream:
            stream.write(journal.head_line(self._journal))
            stream.writelines(journal.entry_line(entry) for entry in self._journal.entries.values())
            for name, value in self._journal.marks.items():
                stream.write(journal.line("mark", {"name": name, "value": value}))
        fresh.replace(self.path / journal.JOURNAL)
        return (self.path / journal.JOURNAL).open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def finish(self, usage: Iterable[Usage], now: datetime) -> None:
        """The collection came to its end, whatever failed on the way."""
        for each in usage:
            self._add(
                "usage",
                {
                    "api": each.api,
                    "calls": each.calls,
                    "bytes": each.bytes,
                    "money": each.money,
                    "currency": each.currency,
                },
            )
        self._add("finished", {"at": now.isoformat()})

    def _add(self, kind: str, about: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(journal.line(kind, about))
            self._stream.flush()

    @property
    def entries(self) -> dict[str, Entry]:
        """The files that lie here, by name."""
        with self._lock:
            return dict(self._journal.entries)

    @property
    def problems(self) -> list[Problem]:
        """What failed in this collection so far."""
        with self._lock:
            return list(self._journal.problems)

    def holds(self, name: str, etag: str) -> bool:
        """Whether this very content lies here already, so that it need not be fetched again."""
        with self._lock:
            entry = self._journal.entries.get(plain(name))
        return entry is not None and entry.etag == etag

    def write(
        self,
        name: str,
        data: bytes | Iterable[bytes],
        *,
        kind: str,
        now: datetime,
        account_id: str | None = None,
        region: str | None = None,
        period: str | None = None,
        etag: str | None = None,
        size: int | None = None,
    ) -> Path:
        """Puts a file down, replacing an older one of this name at once.

        Raises SourceError where it is not `size` bytes long in the end, LakeError where the disk has no room.
        """
        name = plain(name)
        target = self.path / name
        part = target.with_name(target.name + _PART)
        try:
            written = self._put(part, [data] if isinstance(data, bytes) else data, size)
            if size is not None and written != size:
                raise SourceError(f"{name}: {written:,} of {size:,} bytes came; the transfer was cut")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        entry = Entry(name, kind, written, now.isoformat(), account_id, region, period, etag)
        with self._lock:
            self._journal.entries[name] = entry
            self._stream.write(journal.entry_line(entry))
            self._stream.flush()
        return target

    def _put(self, part: Path, blocks: Iterable[bytes], size: int | None) -> int:
        with self._writing(part):
            if size is not None and shutil.disk_usage(self.path).free < size + _RESERVE:
                raise LakeError(f"{part.name} is {size:,} bytes long, and the disk of {self.path} has no room for it")
            part.parent.mkdir(parents=True, exist_ok=True)
            out = part.open("wb")
        written = 0
        with out:
            for block in blocks:  # what fails in here is the transfer's failure, not the disk's
                with self._writing(part):
                    out.write(block)
                written += len(block)
        return written

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LakeError(f"{path} cannot be written: {error.strerror}") from error

    def write_json(self, name: str, document: Any, *, kind: str, now: datetime, **about: Any) -> Path:
        """Puts an answer down as the JSON document it is; times, which SDKs parse, become RFC 3339 again."""
        return self.write(name, json.dumps(document, default=_as_json).encode(), kind=kind, now=now, **about)

    def drop(self, names: Iterable[str]) -> None:
        """Takes away files that no longer stand for anything."""
        for name in names:
            (self.path / plain(name)).unlink(missing_ok=True)
            with self._lock:
                self._journal.entries.pop(plain(name), None)
            self._add("gone", {"name": plain(name)})

    def adopt(self, staged: str, name: str) -> None:
        """Gives a file its final name, replacing an older one of that name at once."""
        staged, name = plain(staged), plain(name)
        try:
            (self.path / staged).replace(self.path / name)
        except OSError as error:
            raise LakeError(f"{name} cannot be written to {self.path}: {error.strerror}") from error
        with self._lock:
            entry = replace(self._journal.entries.pop(staged), name=name)
            self._journal.entries[name] = entry
            self._stream.write(journal.line("gone", {"name": staged}) + journal.entry_line(entry))
            self._stream.flush()

    def problem(self, problem: Problem) -> None:
        """Notes what could not be fetched."""
        with self._lock:
            self._journal.problems.append(problem)
            self._stream.write(journal.problem_line(problem))
            self._stream.flush()

    def mark(self, name: str) -> Any:
        """What an earlier collection remembered under this name (how far it came, for example); null without one."""
        with self._lock:
            return self._journal.marks.get(name)

    def set_mark(self, name: str, value: Any) -> None:
        """Remembers a JSON value for the next collection."""
        with self._lock:
            self._journal.marks[name] = value
        self._add("mark", {"name": name, "value": value})


def plain(name: str) -> str:
    """The name as a path below a folder: a key of a bucket may hold `..`, an empty part, or begin with `/`."""
    parts = [
        part for part in PurePosixPath(name.replace("\\", "/").replace("\0", "")).parts if part not in ("/", "..", ".")
    ]
    if not parts:
        raise SourceError(f"{name!r} is no name of a file")
    # Most file systems take 255 bytes a part.
    return "/".join(part if len(part.encode()) <= 240 else f"{part[:100]}~{part[-100:]}" for part in parts)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
