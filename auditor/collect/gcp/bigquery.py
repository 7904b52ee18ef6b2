"""The billing export in BigQuery, fetched by partition.

Rows of tables are read by tabledata.list, which costs nothing; only a view must be queried. Charges are only ever added,
and late ones land in the partition of the day they were exported, so that a partition which has not changed need not be
read again. Each partition's rows are put down by billing period: a period is whole in its folder, and goes as a whole.
"""

import gzip
import hashlib
import json
import logging
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from typing import IO, Any, TypeVar

import google.api_core.exceptions
from google.api_core.client_options import ClientOptions
from google.cloud import bigquery
from google.cloud.bigquery import DatasetReference, QueryJobConfig, SchemaField, Table, TableReference
from google.cloud.bigquery.retry import DEFAULT_RETRY

from auditor.collect.gcp.rest import Google
from auditor.collect.gcp.rows import period_of, reader
from auditor.collect.gcp.words import explain, from_client
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError
from auditor.settings import GcpSource

log = logging.getLogger(__name__)

_T = TypeVar("_T")
# older projects belong to a domain: example.com:project
_DATASET = re.compile(r"(?P<project>(?:[^:]+\.[^:]+:)?[^:.]+)[.:](?P<dataset>\w+)")
# What the console names them; the rest of the name is the billing account. Detailed before standard, FOCUS last.
KINDS = ("gcp_billing_export_resource_v1_", "gcp_billing_export_v1_", "gcp_billing_export_focus_")
# On-demand price of a TiB read by queries in the US multi-region; https://cloud.google.com/bigquery/pricing
_PRICE_PER_TIB = Decimal("6.25")
_TIB = 2**40
_LEAST_BYTES = 10 * 2**20  # billed of each table that a query refers to (same page)
_RETRY = DEFAULT_RETRY.with_timeout(180)
_TIMEOUT = 120.0
_SETTLED = timedelta(days=15)  # after a period's end: by then the invoice is out and late charges have come
# A row takes some 30 kB once it is parsed: of more or longer pages at once the memory would not be bounded.
_ROWS_A_PAGE = 8000
_SUMMARY = (SchemaField("partition_id", "STRING"), SchemaField("last_modified_time", "INTEGER"))


@dataclass(frozen=True)
class Export:
    """The data set of a source, and how to ask for it."""

    source: GcpSource
    google: Google

    @cached_property
    def dataset(self) -> DatasetReference:
        found = _DATASET.fullmatch(str(self.source.billing_dataset))
        if found is None:
            raise SourceError(
                f"billing_dataset {self.source.billing_dataset!r}: wanted PROJECT.DATASET, as BigQuery names it"
            )
        return DatasetReference(found["project"], found["dataset"])

    @cached_property
    def client(self) -> bigquery.Client:
        options = ClientOptions(api_endpoint=self.google.endpoint_url) if self.google.endpoint_url else None
        project = self.google.project or self.dataset.project  # queries are billed to the one who asks
        return bigquery.Client(project, self.google.credentials, client_options=options)

    def ask(self, name: str, call: Callable[[], _T]) -> _T:
        """One call of the client, booked under its name in the table of calls. Raises Refused."""
        made = self.google.book(name)
        try:
            return call()
        except google.api_core.exceptions.RetryError as error:
            cause = error.cause
            if isinstance(cause, google.api_core.exceptions.GoogleAPICallError):
                raise from_client(made, cause) from error
            raise
        except google.api_core.exceptions.GoogleAPICallError as error:
            raise from_client(made, error) from error

    def tables(self) -> list[str]:
        """The tables to read: the one configured, else those of the most detailed kind that is there."""
        if self.source.billing_table:
            return [self.source.billing_table]
        listed = self.client.list_tables(self.dataset, retry=_RETRY, timeout=_TIMEOUT)
        names = [item["tableReference"]["tableId"] for page in self.pages(listed, "bigquery.tables.list")
                 for item in page.get("tables", ())]  # fmt: skip
        for kind in KINDS:
            found = sorted(name for name in names if name.startswith(kind))
            if found:
                return found
        raise SourceError(
            f"the data set {self.dataset} holds no billing export: switch on the detailed usage cost export under "
            "Billing, Billing export; the first rows come within a day"
        )

    def table(self, name: str) -> Table:
        reference = TableReference(self.dataset, name)
        return self.ask("bigquery.tables.get", lambda: self.client.get_table(reference, retry=_RETRY, timeout=_TIMEOUT))

    def pages(self, rows: Any, name: str) -> Iterator[Mapping[str, Any]]:
        """The pages of a client's list as the API delivered them, each booked before it is asked for."""
        pages = rows.pages
        while True:
            page = self.ask(name, lambda: next(pages, None))
            if page is None:
                return
            yield page.raw_page
            if not rows.next_page_token:
                return

    def read(self, table: Table, suffix: str = "", fields: Sequence[SchemaField] | None = None) -> Any:
        """The rows of a table, or of what a decorator such as `$20261101` narrows it to, not asked for yet."""
        schema = list(fields or table.schema)
        narrowed = Table(TableReference(self.dataset, table.table_id + suffix), schema=schema)
        return self.client.list_rows(
            narrowed, selected_fields=fields, page_size=_ROWS_A_PAGE, retry=_RETRY, timeout=_TIMEOUT
        )

    def partitions(self, table: Table) -> dict[str, str]:
        """Partition id -> when it last changed (milliseconds), from the table's own summary: free, unlike a query.

        Rows that still wait for their partition (`__UNPARTITIONED__`) are left to the next collection.
        """
        if table.time_partitioning is None and table.range_partitioning is None:
            return {"": str(int((table.modified or datetime.now(UTC)).timestamp() * 1000))}
        found = {}
        for page in self.pages(self.read(table, "$__PARTITIONS_SUMMARY__", _SUMMARY), "bigquery.tabledata.list"):
            for row in page.get("rows", ()):
                identity, modified = (cell["v"] for cell in row["f"])
                found[str(identity)] = str(modified)
        found.pop("__UNPARTITIONED__", None)
        return found


def account_of(table: str) -> str | None:
    """The billing account that an export's table is named for, as 0A1B2C-3D4E5F-6A7B8C."""
    for kind in KINDS:
        if table.startswith(kind):
            return table.removeprefix(kind).replace("_", "-")
    return None


def collect(source: GcpSource, collection: Collection, google_: Google) -> list[str]:
    """Fetches the billing periods wanted; returns the names of the tables."""
    export = Export(source, google_)
    tables: list[str] = []
    find = Task("billing", "bigquery:tables.list", "all charges of the export", lambda: tables.extend(export.tables()))
    collection.attempt(find, explain)
    for name in tables:
        fetch = partial(_fetch, export, name, collection)
        collection.attempt(Task("billing", "bigquery:tables.get", f"all charges of the table {name}", fetch), explain)
    return tables


def _fetch(export: Export, name: str, collection: Collection) -> None:
    table = export.table(name)
    _drop_old(table, collection)
    if table.table_type == "TABLE":
        _fetch_partitions(export, table, collection)
    else:
        _fetch_view(export, table, collection)


def oldest_month(collection: Collection) -> date:
    """The first day of the oldest billing period wanted."""
    months = collection.now.year * 12 + collection.now.month - collection.months
    return date(months // 12, months % 12 + 1, 1)


def _home(table: Table) -> str:
    return f"billing/{table.dataset_id}/{table.table_id}"


def _drop_old(table: Table, collection: Collection) -> None:
    """Drops the periods that are no longer wanted, whole: part of a period would be a wrong bill."""
    first = f"{oldest_month(collection):%Y%m}"
    names = [name for name, entry in collection.folder.entries.items()
             if name.startswith(_home(table) + "/") and (entry.period or first) < first]  # fmt: skip
    collection.folder.drop(names)


def _fetch_partitions(export: Export, table: Table, collection: Collection) -> None:
    oldest = oldest_month(collection)
    # A partition is a day of export in UTC, a bill's month begins at midnight in California: a day earlier misses nothing.
    first = f"{oldest - timedelta(days=1):%Y%m%d}"
    partitions = export.partitions(table)
    wanted = {one: at for one, at in partitions.items() if not one[:8].isdigit() or one[:8] >= first[: len(one[:8])]}
    changed = {one: at for one, at in wanted.items() if not _is_here(table, one, at, oldest, collection)}
    log.info("billing table=%s partitions=%d changed=%d", table.table_id, len(wanted), len(changed))
    _forget(table, partitions, collection)
    gate = threading.Lock()  # one page at a time: what takes time is the parsing, which threads do not share

    def task(identity: str, modified: str) -> Task:
        hides = f"charges exported on {identity}" if identity else "all charges of the table"
        run = partial(_fetch_partition, export, table, identity, modified, collection, gate)
        return Task("billing", "bigquery:tabledata.list", hides, run)

    collection.each((task(one, at) for one, at in sorted(changed.items())), explain)


def _mark(table: Table, partition: str) -> str:
    return f"{_home(table)}${partition}"


def _is_here(table: Table, partition: str, modified: str, oldest: date, collection: Collection) -> bool:
    """Whether a partition lies here as it is now, with all the periods wanted of it."""
    mark = collection.folder.mark(_mark(table, partition))
    if mark is None or mark["modified"] != modified or mark["oldest"] > f"{oldest:%Y%m}":
        return False
    return all(
        collection.folder.holds(_name(table, period, partition), modified)
        for period in mark["periods"]
        if period >= f"{oldest:%Y%m}"
    )


def _name(table: Table, period: str, partition: str) -> str:
    return f"{_home(table)}/{period}/{_file(partition)}"


def _file(partition: str) -> str:
    """A name of the form that BigQuery's own extracts have: numbered parts of one run, which share no rows."""
    return f"charges-{(partition if partition.isdigit() else '').zfill(12)}.jsonl.gz"


def _forget(table: Table, partitions: Iterable[str], collection: Collection) -> None:
    """Drops what the table no longer has, such as the partition of rows that have moved."""
    files = {_file(partition) for partition in partitions}
    gone = []
    for name in collection.folder.entries:
        period, _, file = name.rpartition("/")
        if period.rpartition("/")[0] == _home(table) and file not in files:
            gone.append(name)
    collection.folder.drop(gone)


def _fetch_partition(
    export: Export,
    table: Table,
    partition: str,
    modified: str,
    collection: Collection,
    gate: threading.Lock,
) -> None:
    oldest = f"{oldest_month(collection):%Y%m}"
    with gate, _Sorter(collection, oldest) as sorter:
        rows = export.read(table, f"${partition}" if partition else "")
        sorter.take(export, rows, table.schema)
        periods = sorter.put(table, partition, modified)
    before = collection.folder.mark(_mark(table, partition)) or {"periods": []}
    gone = {_name(table, period, partition) for period in before["periods"] if period not in periods}
    collection.folder.drop(gone & set(collection.folder.entries))
    collection.folder.set_mark(
        _mark(table, partition), {"modified": modified, "oldest": oldest, "periods": sorted(periods)}
    )


class _Sorter:
    """Rows on their way from pages to files, one file a billing period; they wait in files without names."""

    def __init__(self, collection: Collection, oldest: str) -> None:
        self._collection = collection
        self._oldest = oldest
        self._stack = ExitStack()
        self._files: dict[str, IO[bytes]] = {}
        self._packers: dict[str, gzip.GzipFile] = {}

    def __enter__(self) -> "_Sorter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self, export: Export, rows: Any, schema: Sequence[SchemaField]) -> None:
        read = reader(schema)
        for page in export.pages(rows, "bigquery.tabledata.list"):
            rows_ = page.get("rows", [])
            size = sum(self._keep(read(row)) for row in rows_)
            rows_.clear()  # the client holds on to the page while it asks for the next
            export.google.book("bigquery.tabledata.list", calls=0, bytes_=size)
            self._collection.progress.advance(size)

    def _keep(self, row: Mapping[str, Any]) -> int:
        """Writes a row where its period is wanted; returns its size."""
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        period = period_of(row)
        if period >= self._oldest:
            self._packer(period).write(line)
        return len(line)

    def _packer(self, period: str) -> gzip.GzipFile:
        if period not in self._packers:
            self._files[period] = self._stack.enter_context(tempfile.TemporaryFile(dir=self._collection.spool))  # noqa: SIM115
            # without a clock in its header, the same rows are the same file
            self._packers[period] = gzip.GzipFile(fileobj=self._files[period], mode="wb", compresslevel=6, mtime=0)
        return self._packers[period]

    def put(self, table: Table, partition: str, modified: str) -> set[str]:
        """Puts the files down under their names, now that all rows have come; returns the periods."""
        for period, packer in self._packers.items():
            packer.close()
            self._files[period].seek(0)
            self._collection.folder.write(
                _name(table, period, partition),
                iter(partial(self._files[period].read, 1 << 20), b""),
                kind="billing",
                now=self._collection.now,
                account_id=account_of(table.table_id),
                period=period,
                etag=modified,
            )
        return set(self._packers)


def _fetch_view(export: Export, table: Table, collection: Collection) -> None:
    """Queries a view for the periods that may have changed; refuses where the dry run tells of more than the caps allow."""
    periods = _periods(collection)
    mark = collection.folder.mark(_home(table)) or {"version": None, "fetched": {}}
    open_ = [one for one in periods if not _is_settled(table, one, mark["fetched"], collection)]
    if not open_:
        return
    sql = f"select * from `{table.project}.{table.dataset_id}.{table.table_id}` where {_since(table, open_[0])}"
    estimate = export.ask(
        "bigquery.jobs.query",
        lambda: export.client.query(sql, QueryJobConfig(dry_run=True, use_query_cache=False), timeout=_TIMEOUT),
    )
    version = _version(export, table, estimate.referenced_tables)
    if mark["version"] == version and all(_lies_here(table, one, mark["fetched"], collection) for one in open_):
        return
    bytes_ = int(estimate.total_bytes_processed or 0)
    bound = max(bytes_ + bytes_ // 10, _LEAST_BYTES * max(1, len(estimate.referenced_tables)))
    log.info("billing view=%s since=%s bytes=%d", table.table_id, open_[0], bytes_)
    export.google.book(
        "bigquery.jobs.query", calls=0, bytes_=bytes_, money=(_PRICE_PER_TIB * bound / _TIB).quantize(Decimal("1e-6"))
    )
    with _Sorter(collection, open_[0]) as sorter:
        rows = export.ask("bigquery.jobs.query", lambda: _result(export, sql, bound))
        sorter.take(export, rows, rows.schema)
        found = sorter.put(table, "", version)
    gone = [_name(table, one, "") for one in open_ if one not in found]
    collection.folder.drop(set(gone) & set(collection.folder.entries))
    fetched = {one: at for one, at in mark["fetched"].items() if one in periods}
    fetched |= {one: {"at": collection.now.isoformat(), "empty": one not in found} for one in open_}
    collection.folder.set_mark(_home(table), {"version": version, "fetched": fetched})


def _result(export: Export, sql: str, most_bytes: int) -> Any:
    job = export.client.query(
        sql, QueryJobConfig(maximum_bytes_billed=most_bytes), retry=_RETRY, timeout=_TIMEOUT, job_retry=None
    )
    return job.result(page_size=_ROWS_A_PAGE, retry=_RETRY, timeout=1800, job_retry=None)


def _periods(collection: Collection) -> list[str]:
    first = oldest_month(collection)
    months = (first.year * 12 + first.month - 1 + step for step in range(collection.months))
    return [f"{month // 12:04}{month % 12 + 1:02}" for month in months]


def _since(table: Table, period: str) -> str:
    """The condition of a query on the first period wanted, with the column's own type."""
    fields = {field.name: field for field in table.schema}
    day = f"{period[:4]}-{period[4:]}-01"
    if "BillingPeriodStart" in fields:
        kind = fields["BillingPeriodStart"].field_type
        return f"BillingPeriodStart >= {kind if kind in ('DATE', 'DATETIME') else 'TIMESTAMP'} '{day}'"
    if "invoice" not in fields:
        raise SourceError(
            f"the view {table.table_id} has neither BillingPeriodStart nor invoice: it is no billing export"
        )
    return f"invoice.month >= '{period}'"


def _lies_here(table: Table, period: str, fetched: Mapping[str, Any], collection: Collection) -> bool:
    told = fetched.get(period)
    return told is not None and (told["empty"] or _name(table, period, "") in collection.folder.entries)


def _is_settled(table: Table, period: str, fetched: Mapping[str, Any], collection: Collection) -> bool:
    """Whether a period was fetched after its invoice: it is not paid for again."""
    if not _lies_here(table, period, fetched, collection):
        return False
    end = datetime(int(period[:4]) + int(period[4:]) // 12, int(period[4:]) % 12 + 1, 1, tzinfo=UTC)
    return datetime.fromisoformat(fetched[period]["at"]) >= end + _SETTLED


def _version(export: Export, table: Table, references: Iterable[TableReference]) -> str:
    """What a view's rows depend on: its own text, and when the tables under it last changed."""
    parts = [str(table.etag), table.view_query or ""]
    for reference in sorted(references, key=str):
        found = export.ask(
            "bigquery.tables.get",
            partial(export.client.get_table, reference, retry=_RETRY, timeout=_TIMEOUT),
        )
        parts.append(f"{reference}@{found.modified}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
