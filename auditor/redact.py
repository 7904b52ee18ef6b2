"""A collected folder, or files as a client has them, made fit to be sent: nothing in it names an account or a person.

Account ids, names, tag values and addresses become others under a key (`auditor.pseudonyms`); what an audit reads beside
them stays as it was delivered: amounts, usage types, types and sizes of machines, regions, times, names of metrics. What
is not known to be public counts as private. The key never lies in the folder; who keeps it can send again and compare.
"""

import codecs
import csv
import gzip
import io
import json
import logging
import re
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Self, cast

import zstandard

from auditor import journal
from auditor.collect.local import gather
from auditor.errors import AuditorError, SettingsError, SourceError
from auditor.landing import LandingFile, Recognised, Shape
from auditor.normalise.inventory.slurm import expand
from auditor.normalise.look import open_decoded
from auditor.normalise.recognise import sort_files
from auditor.progress import Progress, step
from auditor.pseudonyms import Pseudonyms
from auditor.tagging import TagSettings

log = logging.getLogger(__name__)

_CHUNK = 1 << 20
_MARGIN = 64  # characters at a chunk's end that may belong to a number or to what follows a string
_KEY_BYTES = 32

KEEP, SCRUB, PRIVATE, OPAQUE, ADDRESS = "keep", "scrub", "private", "opaque", "address"

# A name's last word that says: figures, times, or one of the vendor's own words.
_PUBLIC_ENDS = re.compile(
    r"(?:cost|costs|amount|rate|price|prices|quantity|currency|currencycode|unit|units|date|time|timestamp|start|end|"
    r"category|subcategory|type|types|status|state|frequency|class|region|regions|zone|zones|location|country|usd|factor|"
    r"period|bytes|packets|port|protocol|count|term|version|lifecycle|mode|model|tier|scheme|plan|priority|level|family|"
    r"tenancy|code|codes)$"
)
# ... though these end so too: `account` in `count`, `backend` in `end`, a unit that is a department, codes and categories
# of the client's own.
_PRIVATE_ENDS = re.compile(
    r"(?:account|backend|frontend|friend|support|report|export|transport|passport|candidate|estate|allocation|corporate|"
    r"prototype|(?:post|postal|zip|pass|area)code|(?:business|organi[sz]ation(?:al)?)unit|costcategory|(?:cost|costcenter|project|department|team|customer)code)$"
)
_PUBLIC = frozenset(
    """
    action adjustmentinfomode alloctres amountinpricingunits armskuname azid capacity category chargeclass collocation columnsname
    connectivity consumedservice consumptionmodeldescription consumptionmodelid costatlist cpu creditstype dimensionsname
    direction domain elapsed elapsedraw engine flowdirection frequency granularity interval invoiceissuername invoicemonth
    isazurecrediteligible kind lifecyclestate logstatus locationname make meterid metername meter metric metricname mode
    modelname month namelocalizedvalue namespace namevalue normalizedunit offerid offeringid operation origin partnumber
    performanceunit pktdstawsservice pktsrcawsservice plan product productcode productname productid productsku provider
    providername publisher publishername purpose reason reporter resulttype runtime scheme service servicecategory
    servicedescription servicefamily serviceid serviceinfo servicename serviceprovidername servicesubcategory
    hostprovidername size sku skudescription skuid skumeter skuname skupriceid skupricedetails
    sourcesubnetworkiprangestonat stat statistic statename statecode strategy stringvalue taxtype tenancy timespan
    trafficpath transactiontype unitofmeasure usagetype valuetype vmsize xservicecode xskudetails xoperation legalentity
    lineitemlegalentity billbillingentity billinvoicingentity lineitemoperation identitytimeinterval memorystate
    machinespec regionname dataformat charset compression contenttype reservationmodificationstatus pricereason
    lineitemproductcode awsservice subnetworkpurpose type measurement resourcekind resourcetype imagetype
    """.split()
)
_PUBLIC_PREFIXES = (
    "product", "pricing", "discount", "reservationamortized", "reservationnumber", "reservationtotal", "reservationnet",
    "reservationunused", "reservationunits", "reservationnormalized", "savingsplansavingsplanrate", "savingsplantotal",
    "xskumeter", "xskudescription", "xpricing",
)  # fmt: skip
_NOT_PUBLIC = ("productorder", "productowner", "pricingplanowner")
# Free text of vendors that may hold an id of the client's.
_TEXTS = frozenset(
    """
    chargedescription lineitemlineitemdescription statetransitionreason creditsname creditsfullname adjustmentinfodescription
    hides fix what statusmessage servicenames
    """.split()
)
_OPAQUE = frozenset({"identitylineitemid", "insertid", "proxyuri", "fingerprint", "etag", "requestid"})
_PUBLIC_PARENTS = frozenset({"product", "discount", "skupricedetails", "systemlabels", "price"})
_PRIVATE_PARENTS = re.compile(
    r"(?:resource)?(?:tags?|tagset|labels?)|usertags|costcategor(?:y|ies)|taglist|annotations"
)
_TAG_COLUMNS = re.compile(r"resourcetags.+|costcategory.+|tags.+|labels.+")
_TAG_KEYS = frozenset({"key", "tagkey"})
_IDENTITY = re.compile(
    r"account|project|subscription|tenant|payer|owner|enrollment|customer|number|names?$|ids?$|device|disk$"
)
# Labels of a series are the client's own words (`namespace`, `service`, `job_type`), but for these of exporters and vendors.
_SERIES = frozenset({"metric", "labels", "metriclabels", "resourcelabels", "dimensions"})
_PUBLIC_LABELS = frozenset(
    """
    type storagetype availabilityzone filesystemtype modelname model gpumodel unit zone region location mode state status phase instancetype machinetype metricname
    topologykubernetesiozone topologykubernetesioregion nodekubernetesioinstancetype labeltopologykubernetesiozone
    labeltopologykubernetesioregion labelnodekubernetesioinstancetype labelnodekubernetesioinstancetypename
    """.split()
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# What makes even a public field hold something private: machine types and zones come as URLs with a project in them.
_TELLS = ("arn:", "/subscriptions/", "projects/", "@")
_NUMERIC = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_KEY_WITH_ID = re.compile(r"^/|arn:|(?<!\d)\d{12}(?!\d)|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}")


@dataclass(frozen=True)
class Redacted:
    """What became of the files: how many were rewritten, and which were left out, why."""

    files: int
    left_out: Sequence[tuple[str, str]]


def key_of(path: Path | None, folder: Path) -> bytes:
    """The key in a file, which is made where it is not there; a new one, which nobody keeps, without a file.

    Raises SettingsError where the file lies in the folder that is sent, or cannot be used.
    """
    if path is None:
        return secrets.token_bytes(_KEY_BYTES)
    if path.resolve().is_relative_to(folder.resolve()):
        raise SettingsError(f"--key {path}: lies in {folder}, which is to be sent; keep the key elsewhere")
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(_KEY_BYTES) + "\n", "ascii")
        key = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"--key {path}: cannot be used: {error}") from error
    if len(key) < 16:
        raise SettingsError(f"--key {path}: holds no key of 16 bytes or more, in hexadecimal")
    return key


def redact(
    paths: Iterable[str], folder: Path, key: bytes, progress: Progress, tags: TagSettings | None = None
) -> Redacted:
    """Writes what an audit reads of `paths` to `folder`, with other names. What cannot be redacted is left out.

    Raises SettingsError where the folder holds something already: what lies there may name somebody.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder} is not empty; redacted files go to a folder of their own")
    folder.mkdir(parents=True, exist_ok=True)
    names = Pseudonyms(key, tags)
    with tempfile.TemporaryDirectory(prefix="auditor-redact-") as spool:
        files, unopened = gather(paths, Path(spool))
        found = sort_files(files)
        left_out = [*unopened, *((each.file.name, each.reason) for each in found.unread)]
        journals = [each for each in found.recognised if each.kind == "journal"]
        sizes: dict[str, int] = {}
        with step(progress, "Redacting", sum(each.file.size for each in found.recognised)):
            for each in found.recognised:
                if each.kind == "journal":
                    continue
                target = folder / hidden_path(names, each.file.name)
                try:
                    told = _rewrite(each, target, names, Path(spool))
                    left_out += [(each.file.name, told)] if told else []
                    sizes[each.file.name] = target.stat().st_size
                except Exception as error:  # a file that is not understood is not sent
                    target.unlink(missing_ok=True)
                    reason = str(error) if isinstance(error, AuditorError) else f"{type(error).__name__}: {error}"
                    log.info("left out name=%s", each.file.name, exc_info=error)
                    left_out.append((each.file.name, f"cannot be redacted: {reason}"))
                progress.advance(each.file.size)
        for each in journals:
            _rewrite_journal(each.file, folder / hidden_path(names, each.file.name), names, sizes)
    return Redacted(len(sizes) + len(journals), left_out)


def hidden_path(names: Pseudonyms, name: str) -> str:
    """The file's name below the folder; members of an archive lie in a folder of its name."""
    if name.rpartition("/")[2] == journal.JOURNAL:
        head = name.rpartition("/")[0]
        return "/".join(part for part in (names.hide(head), journal.JOURNAL) if part)
    hidden = names.hide(name.replace("!", "/").lstrip("/"))
    return "/".join(part for part in hidden.split("/") if part not in ("", ".", ".."))


def _rewrite(file: Recognised, target: Path, names: Pseudonyms, spool: Path) -> str | None:
    """Writes one file; what is to be told of it, where it is damaged. Raises SourceError where it cannot be redacted."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        raise SourceError("two files would get the same name")
    form = file.shape.form
    if file.kind == "prices":
        shutil.copyfile(file.file.path, target)
    elif form == "parquet":
        _rewrite_parquet(file, target, names, spool)
    elif form == "avro":
        raise SourceError("Avro is not redacted; export the table as Parquet or JSON")
    elif form in ("json", "jsonl", "json_stream") or (form == "text" and file.shape.head.lstrip()[:1] in ("{", "[")):
        return _rewrite_json(file, target, names)
    elif file.format == "aws-vpc-flow-log-text":
        shape = replace(file.shape, delimiter=file.details["delimiter"], quote='"', skip_lines=0)
        return _rewrite_csv(
            replace(file, shape=shape), target, names, None if file.details["header"] else file.details["fields"]
        )
    elif form == "csv":
        return _rewrite_csv(file, target, names)
    else:
        raise SourceError(f"nobody knows how to redact a file of the form {form}")
    return None


@lru_cache(4096)
def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


@lru_cache(65536)
def policy(parent: str, key: str, kind: str) -> str:
    """What is done with the value of a key, or of a column (without a parent), in a file of this kind."""
    outer, inner = _plain(parent), _plain(key)
    if kind != "telemetry" and (_PRIVATE_PARENTS.fullmatch(outer) or (not outer and _TAG_COLUMNS.fullmatch(inner))):
        return KEEP if outer and inner in _TAG_KEYS else PRIVATE
    names = (inner, outer + inner)
    if inner == "flowtuples":
        return ADDRESS
    if inner in _OPAQUE:
        return OPAQUE
    if any(name in _TEXTS for name in names):
        return SCRUB
    return KEEP if _is_public(outer, key, inner, kind) else PRIVATE


def _is_public(outer: str, key: str, inner: str, kind: str) -> bool:
    if kind == "telemetry" and outer in _SERIES:
        return key == "__name__" or inner in _PUBLIC_LABELS or outer + inner == "dimensionsname"
    # a namespace is a word of the vendor's in metrics, and the client's in a cluster
    if _PRIVATE_ENDS.search(inner) or (inner == "namespace" and kind != "telemetry"):
        return False
    is_named = key == "__name__" or outer in _PUBLIC_PARENTS or inner in _PUBLIC or outer + inner in _PUBLIC
    is_of_vendor = not outer and inner.startswith(_PUBLIC_PREFIXES) and not inner.startswith(_NOT_PUBLIC)
    return is_named or is_of_vendor or _ends_publicly(key, inner)


def _ends_publicly(key: str, plain: str) -> bool:
    """Whether the last word says so; of a key whose words are run together, its last letters."""
    words = _WORDS.findall(key)
    return (
        _PUBLIC_ENDS.search(plain) is not None if len(words) < 2 else _PUBLIC_ENDS.match(words[-1].lower()) is not None
    )


def _value(names: Pseudonyms, parent: str, key: str, kind: str, text: str) -> str:
    """The text that stands for a value."""
    done = policy(parent, key, kind)
    if done == PRIVATE:
        return _private(names, key, kind, text)
    if done == OPAQUE:
        return names.opaque(text) if text else text
    if done == ADDRESS:
        return re.sub(r"\d{1,3}(?:\.\d{1,3}){3}", lambda found: names.hide(found[0]), text)
    return names.scrub(text) if done == SCRUB or any(each in text for each in _TELLS) else text


def _private(names: Pseudonyms, key: str, kind: str, text: str) -> str:
    if _NUMERIC.fullmatch(text):
        return _figure(names, key, kind, text)
    if _plain(key) == "nodelist" and "[" in text:
        return ",".join(names.hide(node) for node in expand(text)) or names.hide(text)
    stripped = text.lstrip()
    if stripped[:1] in ("{", "[") or (stripped[:1] == '"' and '":' in text.replace(" ", "")):
        return _text_in_cell(names, key, kind, text)
    return names.hide(text)


def _figure(names: Pseudonyms, key: str, kind: str, text: str) -> str:
    """A number is an id where its key says so, or where it is as long as one."""
    if not text.isdigit() or len(text) < 7:
        return text
    is_id = _IDENTITY.search(_plain(key)) is not None
    # elsewhere it may count bytes, of which nobody has 10^17
    longest = 18 if kind in ("telemetry", "flows", "figures") else 12
    return names.number(text) if is_id or len(text) >= longest else text


def _text_in_cell(names: Pseudonyms, key: str, kind: str, text: str) -> str:
    """JSON inside a cell, or what Azure writes there: pairs without their braces."""
    return "".join(_Rewriter(names, kind, key).feed(text, last=True))


# -- JSON -------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|"|[{}\[\]]|(?<![\w.+-])\d{7,}(?![\d.eE])', re.DOTALL)


class _Rewriter:
    """Rewrites the strings of JSON text of any size, and nothing else: figures stay to the last digit."""

    def __init__(self, names: Pseudonyms, kind: str, key: str = "") -> None:
        self._names = names
        self._kind = kind
        self._rest = ""
        self._stack: list[tuple[str, str]] = []
        # inside a cell: also pairs that have lost their braces belong to its column
        self._parent, self._key = key, key

    def feed(self, text: str, *, last: bool = False) -> Iterator[str]:
        text = self._rest + text
        at = 0
        for found in _TOKEN.finditer(text):
            if found[0] == '"' or (not last and found.end() > len(text) - _MARGIN):
                self._rest = text[found.start() :]
                yield text[at : found.start()]
                return
            yield text[at : found.start()]
            yield self._token(found)
            at = found.end()
        keep = len(text) if last else max(at, len(text) - _MARGIN)
        self._rest = text[keep:]
        yield text[at:keep]

    def _token(self, found: re.Match[str]) -> str:
        text = found[0]
        if text in ("{", "["):
            self._stack.append((self._parent, self._key))
            self._parent = self._key if text == "{" else self._parent
            return text
        if text in ("}", "]"):
            self._parent, self._key = self._stack.pop() if self._stack else ("", "")
            return text
        if text[0] != '"':
            return _figure(self._names, self._key, "figures", text)
        return self._named(text[: len(text) - len(found[1])]) + found[1] if found[1] else self._string(text)

    def _named(self, token: str) -> str:
        key = _parsed(token)
        self._key = key
        return _written(token, key, self._names.hide(key)) if _KEY_WITH_ID.search(key) else token

    def _string(self, token: str) -> str:
        text = _parsed(token)
        return _written(token, text, _value(self._names, self._parent, self._key, self._kind, text))


def _parsed(token: str) -> str:
    return token[1:-1] if "\\" not in token else str(json.loads(token, strict=False))


def _written(token: str, before: str, after: str) -> str:
    return token if before == after else json.dumps(after, ensure_ascii=False)


def _rewrite_json(file: Recognised, target: Path, names: Pseudonyms) -> str | None:
    rewriter = _Rewriter(names, file.kind)
    with _Sink(target, file.shape) as out:
        try:
            for chunk in _texts(file.file.path, file.shape):
                out.text.writelines(rewriter.feed(chunk))
        except _DAMAGE as error:
            out.text.writelines(rewriter.feed("", last=True))
            return out.cut(error)
        out.text.writelines(rewriter.feed("", last=True))
    return None


# -- CSV --------------------------------------------------------------------------------------------------------------


def _rewrite_csv(file: Recognised, target: Path, names: Pseudonyms, fields: Sequence[str] | None = None) -> str | None:
    """`fields` names the columns of a table that does not."""
    shape = file.shape
    csv.field_size_limit(1 << 30)
    lines = _lines(_texts(file.file.path, shape))
    with _Sink(target, shape) as out:
        try:
            for _ in range(shape.skip_lines):
                out.text.write(names.hide(next(lines, "")))
            _rewrite_rows(lines, out.text, names, file, fields)
        except _DAMAGE as error:
            return out.cut(error)
    return None


def _rewrite_rows(
    lines: Iterator[str], out: IO[str], names: Pseudonyms, file: Recognised, fields: Sequence[str] | None
) -> None:
    about: dict[str, Any] = {"delimiter": file.shape.delimiter, "quotechar": file.shape.quote or '"'}
    rows = csv.reader(lines, **about)
    sink = csv.writer(out, lineterminator="\n", **about)
    header = fields or next(rows, None)
    if header is None:
        return
    if fields is None:
        sink.writerow(header)
    hides = [_column(names, name, file.kind) for name in header]
    sink.writerows(
        [hide(cell) if cell else cell for hide, cell in zip([*hides, *[names.hide] * len(row)], row, strict=False)]
        for row in rows
    )


def _column(names: Pseudonyms, name: str, kind: str) -> Callable[[str], str]:
    if policy("", name, kind) == OPAQUE:
        return names.opaque
    return lru_cache(50_000)(lambda text: _value(names, "", name, kind, text))


# -- Parquet ----------------------------------------------------------------------------------------------------------


def _rewrite_parquet(file: Recognised, target: Path, names: Pseudonyms, spool: Path) -> None:
    """By way of tables of what stands for what, one a column, because a text of a bill stands in many rows."""
    import duckdb

    con = duckdb.connect(config={"memory_limit": "300MB", "temp_directory": str(spool / "duckdb"), "threads": 2})
    try:
        source = "read_parquet($path, file_row_number = true, hive_partitioning = false)"
        about = {"path": str(file.file.path)}
        columns = con.execute(f"describe select * exclude (file_row_number) from {source}", about).fetchall()
        joins, outputs = [], []
        for place, (name, type_, *_) in enumerate(columns):
            column = '"' + str(name).replace('"', '""') + '"'
            is_text, is_nested = type_ == "VARCHAR", any(mark in type_ for mark in "([")
            is_nested = is_nested and not type_.startswith("DECIMAL")
            done = policy("", str(name), file.kind)
            is_number = type_ in ("BIGINT", "HUGEINT", "INTEGER", "UBIGINT")
            if type_ in ("BLOB",) or (is_number and _IDENTITY.search(_plain(str(name)))):
                raise SourceError(f"column {name} is of the type {type_}")
            if done == OPAQUE and is_text:
                outputs.append(f"substr(sha256(unhex('{names.opaque_prefix}') || t.{column}::blob), 1, 32) as {column}")
            elif is_text or is_nested:
                text = f"t.{column}" if is_text else f"to_json(t.{column})::varchar"
                if is_nested:
                    _check_nested(con, source, about, column, type_)
                _learn(con, f"map_{place}", text, source, about, names, str(name), file.kind, spool)
                joins.append(f"left join map_{place} on map_{place}.given = {text}")
                made = f"map_{place}.made"
                outputs.append(f"{made if is_text else f'cast({made}::json as {type_})'} as {column}")
            else:
                outputs.append(f"t.{column}")
        con.execute(
            f"copy (select {', '.join(outputs)} from {source} t {' '.join(joins)} order by t.file_row_number) "
            f"to '{str(target).replace(chr(39), chr(39) * 2)}' (format parquet, compression zstd)",
            about,
        )
    except duckdb.Error as error:
        raise SourceError(f"Parquet: {str(error).splitlines()[0]}") from error
    finally:
        con.close()


def _check_nested(con: Any, source: str, about: dict[str, str], column: str, type_: str) -> None:
    """Raises SourceError where a nested value does not survive being written as JSON: no figure may change."""
    lost = con.execute(
        f"select count(*) from {source} t where cast(to_json(t.{column}) as {type_}) is distinct from t.{column}", about
    ).fetchone()
    if lost and lost[0]:
        raise SourceError(f"column {column} holds values that JSON cannot hold")


def _learn(
    con: Any,
    table: str,
    text: str,
    source: str,
    about: dict[str, str],
    names: Pseudonyms,
    name: str,
    kind: str,
    spool: Path,
) -> None:
    """A table of the column's distinct texts and what stands for them."""
    place = spool / f"{table}.jsonl"
    given = con.cursor().execute(f"select distinct {text} from {source} t where {text} is not null", about)
    longest = 1 << 20
    with place.open("w", encoding="utf-8") as lines:
        while batch := given.fetchmany(10_000):
            for (before,) in batch:
                after = _value(names, "", name, kind, before)
                line = json.dumps({"given": before, "made": after}) + "\n"
                longest = max(longest, len(line))
                lines.write(line)
    con.execute(
        f"create or replace temp table {table} as select given, made from read_json('{place}', format = "
        f"'newline_delimited', columns = {{given: 'VARCHAR', made: 'VARCHAR'}}, maximum_object_size = {longest})"
    )
    place.unlink()


# -- files ------------------------------------------------------------------------------------------------------------


_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError, UnicodeDecodeError)


def _texts(path: Path, shape: Shape) -> Iterator[str]:
    """A file's text. Raises one of _DAMAGE where it breaks off, after all that stands before."""
    decoder = codecs.getincrementaldecoder("utf-8-sig" if shape.encoding == "utf-8" else shape.encoding)()
    with open_decoded(path, shape.compression) as stream:
        # read1 hands over what it has before it meets the damage
        while chunk := cast(io.BufferedIOBase, stream).read1(_CHUNK):
            yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _lines(texts: Iterator[str]) -> Iterator[str]:
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


class _Sink:
    """Text as UTF-8, packed as it was; what breaks off does so here too, so that its reader is told."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._raw = path.open("wb")
        self._packed: Any = self._raw
        if shape.compression == "gzip":
            self._packed = gzip.GzipFile(filename="", fileobj=self._raw, mode="wb", compresslevel=6, mtime=0)
        elif shape.compression == "zstd":
            self._packed = zstandard.ZstdCompressor().stream_writer(self._raw, closefd=False)
        self.text = io.TextIOWrapper(self._packed, "utf-8", newline="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._raw.closed:
            self.text.close()
            self._raw.close()

    def cut(self, error: Exception) -> str:
        """Ends the file without its end; returns what is to be told."""
        self.text.flush()
        self._packed.flush()
        self.text.detach()
        if isinstance(self._packed, gzip.GzipFile):
            self._packed.fileobj = None  # type: ignore[assignment]  # which writes no trailer then
        self._raw.close()
        return f"is damaged ({error}); what stands before the damage was rewritten"


def _rewrite_journal(file: LandingFile, target: Path, names: Pseudonyms, sizes: dict[str, int]) -> None:
    """The journal of a collection, without what a later collection would need."""
    found = journal.read(file.path)
    if found is None:
        return
    head = file.name.rpartition("/")[0]

    def hidden(text: str | None) -> str | None:
        return None if text is None else names.hide(text)

    made = replace(found, source=names.hide(found.source))
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as out:
        out.write(journal.head_line(made))
        for entry in found.entries.values():
            full = f"{head}/{entry.name}" if head else entry.name
            if full in sizes:
                name = hidden_path(names, full).removeprefix(f"{names.hide(head)}/")
                out.write(
                    journal.entry_line(
                        replace(entry, name=name, size=sizes[full], account_id=hidden(entry.account_id), etag=None)
                    )
                )
        for problem in found.problems:
            kept = {part: names.scrub(getattr(problem, part)) for part in ("what", "reason", "hides")}
            fix = None if problem.fix is None else names.scrub(problem.fix)
            out.write(journal.problem_line(replace(problem, **kept, fix=fix, account_id=hidden(problem.account_id))))
        for use in found.usage:
            about = {
                "api": use.api,
                "calls": use.calls,
                "bytes": use.bytes,
                "money": use.money,
                "currency": use.currency,
            }
            out.write(journal.line("usage", about))
        if found.finished_at:
            out.write(journal.line("finished", {"at": found.finished_at}))
