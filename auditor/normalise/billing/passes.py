"""The one pass over a bill's lines: what the lines of each key and slot add up to, and which keys there are.

A bill of millions of lines has tens of thousands of keys. A line's key is the hash of the columns that decide it, so that the
pass carries numbers only; the columns themselves are read afterwards, from the first line of each key.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import duckdb

from auditor.errors import LakeError
from auditor.normalise.billing.source import PLACE_BITS, Source, quote

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")+)"|([A-Za-z_][A-Za-z0-9_]*)""")
_LINE_NUMBER = (1 << PLACE_BITS) - 1
_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000}


@dataclass(frozen=True)
class Lines:
    """What is read of one line: SQL over the source, by name. The day of the bill is that of the start where it is none of its own.

    `implied` names columns that others decide, so that they need not be compared on every line.
    """

    start: str
    end: str
    bill_day: str | None
    keys: Mapping[str, str]
    measures: Mapping[str, str]
    implied: Mapping[str, Sequence[str]] = field(default_factory=dict)


def lines(module: object, opened: Source, *, net: bool) -> Lines:
    keys: dict[str, str] = module.keys(opened)  # type: ignore[attr-defined]
    measures: dict[str, str] = module.measures(opened, net=net)  # type: ignore[attr-defined]
    start, end = keys.pop("start_at"), keys.pop("end_at", "null::timestamp")
    keys.setdefault("hourly", "false")
    implied = module.implied(opened) if hasattr(module, "implied") else {}
    return Lines(start, end, keys.pop("bill_day", None), keys, measures, implied)


def mentioned(expressions: Iterable[str], columns: Mapping[str, str]) -> list[str]:
    """Columns of the source that the SQL reads, in the source's order."""
    found = set()
    for quoted, bare in chain.from_iterable(_TOKEN.findall(sql) for sql in expressions):
        found.add(quoted.replace('""', '"') or bare)
    return [name for name in columns if name in found]


def add_up(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines) -> None:
    """Tables `bill_keys`, one row a key, and `bill_facts`, one row a key and slot with the sums of its lines, joined by their hashes.

    A slot is a day; an hour for what is kept by the hour; the line's own time where it is longer than its slot.
    """
    marks = _marks(opened, read)
    _add_up(con, opened, read, marks)
    _look_up_keys(con, opened, read, marks)


@dataclass(frozen=True)
class _Marks:
    """SQL of what tells a line's key: two hashes of it."""

    key_hash: str
    other_hash: str


def _marks(opened: Source, read: Lines) -> _Marks:
    """Keys that read a column which differs from line to line, as the time, are hashed themselves: they are its month only, say."""
    varying = set(mentioned([read.start, read.end, read.bill_day or "", *read.measures.values()], opened.columns))
    raw: dict[str, None] = {}
    computed = []
    for sql in read.keys.values():
        columns = mentioned([sql], opened.columns)
        if varying.intersection(columns):
            computed.append(sql)
        else:
            raw.update(dict.fromkeys(columns))
    told = [name for name in raw if name not in read.implied]
    values = [*map(quote, told), *computed]
    # The second hash leaves out maps and lists, which are slow to hash; together they are beyond all chance of colliding.
    plain = [*(quote(name) for name in told if not _is_nested(opened.columns[name])), *computed]
    return _Marks(f"hash({', '.join(values)})", f"hash({', '.join(['0', *reversed(plain)])})")


def _is_nested(kind: str) -> bool:
    return kind.startswith(("MAP", "STRUCT")) or kind.endswith("]")


def _add_up(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines, marks: _Marks) -> None:
    """Table `bill_facts`: the sums by key and slot, and where the first of the lines stands.

    Slots are microseconds until they are grouped. What has no dates has no slot; what has none worth the name, a start but no end.
    """
    varying = {name: sql for name, sql in read.measures.items() if mentioned([sql], opened.columns)}
    named = "".join(f", {sql} as {name}" for name, sql in varying.items())
    measures = "".join(f", {name}" for name in varying)
    sums = "".join(
        f", sum({name}) as {name}" if name in varying else f", ({sql}) * count(*) as {name}"
        for name, sql in read.measures.items()
    )
    day_of_bill, days = (f", {read.bill_day} as bill_day", ", bill_day") if read.bill_day else ("", "")
    hour, day = _MICROSECONDS["hour"], _MICROSECONDS["day"]
    con.execute(f"""
        create or replace temp table bill_facts as
        with lines as (
            select {marks.key_hash} as key_hash, {marks.other_hash} as other_hash, line_place,
                epoch_us({read.start}) as line_start, epoch_us({read.end}) as line_end,
                case when {_is_hourly(con, opened, read)} then {hour} else {day} end as slot{day_of_bill}{named}
            from {opened.relation}
        ),
        measured as (
            select *, greatest(line_end - line_start, slot) as length from lines
        ),
        slotted as (
            select key_hash, other_hash, line_place{days}{measures}, line_start - case when length > slot then 0 else line_start % slot end as slot_start, length
            from measured
        ),
        added as (
            select key_hash, other_hash{days}, make_timestamp(slot_start) as slot_start, make_timestamp(slot_start + length) as slot_end{sums},
                count(*) as source_rows, min(line_place) as first_place
            from slotted
            group by key_hash, other_hash{days}, slot_start, length
        )
        select * exclude (slot_start, slot_end), {"" if read.bill_day else "slot_start::date as bill_day,"}
            -- A charge of more than ten years has no dates worth the name: commitments last five at most.
            case when slot_end <= slot_start + interval 10 year then slot_start end as start_at,
            case when slot_end <= slot_start + interval 10 year then slot_end end as end_at
        from added
    """)


def _is_hourly(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines) -> str:
    """SQL that tells whether a line is kept by the hour: worked out on the distinct values that decide it, not on every line."""
    columns = mentioned([read.keys["hourly"]], opened.columns)
    if not columns:
        return read.keys["hourly"]
    named = ", ".join(map(quote, columns))
    # Two statements, lest the condition is moved in front of the `distinct`.
    con.execute(f"create or replace temp table hourly_values as select distinct {named} from {opened.relation}")
    con.execute(
        f"create or replace temp table hourly_marks as select hash({named}) as mark from hourly_values where {read.keys['hourly']}"
    )
    return f"hash({named}) in (select mark from hourly_marks)"


def _look_up_keys(con: duckdb.DuckDBPyConnection, opened: Source, read: Lines, marks: _Marks) -> None:
    """Table `bill_keys`, read from the first line of each key."""
    con.execute("""
        create or replace temp table first_lines as
        select row_number() over (order by key_hash, other_hash)::integer as key, *
        from (select key_hash, other_hash, min(first_place) as first_place from bill_facts group by key_hash, other_hash)
    """)
    columns = mentioned(read.keys.values(), opened.columns)
    _read_lines(con, opened, "first_lines", [name for name in columns if name not in read.implied], "key_lines")
    lines = "key_lines join first_lines using (first_place)"
    for number, (name, deciding) in enumerate(read.implied.items()):
        if name in columns:
            decided = f"hash({', '.join(map(quote, deciding))})"
            con.execute(
                f"create or replace temp table implying_lines as select {decided} as mark, min(first_place) as first_place from key_lines group by mark"
            )
            _read_lines(con, opened, "implying_lines", [name], "implied_values")
            con.execute(
                f"create or replace temp table implied_{number} as select mark, {quote(name)} from implied_values join implying_lines using (first_place)"
            )
            lines += f" join implied_{number} on {decided} = implied_{number}.mark"
    named = ", ".join(f"{sql} as {name}" for name, sql in read.keys.items())
    con.execute(f"""
        create or replace temp table bill_keys as
        select key, key_hash, other_hash, {named}
        from {lines}
    """)
    found, wanted = con.execute("select (select count(*) from bill_keys), count(*) from first_lines").fetchone() or (
        0,
        0,
    )
    if found != wanted:
        raise LakeError(f"{wanted - found:,} of {wanted:,} keys of the bill were not found again; please report this")
    con.execute("drop table first_lines; drop table key_lines")


def _read_lines(con: duckdb.DuckDBPyConnection, opened: Source, places: str, columns: Sequence[str], into: str) -> None:
    """Table `into` of these columns of the lines at `first_place` of the table `places`; the reader of Parquet passes over all others."""
    last = con.execute(f"select max(first_place & {_LINE_NUMBER}) from {places}").fetchone()
    con.execute(f"""
        create or replace temp table {into} as
        with wanted as materialized (
            select first_place, first_place & {_LINE_NUMBER} as first_number, (first_place >> {PLACE_BITS})::ubigint as first_file from {places}
        )
        select first_place{"".join(f", {quote(name)}" for name in columns)}
        from {opened.relation}
        join wanted on line_place = first_place
        where line_number in (select first_number from wanted) and line_file in (select first_file from wanted)
            and line_number <= {last[0] if last and last[0] is not None else 0}
    """)
