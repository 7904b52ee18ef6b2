"""What can still be read of files that break off: rows before the damage count, and the message says how many."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import zstandard
from isal import igzip, isal_zlib

from auditor.landing import LandingFile, Recognised
from auditor.normalise.billing import answers, avro

_BLOCK = 1 << 20
_DAMAGE = (EOFError, OSError, zlib.error, zstandard.ZstdError)


def readable(files: Sequence[Recognised], spool: Path) -> tuple[list[Recognised], list[str]]:
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
        problem = damage(file.file, file.shape.compression)
        if problem is None:
            kept.append(file)
            continue
        sound, rows = _sound_part(file, spool)
        messages.append(
            f"{file.file.name}: {problem}; {rows:,} rows before the break were read, ask for the file again"
        )
        if rows:
            kept.append(
                replace(
                    file,
                    file=LandingFile(sound, file.file.name, sound.stat().st_size),
                    shape=replace(file.shape, compression="none"),
                )
            )
    return kept, messages


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
            for _ in _zstd_blocks(file.path):
                pass
    except (*_DAMAGE, isal_zlib.error) as error:  # type: ignore[misc]
        return f"the compressed data is damaged or cut off ({error})"
    return None


def _zstd_blocks(path: Path) -> Iterator[bytes]:
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
    blocks = _zstd_blocks if file.shape.compression == "zstd" else _gzip_blocks
    tail = b""
    lines = 0
    with target.open("wb") as out, suppress(*_DAMAGE):  # the caller's message says what the damage is
        for block in blocks(file.file.path):
            whole, found, tail = (tail + block).rpartition(b"\n")
            if found:
                out.write(whole + b"\n")
                lines += whole.count(b"\n") + 1
    return target, max(lines - (1 if file.shape.form == "csv" else 0), 0)
