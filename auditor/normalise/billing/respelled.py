"""Bills as JSON in other spellings than the vendor's own, written out as JSON lines in the vendor's.

A query's result may have the structs of Google's export as flat fields (`service.description`, `credits_amount`) or as
JSON text; a database may have turned `BilledCost` into `billed_cost`; PowerShell saves what a command prints as UTF-16.
The reader of JSON goes by exact names, so that without this such a field would be one that is not there.
"""

import ast
import codecs
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import zstandard

from auditor.errors import SourceError
from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.billing import focus_bill, gcp_export
from auditor.normalise.billing.source import canonical
from auditor.normalise.look import open_decoded

_BLOCK = 1 << 20
_BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")  # what stands around the objects of a list or of a stream
_CHILD = re.compile(r'"?(\w+)"? VARCHAR')

_GCP: dict[str, tuple[str, ...]] = {
    name: tuple(_CHILD.findall(kind)) if kind != "VARCHAR" else () for name, kind in gcp_export.JSON_COLUMNS.items()
}
_GCP_NAMES = {canonical(name): name for name in _GCP}
_GCP_FIELDS = {
    canonical(parent + child): (parent, child)
    for parent, children in _GCP.items()
    for child in children
    if parent not in ("labels", "system_labels") and canonical(parent + child) not in _GCP_NAMES
}
_FOCUS_NAMES = {canonical(name): name for name in focus_bill.JSON_COLUMNS}


def is_needed(family: str, shape: Shape) -> bool:
    """Whether a JSON bill of this family must be written out anew, by its encoding and its first object."""
    if shape.form not in ("jsonl", "json", "json_stream"):
        return False
    first = shape.sample[0] if isinstance(shape.sample, list) and shape.sample else shape.sample
    if not isinstance(first, Mapping):
        return False
    return shape.encoding != "utf-8" or any(_is_odd(family, str(name), value) for name, value in first.items())


def _is_odd(family: str, name: str, value: object) -> bool:
    plain = canonical(name)
    if family == "focus":
        return name not in focus_bill.JSON_COLUMNS and plain in _FOCUS_NAMES
    if family != "gcp":
        return False
    if name not in _GCP:
        return plain in _GCP_NAMES or plain in _GCP_FIELDS
    wanted = list if gcp_export.JSON_COLUMNS[name].endswith("[]") else dict
    return bool(_GCP[name]) and value is not None and not isinstance(value, wanted)


def to_json_lines(file: Recognised, spool: Path) -> Recognised:
    """The file as JSON lines in the spool. Raises SourceError where it breaks off or is no JSON."""
    spelled = _gcp if file.details["family"] == "gcp" else _focus
    target = spool / f"respelled-{file.file.path.name}.jsonl"
    done = 0
    try:
        with (
            open_decoded(file.file.path, file.shape.compression) as stream,
            target.open("w", encoding="utf-8") as out,
        ):
            for row in _objects(stream, file.shape.encoding):
                out.write(json.dumps(spelled(row)) + "\n")
                done += 1
    except (ValueError, EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        raise SourceError(
            f"{file.file.name}: the JSON is damaged or cut off after {done:,} rows ({error}); ask for the file again"
        ) from error
    return replace(
        file,
        file=LandingFile(target, file.file.name, target.stat().st_size),
        shape=replace(file.shape, form="jsonl", compression="none", encoding="utf-8", sample={}, head=""),
    )


def _objects(stream: IO[bytes], encoding: str) -> Iterator[dict[str, Any]]:
    """The objects of a list, of lines or of a stream, with every digit of their numbers. Raises ValueError at what is none."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    reader = codecs.getreader(encoding)(stream)
    text, at, is_over = "", 0, False
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError:
            if is_over:
                if at < len(text):
                    raise
                return
            more = reader.read(_BLOCK)
            text, at, is_over = text[at:] + more, 0, not more
            continue
        if not isinstance(found, dict):
            raise json.JSONDecodeError(f"a row is no object but {str(found)[:40]!r}", text, at)
        yield found


def _focus(row: Mapping[str, Any]) -> dict[str, Any]:
    return {_FOCUS_NAMES.get(canonical(name), name): value for name, value in row.items()}


def _gcp(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with Google's own nesting; a field of its own yields to the struct that has it too."""
    made: dict[str, Any] = {}
    fields: dict[str, dict[str, Any]] = {}
    for name, value in row.items():
        plain = canonical(name)
        if plain in _GCP_NAMES:
            column = _GCP_NAMES[plain]
            made[column] = _nested(column, value) if _GCP[column] else value
        elif plain in _GCP_FIELDS and value not in (None, ""):
            parent, child = _GCP_FIELDS[plain]
            fields.setdefault(parent, {})[child] = value
    for parent, found in fields.items():
        if gcp_export.JSON_COLUMNS[parent].endswith("[]"):
            if made.get(parent) is None:
                made[parent] = [found]
        else:
            made[parent] = found | {k: v for k, v in (made.get(parent) or {}).items() if v is not None}
    return made


def _nested(column: str, value: object) -> object:
    """A struct or a list of structs, from its text where it is one; a plain number is the sum of the credits."""
    is_list = gcp_export.JSON_COLUMNS[column].endswith("[]")
    if isinstance(value, str):
        value = _parsed(value)
    if is_list:
        plain = column == "credits" and value is not None and not isinstance(value, list)
        return [{"amount": str(value)}] if plain else value if isinstance(value, list) else None
    if isinstance(value, str):
        return {gcp_export.SAID_ALONE[column]: value} if column in gcp_export.SAID_ALONE else None
    return value if isinstance(value, dict) else None


def _parsed(text: str) -> object:
    """What a JSON text, or what Python prints of it, says; the text itself where it is neither."""
    if not text.strip():
        return None
    if text.lstrip()[0] not in "{[":
        return text
    try:
        return json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
