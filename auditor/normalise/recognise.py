"""Recognises landing files by their content, and counts each content once."""

import hashlib
import logging
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import xxhash
import zstandard

from auditor.journal import HEAD_KEY
from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise import flows, inventory, prices, telemetry
from auditor.normalise.billing import formats, manifests, refused
from auditor.normalise.look import EMPTY, STAND_IN, look, open_decoded

log = logging.getLogger(__name__)

_BLOCK = 1 << 20
_DATA_NAME = re.compile(
    r"\.(csv|tsv|json|jsonl|ndjson|parquet|avro|xlsx?|log|gz|zip|tgz|tar|zst|zstd|bz2|xz|snappy)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Unread:
    """A file that is not read: `status` is skipped (no concern of ours) or failed (damaged)."""

    file: LandingFile
    status: str
    reason: str
    format: str | None = None


@dataclass(frozen=True)
class Sorted:
    """Every landing file, by what it is."""

    recognised: list[Recognised]
    unread: list[Unread]
    digests: dict[str, str]  # file name -> digest of its bytes, for billing files


def sort_files(files: Iterable[LandingFile]) -> Sorted:
    """Recognises each file; of files with the same content one is read and the others are named as copies."""
    recognised: list[Recognised] = []
    unread: list[Unread] = []
    digests: dict[str, str] = {}
    by_length: dict[int, list[Recognised]] = {}
    for file in files:
        try:
            shape = look(file)
            found = recognise(file, shape)
            if found is not None and found.kind == "billing":
                digests[file.name] = _digest(file)
        except Exception as error:  # whatever a file holds, it ends no scan
            log.warning("file cannot be looked at name=%s", file.name, exc_info=error)
            unread.append(Unread(file, "failed", f"cannot be read: {type(error).__name__}: {error}"))
            continue
        if found is None:
            unread.append(Unread(file, *_why_not(file, shape)))
            continue
        recognised.append(found)
        by_length.setdefault(_decoded_length(file, shape), []).append(found)
    copies: set[str] = set()
    siblings = Counter((file.file.folder, file.format) for file in recognised)
    for group in by_length.values():
        # Of two copies the one among its delivery's other parts is read, not the stray one in a downloads folder.
        group.sort(key=lambda file: (-siblings[(file.file.folder, file.format)], file.file.name))
        seen: dict[tuple[str, str], Recognised] = {}
        for file_ in group if len(group) > 1 else ():
            # Lifecycle files of two buckets, or one document under two folders, may be equal and yet speak of two things.
            if file_.kind not in ("billing", "telemetry", "flows"):
                continue
            key = (file_.kind, _decoded_digest(file_))
            original = seen.setdefault(key, file_)
            if original is not file_:
                copies.add(file_.file.name)
                unread.append(
                    Unread(
                        file_.file,
                        "skipped",
                        f"the same content as {original.file.name}, which is counted",
                        file_.format,
                    )
                )
    return Sorted([file for file in recognised if file.file.name not in copies], unread, digests)


def recognise(file: LandingFile, shape: Shape) -> Recognised | None:
    if isinstance(shape.sample, dict) and HEAD_KEY in shape.sample:
        return Recognised(file, shape, "journal", "auditor-landing", None)
    for room in (manifests, formats, telemetry, inventory, flows, prices):
        found: Recognised | None = room.recognise(file, shape)
        if found is not None:
            return found
    return None


def _why_not(file: LandingFile, shape: Shape) -> tuple[str, str]:
    if shape.form == "empty" and shape.problem == EMPTY:
        return (
            ("failed", "the file is empty: the export wrote nothing, or the download stopped; fetch it again")
            if _DATA_NAME.search(file.name)
            else ("skipped", "the file is empty, and its name is not that of a data file")
        )
    if shape.problem:
        is_page = shape.problem.startswith(STAND_IN) and not _DATA_NAME.search(file.name)
        return "skipped" if is_page else "failed", shape.problem
    refusal = refused.why(shape)
    if refusal:
        return "failed", refusal
    if shape.form == "csv":
        header = ", ".join(shape.columns[:8])
        return (
            "skipped",
            f"no billing, telemetry or inventory format has these columns: {header[:200]}{' …' if len(shape.columns) > 8 else ''}",
        )
    if shape.columns:
        return "skipped", f"no known format has these fields: {', '.join(map(str, shape.columns[:8]))[:200]}"
    return "skipped", "not a billing, telemetry, inventory, flow log or price file"


def _decoded_length(file: LandingFile, shape: Shape) -> int:
    """Length of the decoded content, from the gzip trailer without inflating it."""
    if shape.compression == "gzip" and file.size > 8:
        with file.path.open("rb") as stream:
            stream.seek(-4, 2)
            return int(struct.unpack("<I", stream.read(4))[0])
    return file.size


def _digest(file: LandingFile) -> str:
    """Of the file as it is: what is packed need not be unpacked for it. It tells a changed file, and guards against nobody."""
    with file.path.open("rb") as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()


def _decoded_digest(file: Recognised) -> str:
    digest = hashlib.sha256()
    try:
        with open_decoded(file.file.path, file.shape.compression) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        # A damaged file equals nothing; its readers say what is wrong with it.
        digest.update(f"{file.file.name} {error}".encode())
    return digest.hexdigest()
