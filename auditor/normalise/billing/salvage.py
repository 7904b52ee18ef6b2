"""What can still be read of files that break off: rows before the damage count, and the message says how many."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import zstandard
from isal import igzip, isal_zlib

from auditor.landing import LandingFile, Recognised
from auditor.normalise.billing import answers, avro
from auditor.normalise.look import open_decoded

_QUOTED = re.compile(r'"[^"]*"')
_BLOCK = 1 << 20
_HEAD = 64 * 1024
BREAK = avro.BREAK
_DAMAGE = (EOFError, OSError, zlib.error, zstandard.ZstdError)


def readable(
    files: Sequence[Recognised], spool: Path, is_checked_later: Callable[[Recognised], bool] = lambda _: False
) -> tuple[list[Recognised], list[str]]:
    """The files as they can be read, damaged ones replaced by their sound beginning, and a message for each of these."""
    kept: list[Recognised] = []
    messages: list[str] = []
    if any(file.details.get("answer") for file in files):
        return answers.to_focus(files, spool), []
    for file in files:
        if file.shape.form == "avro":
            lines, broken = avro.to_json_lines(file, spool)
            kept.append(lines)
            messages += [broken] if broken else []
            continue
        messages += file.details.get("damage", ())
        problem = None if is_checked_later(file) else damage(file.file, file.shape.compression)
        if problem is None:
            clean, nuls = _without_nuls(file, spool)
            messages += nuls
            kept.append(_with_one_line_end(clean, spool) if _has_mixed_ends(file.shape.head) else clean)
            continue
        sound, rows = _sound_part(file, spool)
        messages.append(f"{file.file.name}: {problem}; {rows:,} {BREAK}, ask for the file again")
        if rows:
            kept.append(_replaced(file, sound))
    return kept, messages


def mended(files: Sequence[Recognised], spool: Path) -> list[Recognised] | None:
    """The files after a reader refused them: JSON lines without those that are none, CSV with one kind of line end.

    None where there is nothing of that to mend. What was left out stands in the file's details, for `readable` to say.
    """
    made = []
    for file in files:
        if file.shape.form not in ("jsonl", "csv") or damage(file.file, file.shape.compression) is not None:
            made.append(file)
        elif file.shape.form == "jsonl":
            made.append(_whole_objects(file, spool))
        else:
            made.append(_with_one_line_end(file, spool))
    return made if any(new is not old for new, old in zip(made, files, strict=True)) else None


def _replaced(file: Recognised, path: Path, damage: str | None = None) -> Recognised:
    details = {**file.details, "damage": (*file.details.get("damage", ()), damage)} if damage else file.details
    return replace(
        file,
        file=LandingFile(path, file.file.name, path.stat().st_size),
        shape=replace(file.shape, compression="none"),
        details=details,
    )


def _whole_objects(file: Recognised, spool: Path) -> Recognised:
    target = spool / f"objects-{file.file.path.name}.jsonl"
    lines = bad = first = 0
    with open_decoded(file.file.path, file.shape.compression) as stream, target.open("wb") as out:
        for lines, line in enumerate(stream, start=1):
            if not line.strip() or _is_object(line):
                out.write(line)
            else:
                bad, first = bad + 1, first or lines
    if not bad:
        return file
    message = f"{file.file.name}: {bad:,} of {lines:,} lines are no whole JSON object, first line {first:,}; the other rows were read, ask for the file again"
    return _replaced(file, target, message)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _has_mixed_ends(head: str) -> bool:
    """Whether lines end in CRLF here and LF there, which DuckDB's strict reader refuses; cells in quotes may do so."""
    bare = _QUOTED.sub("", head)
    ends = bare.count("\r\n")
    return 0 < ends < bare.count("\n")


def _with_one_line_end(file: Recognised, spool: Path) -> Recognised:
    if file.shape.form != "csv" or file.shape.encoding.startswith("utf-16"):
        return file
    target = spool / f"lines-{file.file.path.name}.csv"
    changed = False
    with open_decoded(file.file.path, file.shape.compression) as stream, target.open("wb") as out:
        for line in stream:
            changed = changed or line.endswith(b"\r\n")
            out.write(line[:-2] + b"\n" if line.endswith(b"\r\n") else line)
    return _replaced(file, target) if changed else file


def _without_nuls(file: Recognised, spool: Path) -> tuple[Recognised, list[str]]:
    """The file without NUL bytes where its beginning has some, and a message of how many."""
    if file.shape.form not in ("csv", "jsonl", "json", "json_stream") or file.shape.encoding.startswith("utf-16"):
        return file, []
    with open_decoded(file.file.path, file.shape.compression) as stream:
        if b"\x00" not in stream.read(_HEAD):
            return file, []
    target = spool / f"text-{file.file.path.name}.txt"
    nuls = 0
    with open_decoded(file.file.path, file.shape.compression) as stream, target.open("wb") as out:
        while block := stream.read(_BLOCK):
            nuls += block.count(b"\x00")
            out.write(block.replace(b"\x00", b""))
    message = (
        f"{file.file.name}: {nuls:,} NUL bytes were left out, so some rows may be incomplete; ask for the file again"
    )
    return _replaced(file, target), [message]


def damage(file: LandingFile, compression: str) -> str | None:
    """Why a compressed file cannot be read to its end, else None.

    DuckDB compares no checksum and takes a stream that breaks off for its end, so that a flipped bit would become a
    wrong dollar and a lost half nothing at all; this pass sees both.
    """
    try:
        if compression == "gzip":
            with igzip.open(file.path, "rb") as stream:  # type: ignore[no-untyped-call]
                while stream.read(_BLOCK):
                    pass
        elif compression == "zstd":
            for _ in zstd_blocks(file.path):
                pass
    except (*_DAMAGE, isal_zlib.error) as error:  # type: ignore[misc]
        return f"the compressed data is damaged or cut off ({error})"
    return None


def zstd_blocks(path: Path) -> Iterator[bytes]:
    """The decoded blocks of all frames. Raises EOFError where the last frame is not whole."""
    decoder = zstandard.ZstdDecompressor().decompressobj()
    fresh = True
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            while block:
                yield decoder.decompress(block)
                fresh = decoder.eof
                block = decoder.unused_data if decoder.eof else b""
                if decoder.eof:
                    decoder = zstandard.ZstdDecompressor().decompressobj()
    if not fresh:
        raise EOFError("the last frame is not whole")


def _gzip_blocks(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as stream:
        while block := stream.read(8192):  # small, so that little is lost before the break
            yield block


def _sound_part(file: Recognised, spool: Path) -> tuple[Path, int]:
    """The decoded beginning up to the last whole line, and its number of rows (a CSV's header is none)."""
    target = spool / f"sound-{file.file.path.name}.txt"
    blocks = zstd_blocks if file.shape.compression == "zstd" else _gzip_blocks
    tail = b""
    lines = 0
    with target.open("wb") as out, suppress(*_DAMAGE):  # the caller's message says what the damage is
        for block in blocks(file.file.path):
            whole, found, tail = (tail + block).rpartition(b"\n")
            if found:
                out.write(whole + b"\n")
                lines += whole.count(b"\n") + 1
    return target, max(lines - (1 if file.shape.form == "csv" else 0), 0)
