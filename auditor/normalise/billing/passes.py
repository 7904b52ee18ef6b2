"""The passes over a bill's lines: first which keys there are, then what the lines of each key and slot add up to.

A bill of millions of lines has tens of thousands of keys. A line's key is the hash of the columns that decide it, so that the
pass that adds up carries numbers only; the columns themselves are read once for each key.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import duckdb

from auditor.normalise.billing.source import Source, quote

log = logging.getLogger(__name__)

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_]*)""")
_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}
# What one pass holds of the columns of its keys cannot be put aside, so very many keys are read in several passes.
_SHARES = (1, 8, 64)


@dataclass(frozen=True)
class Lines:
    """What is read of one line: SQL over the source, by name."""

    start: str
    end: str
    bill_day: str
    keys: Mapping[str, str]
    measures: Mapping[str, str]


def lines(module: object, opened: Source, *, net: bool) -> Lines:
    keys: dict[str, str] = module.keys(opened)  # type: ignore[attr-defined]
    measures: dict[str, str] = module.measures(opened, net=net)  # type: ignore[attr-defined]
    start, end = keys.pop("start_at"), keys.pop("end_at", "null::timestamp")
    keys.setdefault("hourly", "false")
    return Lines(start, end, keys.pop("bill_day", f"({start})::date"), keys, measures)


def mentioned(expressions: Iterable[str], columns: Mapping[str, str]) -> list[str]:
    """Columns of the source that the SQL reads, in the source's order."""
    found = set()
    for quoted, bare in chain.from_iterable(_TOKEN.findall(sql) for sql in expressions):
        found.add(quoted.replace('""', '"') or bare)
    return [name for name in columns if name in found]


def add_up(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines) -> None:
    """Tables `bill_keys`, one row a key, and `bill_facts`, one row a key and slot with the sums of its lines.

    A slot is a day; an hour for what is kept by the hour; the line's own time where it is longer than its slot.
    """
    marks = _marks(opened, read)
    _find_keys(con, opened, marks)
    _add_up(con, opened, read, marks)


@dataclass(frozen=True)
class _Marks:
    """SQL of what tells a line's key: two hashes of it, and the columns that decide it in one value.

    `named` are the keys' SQL over these columns. Keys that read a column which differs from line to line, as the time, are
    worked out on every line instead: they are its month only, say.
    """

    key_hash: str
    other_hash: str
    columns: str
    named: Mapping[str, str]


def _marks(opened: Source, read: Lines) -> _Marks:
    varying = set(mentioned([read.start, read.end, read.bill_day, *read.measures.values()], opened.columns))
    raw: dict[str, None] = {}
    computed = {}
    for name, sql in read.keys.items():
        columns = mentioned([sql], opened.columns)
        if varying.intersection(columns):
            computed[name] = sql
        else:
            raw.update(dict.fromkeys(columns))
    values = [*map(quote, raw), *computed.values()]
    # The second hash leaves out maps and lists, which are slow to hash; together they are beyond all chance of colliding.
    plain = [*(quote(name) for name in raw if not _is_nested(opened.columns[name])), *computed.values()]
    fields = [f"{quote(name)} := {quote(name)}" for name in raw]
    fields += [f"{quote('key:' + name)} := {sql}" for name, sql in computed.items()]
    return _Marks(
        f"hash({', '.join(values)})",
        f"hash({', '.join(['0', *reversed(plain)])})",
        f"struct_pack({', '.join(fields)})",
        {name: quote("key:" + name) if name in computed else sql for name, sql in read.keys.items()},
    )


def _is_nested(kind: str) -> bool:
    return kind.startswith(("MAP", "STRUCT")) or kind.endswith("]")


def _find_keys(con: duckdb.DuckDBPyConnection, opened: Source, marks: _Marks) -> None:
    for shares in _SHARES:
        try:
            _collect_keys(con, opened, marks, shares)
            break
        except duckdb.OutOfMemoryException:
            if shares == _SHARES[-1]:
                raise
            log.info("bill has very many keys, they are read in more passes")
    names = ", ".join(f"{sql} as {name}" for name, sql in marks.named.items())
    con.execute(f"""
        create or replace temp table bill_keys as
        select row_number() over (order by key_hash, other_hash)::integer as key, key_hash, other_hash, {names}
        from (select key_hash, other_hash, unnest(columns) from found_keys)
    """)
    con.execute("drop table found_keys")


def _collect_keys(con: duckdb.DuckDBPyConnection, opened: Source, marks: _Marks, shares: int) -> None:
    con.execute("drop table if exists found_keys")
    for share in range(shares):
        where = f"where key_hash % {shares} = {share}" if shares > 1 else ""
        into = "insert into found_keys" if share else "create temp table found_keys as"
        con.execute(f"""
            {into} select key_hash, other_hash, any_value(columns) as columns
            from (
                select {marks.key_hash} as key_hash, {marks.other_hash} as other_hash, {marks.columns} as columns
                from {opened.relation}
            )
            {where}
            group by key_hash, other_hash
        """)


def _add_up(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines, marks: _Marks) -> None:
    named = "".join(f", {sql} as {name}" for name, sql in read.measures.items())
    measures = "".join(f", {name}" for name in read.measures)
    sums = "".join(f", sum({name}) as {name}" for name in read.measures)
    hour, day = _MICROSECONDS["hour"], _MICROSECONDS["day"]
    stays_long = f"length > {hour} and (hourly or length > {day})"
    con.execute(f"""
        create or replace temp table bill_facts as
        with lines as (
            select {marks.key_hash} as key_hash, {marks.other_hash} as other_hash,
                {read.start} as line_start, {read.end} as line_end, {read.bill_day} as bill_day{named}
            from {opened.relation}
        ),
        dated as (
            select k.key, k.hourly, bill_day, line_start, line_end, epoch_us(line_end) - epoch_us(line_start) as length{measures}
            from lines
            join bill_keys as k using (key_hash, other_hash)
        ),
        sound as (
            -- A charge of more than ten years has no dates worth the name: commitments last five at most.
            select * replace (
                case when length > {3650 * day} and line_end > line_start + interval 10 year then null else line_start end as line_start,
                case when length > {3650 * day} and line_end > line_start + interval 10 year then null else length end as length
            )
            from dated
        ),
        slotted as (
            select
                key, bill_day{measures},
                case
                    when {stays_long} then line_start
                    when hourly then date_trunc('hour', line_start)
                    else date_trunc('day', line_start)
                end as start_at,
                case
                    when {stays_long} then line_end
                    when hourly then date_trunc('hour', line_start) + interval 1 hour
                    else date_trunc('day', line_start) + interval 1 day
                end as end_at
            from sound
        )
        select key, bill_day, start_at, end_at{sums}, count(*) as source_rows
        from slotted
        group by key, bill_day, start_at, end_at
    """)
