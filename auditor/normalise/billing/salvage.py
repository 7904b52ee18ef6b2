"""What can still be read of files that break off: rows before the damage count, and the message says how many."""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from isal import igzip, isal_zlib

from auditor.landing import LandingFile, Recognised
from auditor.normalise.billing import answers, avro
from auditor.normalise.look import open_decoded

_BLOCK = 1 << 20


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
    """Why a gzip file cannot be read to its end, else None.

    DuckDB does not compare a gzip stream's checksum, so that a flipped bit would become a wrong dollar; this pass does.
    """
    if compression != "gzip":
        return None
    try:
        with igzip.open(file.path, "rb") as stream:  # type: ignore[no-untyped-call]
            while stream.read(_BLOCK):
                pass
    except (EOFError, zlib.error, gzip.BadGzipFile, isal_zlib.error) as error:  # type: ignore[misc]
        return f"the compressed data is damaged or cut off ({error})"
    return None


def _sound_part(file: Recognised, spool: Path) -> tuple[Path, int]:
    """The decoded beginning up to the last whole line, and its number of rows (a CSV's header is none)."""
    target = spool / f"sound-{file.file.path.name}.txt"
    tail = b""
    lines = 0
    with target.open("wb") as out:
        try:
            with open_decoded(file.file.path, "gzip") as stream:
                while block := stream.read(8192):
                    tail += block
                    whole, _, rest = tail.rpartition(b"\n")
                    if whole:
                        out.write(whole + b"\n")
                        lines += whole.count(b"\n") + 1
                        tail = rest
        except (EOFError, zlib.error, gzip.BadGzipFile):
            pass  # the damage is already described by the caller's message
    return target, max(lines - (1 if file.shape.form == "csv" else 0), 0)
