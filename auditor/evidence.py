"""Finds the very lines of the bill behind a finding again, by what the finding says: nothing points at lines.

The files are recognised, grouped and opened as a scan does it; only the lines in question leave DuckDB.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from auditor.assets import room
from auditor.collect.local import gather
from auditor.detect.rule import load_rules
from auditor.errors import SourceError
from auditor.finding import Finding
from auditor.focus import CLASSIFICATION_KEYS
from auditor.lake import store
from auditor.normalise import classify
from auditor.normalise.billing import deliveries, formats, manifests, salvage, source
from auditor.normalise.billing.deliveries import Delivery
from auditor.normalise.recognise import sort_files

# Keys of the mappings that name what a line is about: a resource, or the commitment or reservation that pays for it.
_SUBJECTS = (
    "resource_id",
    "savings_plan",
    "reservation",
    "reservation_id",
    "capacity_reservation",
    "subscription",
    "f_ResourceId",
    "f_CommitmentDiscountId",
    "f_CapacityReservationId",
)


@dataclass(frozen=True)
class BillRow:
    """One line of a bill as it was delivered: `line` has its headers and its values, empty ones left out.

    The costs are those of the line alone: what a commitment's fee adds to it, where only all lines together tell, is
    not in them.
    """

    file: str
    format: str
    start: datetime | None
    usage_kind: str
    billed_cost: Decimal
    effective_cost: Decimal
    currency: str | None
    line: Mapping[str, Any]


@dataclass(frozen=True)
class BillRows:
    """The first lines by time, how many there are in all, and what could not be read."""

    rows: tuple[BillRow, ...]
    total: int
    unread: tuple[str, ...] = ()


def bill_rows(paths: Sequence[str], finding: Finding, limit: int = 20, rules_dirs: Iterable[Path] = ()) -> BillRows:
    """The lines of the bills under `paths` that a finding's cost consists of, of every export that has them.

    Raises SettingsError for a path that does not exist.
    """
    kinds = _cost_line(finding.rule_id, rules_dirs)
    rows: list[BillRow] = []
    total, unread = 0, []
    with tempfile.TemporaryDirectory(prefix="auditor-", ignore_cleanup_errors=True) as scratch:
        spool = Path(scratch)
        files, failed = gather(paths, spool)
        unread += [f"{name}: {reason}" for name, reason in failed]
        found = sort_files(files).recognised
        parsed = [manifests.parse(file) for file in found if file.kind == "manifest"]
        current, _ = deliveries.group([file for file in found if file.kind == "billing"], parsed)
        with closing(store.connect(None, None, spool)) as con:
            for delivery in current:
                if delivery.provider not in (None, finding.provider):
                    continue
                try:
                    found_rows, count = _rows_of(con, delivery, finding, kinds, limit, spool)
                except (duckdb.Error, SourceError) as error:
                    unread.append(f"{delivery.names[0]}: cannot be read: {str(error).splitlines()[0]}")
                    continue
                rows += found_rows
                total += count
    rows.sort(key=lambda row: (row.start or datetime.min.replace(tzinfo=UTC), row.file))
    return BillRows(tuple(rows[:limit]), total, tuple(unread))


def _cost_line(rule_id: str, rules_dirs: Iterable[Path]) -> tuple[str, ...]:
    """Usage kinds that the rule's cost consists of; none where every charge of the resource counts."""
    for rule in load_rules([room("rules"), *rules_dirs]):
        if rule_id in (rule.id, *rule.was):
            return rule.cost_line
    return ()


def _rows_of(
    con: duckdb.DuckDBPyConnection,
    delivery: Delivery,
    finding: Finding,
    kinds: Sequence[str],
    limit: int,
    spool: Path,
) -> tuple[list[BillRow], int]:
    module = formats.MODULES[delivery.family]
    con.execute(source.MACROS)
    con.execute(getattr(module, "MACROS", "") or "select 1")
    con.execute("drop table if exists csv_rejects; drop table if exists csv_rejects_scan")
    files, _ = salvage.readable(delivery.files, spool)
    if not files:
        raise SourceError("none of its files can be read")
    opened = source.open_source(con, "bill", files, spool, formats.JSON_COLUMNS.get(delivery.family))
    _pick_lines(con, module, opened, delivery, finding)
    con.execute(f"create or replace temp table evidence_focus as {module.rows('evidence_lines')}")
    _classify(con)
    where, values = _scope(finding, kinds)
    # one line may become several FOCUS rows; those that stand for no line of their own bear the number 0
    picked = f"""
        from evidence_focus as f
        join evidence_classes as c on {" and ".join(f"coalesce(f.{key}::varchar, '') = c.{key}" for key in CLASSIFICATION_KEYS if key != "provider")}
            and f.provider = c.provider
        where f.source_rows > 0 and {where}
    """
    counted = con.execute(f"select count(distinct f.source_rows) {picked}", values).fetchone()
    found = con.execute(
        f"""
        with picked as (
            select f.source_rows as line, min(f.start_at) as start_at, min(c.usage_kind) as usage_kind,
                sum(f.BilledCost) as billed, sum(f.EffectiveCost) as effective, min(f.BillingCurrency) as currency
            {picked}
            group by f.source_rows order by start_at, line limit {int(limit)}
        )
        select picked.start_at, picked.usage_kind, picked.billed, picked.effective, picked.currency, l.raw
        from picked join evidence_lines as l on l.source_rows = picked.line order by picked.start_at, picked.line
        """,
        values,
    ).fetchall()
    for table in ("evidence_lines", "evidence_focus", "evidence_classes"):
        con.execute(f"drop table {table}")
    name = delivery.names[0] + (f" and {len(delivery.names) - 1} more files" if len(delivery.names) > 1 else "")
    rows = [
        BillRow(
            name,
            f"{delivery.format} {delivery.role}" if delivery.role else delivery.format,
            start.replace(tzinfo=UTC) if start else None,
            kind,
            billed,
            effective,
            currency,
            _as_written(json.loads(raw), opened.headers),
        )
        for start, kind, billed, effective, currency, raw in found
    ]
    return rows, int(counted[0]) if counted else 0


def _pick_lines(
    con: duckdb.DuckDBPyConnection, module: Any, opened: source.Source, delivery: Delivery, finding: Finding
) -> None:
    """`evidence_lines`: lines of the finding's window (and resources) with what the mapping to FOCUS reads, and whole as JSON."""
    keys: dict[str, str] = module.keys(opened)
    start, end = keys.pop("start_at"), keys.pop("end_at", "null::timestamp")
    keys.setdefault("hourly", "false")
    keys.setdefault("bill_day", f"({start})::date")
    columns = {**keys, **module.measures(opened, net=_is_net(con, module, opened))}
    selected = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    subjects = ", ".join(f"lower({keys[name]})" for name in _SUBJECTS if name in keys)
    wanted = _resources(finding)
    same_resource = "list_has_any($wanted, subjects)"
    if finding.provider == "aws":
        # a bill may write the ARN of what the finding calls by its last part
        same_resource += " or list_has_any($wanted, list_transform(subjects, lambda x: split_part(x, '/', -1)))"
    values: dict[str, Any] = {
        "start": _naive(finding.window_start),
        "end": _naive(finding.window_end),
        "role": delivery.role,
    }
    if wanted:
        values["wanted"] = wanted
    con.execute(
        f"""
        create or replace temp table evidence_lines as
        with lines as (
            select {selected}, {start} as start_at, {end} as end_at, [{subjects}] as subjects, to_json(bill)::varchar as raw
            from {opened.relation} as bill
        )
        select * exclude (subjects), $role::varchar as basis, row_number() over () as source_rows
        from lines
        where start_at < $end and coalesce(end_at, start_at + interval 1 hour) > $start and {f"({same_resource})" if wanted else "true"}
        """,
        values,
    )


def _is_net(con: duckdb.DuckDBPyConnection, module: Any, opened: source.Source) -> bool:
    """Whether a scan takes the net columns of this bill."""
    condition = module.is_net(opened) if hasattr(module, "is_net") else None
    found = con.execute(f"select {condition} from {opened.relation}").fetchone() if condition else None
    return bool(found and found[0])


def _classify(con: duckdb.DuckDBPyConnection) -> None:
    have = {row[0] for row in con.execute("describe evidence_focus").fetchall()}
    keys = ", ".join(
        f"coalesce({name}::varchar, '') as {name}" if name in have else f"'' as {name}" for name in CLASSIFICATION_KEYS
    )
    for name in CLASSIFICATION_KEYS:
        if name not in have:
            con.execute(f"alter table evidence_focus add column {name} varchar")
    con.execute(f"create or replace temp table evidence_keys as select distinct {keys} from evidence_focus")
    classify.classify(con, "evidence_keys", "evidence_classes")
    con.execute("drop table evidence_keys")


def _scope(finding: Finding, kinds: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """What the FOCUS rows must be, as SQL and its values. Rows of named resources need no further scope."""
    tests, values = ["f.provider = $provider"], {"provider": finding.provider}
    conditions: list[tuple[str, str, Any]] = [("c.usage_kind", "kinds", list(kinds))] if kinds else []
    if not _resources(finding):
        conditions += [
            (column, name, [value])
            for column, name, value in (
                ("f.SubAccountId", "account", finding.sub_account_id),
                ("f.RegionId", "region", finding.region_id),
                ("f.ServiceName", "service", finding.service_name),
            )
            if value
        ]
    for column, name, wanted in conditions:
        tests.append(f"list_contains(${name}, {column})")
        values[name] = wanted
    return " and ".join(tests), values


def _resources(finding: Finding) -> list[str]:
    """The finding's resource, else the members of its job or cluster, in lower case."""
    if finding.resource_id:
        return [finding.resource_id.lower()]
    members = finding.evidence.get("members")
    return [str(member).lower() for member in members] if isinstance(members, list | tuple) else []


def _as_written(line: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    def filled() -> Iterator[tuple[str, Any]]:
        for name, value in line.items():
            if value not in (None, "", [], {}):
                yield headers.get(name, name), value

    return dict(filled())


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
