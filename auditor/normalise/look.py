"""Looks at a file's first bytes and says what form it has: never by its name."""

import csv
import gzip
import io
import json
import re
import zlib
from pathlib import Path
from typing import IO, Any, cast

import duckdb
import zstandard

from auditor.landing import LandingFile, Shape

EMPTY = "the file is empty"
STAND_IN = "a page or an error that was saved in place of the data"
_LOOK = 64 * 1024
_WHOLE = 8 * 1024 * 1024  # a JSON document up to this size is parsed whole, so that its kind is certain
_DELIMITERS = ",;\t|"
# TOML and log lines begin with a bracket too; what we read as JSON is objects, alone or in lists.
_JSON = re.compile(r'[\[\s]*\{\s*(["}]|$)|\[[\[\s]*$')
# A full disk or a lost power leaves NULs in a text; the other control characters are binary data's own.
_CONTROLS = bytes({*range(32)} - {*b"\x00\t\n\x0b\f\r\x1a\x1b"})
_MAGIC = {b"PAR1": "parquet", b"Obj\x01": "avro"}
_GLUED = re.compile(r"\}[ \t]*\{")
# What a download leaves in place of the data: a login page, an object store's error, a pointer to a large file.
_STAND_IN = re.compile(r"<(!doctype|html|\?xml|error)\b|version https://git-lfs", re.IGNORECASE)


def look(file: LandingFile) -> Shape:
    """The form, compression and header of one file; `problem` is set where it cannot be read."""
    if file.size == 0:
        return Shape("empty", problem=EMPTY)
    try:
        with file.path.open("rb") as stream:
            magic = stream.read(4)
        if magic in _MAGIC:
            return _look_at_parquet(file.path) if _MAGIC[magic] == "parquet" else _look_at_avro(file.path)
        compression = _compression(magic)
        with open_decoded(file.path, compression) as stream:
            head, problem = _read_head(stream, _LOOK)
        if compression != "none" and head[:4] in _MAGIC:
            kind = _MAGIC[head[:4]].capitalize()
            return Shape("binary", compression, problem=f"a {kind} file packed in {compression}: unpack it first")
    except OSError as error:
        return Shape("binary", problem=f"cannot be read: {error}")
    try:
        return _look_at_text(file, head, compression, problem)
    except RecursionError:
        return Shape("json", compression, problem="the JSON is nested too deeply to be an export")


def open_decoded(path: Path, compression: str) -> IO[bytes]:
    """The file's bytes with gzip or zstd taken off."""
    if compression == "gzip":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if compression == "zstd":
        return cast(IO[bytes], zstandard.open(path, "rb"))
    return path.open("rb")


def _compression(magic: bytes) -> str:
    if magic[:2] == b"\x1f\x8b":
        return "gzip"
    return "zstd" if magic == b"\x28\xb5\x2f\xfd" else "none"


def _read_head(stream: IO[bytes], size: int) -> tuple[bytes, str | None]:
    """Up to `size` decoded bytes, and what stopped the reading early if it was damage."""
    parts: list[bytes] = []
    got = 0
    try:
        while got < size and (part := stream.read(min(8192, size - got))):
            parts.append(part)
            got += len(part)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError, ValueError) as error:
        return b"".join(parts), f"the compressed data is damaged or cut off ({error})"
    return b"".join(parts), None


def _look_at_parquet(path: Path) -> Shape:
    try:
        with duckdb.connect(config={"autoload_known_extensions": "false", "threads": "1"}) as con:
            rows = con.execute(
                "describe select * from read_parquet(?, hive_partitioning=false)", [str(path)]
            ).fetchall()
    except duckdb.Error as error:
        return Shape("parquet", problem=f"the Parquet file is damaged or cut off ({str(error).splitlines()[0]})")
    return Shape("parquet", columns=tuple(row[0] for row in rows), types=tuple(row[1] for row in rows))


def _look_at_avro(path: Path) -> Shape:
    from auditor.normalise.billing import avro

    try:
        return Shape("avro", columns=avro.columns(path))
    except ValueError as error:
        return Shape("avro", problem=str(error))


def _look_at_text(file: LandingFile, head: bytes, compression: str, problem: str | None) -> Shape:
    encoding = _encoding(head)
    if encoding is None:
        return Shape("binary", compression, problem=problem)
    text = head.decode(encoding, errors="replace").lstrip("\ufeff").replace("\x00", "")
    stripped = text.lstrip()
    if not stripped:
        return Shape("empty", compression, problem=problem or EMPTY)
    if _STAND_IN.match(stripped):
        first = stripped.splitlines()[0][:60]
        return Shape(
            "text",
            compression,
            encoding=encoding,
            head=text,
            problem=problem or f"{STAND_IN} ({first}); fetch the file again",
        )
    if _JSON.match(stripped):
        return _look_at_json(file, stripped, compression, encoding, whole=len(head) < _LOOK, problem=problem)
    return _look_at_csv(text, compression, encoding, problem)


def _encoding(head: bytes) -> str | None:
    """Encoding by byte-order mark, else UTF-8 if it decodes, else Windows-1252; None for binary data."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    nuls = head.count(b"\x00")
    if nuls and nuls > 0.4 * len(head) and head[1:200:2].strip(b"\x00") == b"":
        return "utf-16-le"  # without its mark
    if nuls and nuls > 0.4 * len(head) and head[:200:2].strip(b"\x00") == b"":
        return "utf-16-be"
    if nuls and (nuls > 0.5 * len(head) or head.translate(None, _CONTROLS) != head):
        return None
    try:
        head[: len(head) - 3].decode("utf-8")  # the look may end inside a character
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _look_at_json(
    file: LandingFile, text: str, compression: str, encoding: str, *, whole: bool, problem: str | None
) -> Shape:
    decoder = json.JSONDecoder()
    try:
        first, end = decoder.raw_decode(text)
    except ValueError:
        return _look_at_large_json(file, text, compression, encoding, whole=whole, problem=problem)
    rest = text[end:].lstrip()
    if rest.startswith("{") or (not whole and isinstance(first, dict)):
        form = "json_stream" if "\n" in text[:end] or _GLUED.search(text) else "jsonl"
        return Shape(form, compression, _keys(first), encoding=encoding, sample=first, head=text, problem=problem)
    form = "jsonl" if isinstance(first, dict) and "\n" not in text[:end].strip() else "json"
    return Shape(form, compression, _keys(first), encoding=encoding, sample=first, head=text, problem=problem)


def _look_at_large_json(
    file: LandingFile, text: str, compression: str, encoding: str, *, whole: bool, problem: str | None
) -> Shape:
    if whole and problem is None:
        return Shape(
            "text", compression, encoding=encoding, head=text, problem="looks like JSON but does not parse as such"
        )
    with open_decoded(file.path, compression) as stream:
        data, damage = _read_head(stream, _WHOLE)
    problem = problem or damage
    if len(data) < _WHOLE and damage is None:
        try:
            document = json.loads(data.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace"))
        except ValueError:
            document = None
        if document is not None:
            return Shape(
                "json", compression, _keys(document), encoding=encoding, sample=document, head=text, problem=problem
            )
    more = data.decode(encoding, errors="replace").lstrip("\ufeff").lstrip()
    first = _first_object(more)
    single_line = first is not None and "\n" not in more[: more.find("}")] and more.startswith("{")
    form = "json" if more.startswith("[") or first is None else "jsonl" if single_line else "json_stream"
    sample: Any = [first] if more.startswith("[") and first is not None else first
    return Shape(form, compression, _keys(sample), encoding=encoding, sample=sample, head=text, problem=problem)


def _first_object(text: str) -> Any:
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except ValueError:
        return None


def _keys(document: Any) -> tuple[str, ...]:
    if isinstance(document, list):
        document = document[0] if document else None
    return tuple(document) if isinstance(document, dict) else ()


def _look_at_csv(text: str, compression: str, encoding: str, problem: str | None) -> Shape:
    lines = text.splitlines()
    skip = _header_line(lines)
    delimiter = max(_DELIMITERS, key=lines[skip].count)
    if lines[skip].count(delimiter) == 0:
        return Shape("text", compression, encoding=encoding, head=text, problem=problem)
    rows = csv.reader(io.StringIO("\n".join(lines[skip : skip + 50])), delimiter=delimiter)
    columns = tuple(cell.strip().lstrip("\ufeff") for cell in next(rows))
    # The last line of the look may be cut; where all others are of one other width, the header's last cells are at fault.
    widths = {len(row) for row in list(rows)[: len(lines) - skip - 2] if row}
    if len(widths) == 1 and (width := widths.pop()) != len(columns) and width > 1:
        columns = columns[:width] + tuple(f"unnamed_{at}" for at in range(len(columns), width))
    return Shape(
        "csv", compression, columns, delimiter=delimiter, encoding=encoding, skip_lines=skip, head=text, problem=problem
    )


def _header_line(lines: list[str]) -> int:
    """The line that holds the header: the first, unless a `sep=` line or a few words of title stand before a wide one."""
    if lines[0].lower().strip('"').startswith("sep="):
        return min(1, len(lines) - 1)
    if max(lines[0].count(delimiter) for delimiter in _DELIMITERS) > 2:
        return 0
    for at, line in enumerate(lines[1:20], start=1):
        delimiter = max(_DELIMITERS, key=line.count)
        cells = [cell.strip().strip('"') for cell in line.split(delimiter)]
        if len(cells) >= 8 and all(cells) and not any(character in line for character in "{}[]="):
            return at
    return 0
