"""Cuts JSON documents of any size into their series, without holding a document in memory.

DuckDB reads one object a line fast and in parallel, but a single document only whole. So the array of series is copied,
series by series, to a spool that DuckDB then reads; everything beside it (the envelope) is small and kept.
"""

import codecs
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from gzip import BadGzipFile
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, cast

from auditor.landing import LandingFile, Shape
from auditor.normalise.look import open_decoded

_CHUNK = 1 << 20
_DECODER = json.JSONDecoder()


class _Damaged(Exception):
    """The text ends or breaks here; what came before is good."""


@dataclass
class Cut:
    """What came out of one file: its documents' envelopes, numbered from `first`, and what stopped the reading."""

    first: int = 0
    envelopes: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None


def decoded_chunks(path: Path, shape: Shape) -> Iterator[str]:
    """The file's text in chunks. Raises _Damaged where the compressed data or the encoding ends badly."""
    damage: tuple[type[Exception], ...] = (EOFError, zlib.error, BadGzipFile)
    if shape.compression == "zstd":
        import zstandard

        damage = (*damage, zstandard.ZstdError)
    decoder = codecs.getincrementaldecoder("utf-8-sig" if shape.encoding == "utf-8" else shape.encoding)()
    try:
        with open_decoded(path, shape.compression) as stream:
            # read1 hands over what it has before it meets the damage; read would lose it
            while chunk := cast(BufferedIOBase, stream).read1(_CHUNK):
                yield decoder.decode(chunk)
            yield decoder.decode(b"", final=True)
    except damage as error:
        raise _Damaged(f"the compressed data is damaged or cut off ({error})") from error
    except UnicodeDecodeError as error:
        raise _Damaged(f"the text is not {shape.encoding} ({error.reason})") from error


def copy_lines(path: Path, shape: Shape, target: IO[str], *, check_json: bool) -> str | None:
    """Copies whole lines as UTF-8 until the file ends or is damaged; returns what stopped it, or None."""
    rest = ""
    try:
        for chunk in decoded_chunks(path, shape):
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                if check_json and line.strip():
                    json.loads(line)
                target.write(line + "\n")
        if check_json and rest.strip():
            json.loads(rest)
    except _Damaged as error:
        return str(error)
    except (ValueError, RecursionError) as error:
        return f"a line is not valid JSON ({error})"
    target.write(rest)
    return None


def cut(
    file: LandingFile, shape: Shape, target: IO[str], arrays: tuple[tuple[str, ...], ...], first_document: int
) -> Cut:
    """Writes the elements of the named arrays to `target` as `{"doc": n, "e": …}`, one after the other.

    Concatenated documents and a list of documents count as several; a bare list of elements is one document's array.
    """
    result = Cut(first_document)
    reader = _Reader(decoded_chunks(file.path, shape))

    def emit(text: str) -> None:
        text = text.replace("\n", " ").replace("\r", " ")  # a JSON string holds no bare line end, so only layout goes
        target.write(f'{{"doc":{first_document + len(result.envelopes)},"e":{text}}}\n')

    envelope: dict[str, Any] = {}
    try:
        while reader.peek():
            envelope = {}
            _read_document(reader, arrays, emit, envelope, result)
    except _Damaged as error:
        result.problem = str(error)
        result.envelopes.append(envelope)
    return result


def _read_document(
    reader: "_Reader",
    arrays: tuple[tuple[str, ...], ...],
    emit: Callable[[str], None],
    envelope: dict[str, Any],
    result: Cut,
) -> None:
    if reader.peek() == "{":
        _walk(reader, arrays, (), emit, envelope)
        if not envelope.pop("", None):  # no array: the object is an element itself
            emit(json.dumps(envelope))
            envelope = {key: value for key, value in envelope.items() if isinstance(value, str)}
        result.envelopes.append(envelope)
        return
    reader.expect("[")
    while reader.peek() != "]":
        _read_document(reader, arrays, emit, envelope, result)
        envelope = {}
        if reader.peek() == ",":
            reader.expect(",")
    reader.expect("]")


def _walk(
    reader: "_Reader",
    arrays: tuple[tuple[str, ...], ...],
    at: tuple[str, ...],
    emit: Callable[[str], None],
    envelope: dict[str, Any],
) -> None:
    """Reads one object; the wanted arrays go to `emit`, all else into `envelope`, whose key '' marks that one was met."""
    reader.expect("{")
    while reader.peek() != "}":
        key = json.loads(reader.value())
        reader.expect(":")
        here = (*at, key)
        if here in arrays and reader.peek() == "[":
            envelope[""] = True
            reader.expect("[")
            while reader.peek() != "]":
                emit(reader.value())
                if reader.peek() == ",":
                    reader.expect(",")
            reader.expect("]")
        elif any(path[: len(here)] == here for path in arrays) and reader.peek() == "{":
            _walk(reader, arrays, here, emit, envelope)
        else:
            envelope[key] = json.loads(reader.value())
        if reader.peek() == ",":
            reader.expect(",")
    reader.expect("}")


class _Reader:
    """A window over the text of a document stream."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self._chunks = chunks
        self._text = ""
        self._at = 0

    def _more(self, at_least: int) -> bool:
        parts = [self._text[self._at :]]
        got = 0
        for chunk in self._chunks:
            parts.append(chunk)
            got += len(chunk)
            if got >= at_least:
                break
        self._text, self._at = "".join(parts), 0
        return got > 0

    def peek(self) -> str:
        """The next character that is not white space, '' at the end."""
        while True:
            while self._at < len(self._text):
                if not self._text[self._at].isspace():
                    return self._text[self._at]
                self._at += 1
            if not self._more(1):
                return ""

    def expect(self, character: str) -> None:
        found = self.peek()
        if found != character:
            raise _Damaged(f"the JSON is cut off or damaged (wanted {character!r}, found {found or 'the end'!r})")
        self._at += 1

    def value(self) -> str:
        """The next JSON value as it is written."""
        if not self.peek():
            raise _Damaged("the JSON is cut off in the middle of a document")
        wanted = _CHUNK
        while True:
            try:
                _, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise _Damaged("the JSON is nested too deeply to be an answer") from error
            except ValueError as error:
                if not self._more(wanted):
                    raise _Damaged(f"the JSON is cut off or damaged ({error})") from error
            else:
                text = self._text[self._at : end]
                if end < len(self._text) or not self._more(wanted):  # a number at the edge may go on
                    self._at += len(text)
                    return text
            wanted *= 2


def largest_object(path: str) -> int:
    """A bound for DuckDB's `maximum_object_size`: the longest line of a spool, with its default as the least."""
    with Path(path).open("rb") as stream:
        longest = max((len(line) for line in stream), default=0)
    return max(16 * 1024 * 1024, 2 * longest)
