"""Files of one folder and header that are no parts of one export: the same month again, or another cost basis.

Numbered parts of one run share no rows. An export that was saved anew every day repeats the rows of the days before,
so two files whose days overlap in mostly equal rows are two deliveries. Vendors' own part numbers need no such look.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from auditor.errors import SourceError
from auditor.landing import Recognised
from auditor.normalise.billing import azure_cost, formats, passes, salvage, source, texts
from auditor.normalise.billing.deliveries import Delivery

# `report-00002.csv.gz`, `part_1_0001.csv`, `table_000000000003.json`: what is left is the run's own name. A number without
# leading zeros (`bill-202610050600.csv`) is the day on which the month was told again.
_PART = re.compile(
    r"^(?P<run>.*?)(?:[-_](?:0\d{4}|0{4}\d{8})|(?<=part)_\d+_\d{4})(?:\.snappy)?\.[a-z0-9.]+$", re.IGNORECASE
)
_SAME = 0.5  # share of equal rows in the days that two files have in common; parts have none, re-exports nearly all
_LIKE = 0.9  # share of rows that two files tell alike but for amounts a little apart: one of them restates the other
_EVIDENCE = 10  # as many lines at least: two files of a line each may be alike by chance
_APART = 0.25  # how much a restated amount may differ
_SAMPLE = 8  # one row in so many is compared, by its hash, so that both files keep the same rows


def apart(con: duckdb.DuckDBPyConnection, delivery: Delivery, spool: Path) -> list[Delivery]:
    """The delivery, or the several that its files are when their rows are looked at."""
    if delivery.is_listed or len(delivery.files) < 2:
        return [delivery]
    con.execute(source.MACROS)
    con.execute(getattr(formats.MODULES[delivery.family], "MACROS", "") or "select 1")
    try:
        return _apart(con, delivery, spool)
    except SourceError:
        files = salvage.mended(delivery.files, spool)
        if files is None:
            raise
        return _apart(con, replace(delivery, files=tuple(files)), spool)


def _apart(con: duckdb.DuckDBPyConnection, delivery: Delivery, spool: Path) -> list[Delivery]:
    made = []
    for role, files in _by_role(con, delivery, spool):
        made += [
            replace(delivery, files=tuple(cluster), role=role) for cluster in _clusters(con, delivery, files, spool)
        ]
    return made


def _by_role(
    con: duckdb.DuckDBPyConnection, delivery: Delivery, spool: Path
) -> list[tuple[str | None, list[Recognised]]]:
    """Azure's actual and amortized exports lie in one folder with one header: their rows tell them apart."""
    if delivery.family != "azure":
        return [(delivery.role, list(delivery.files))]
    by_role: dict[str | None, list[Recognised]] = {}
    for file in delivery.files:
        by_role.setdefault(_role(con, file, spool), []).append(file)
    known = [role for role in by_role if role]
    if (
        len(known) == 1
        and None in by_role
        and _clusters(con, delivery, list(delivery.files), spool) == [list(delivery.files)]
    ):
        return [(known[0], list(delivery.files))]  # parts of one export, of which some have no committed usage
    return list(by_role.items())


def _role(con: duckdb.DuckDBPyConnection, file: Recognised, spool: Path) -> str | None:
    try:
        opened = _open(con, file, spool, lambda opened: [azure_cost.basis_query(opened)])
        return azure_cost.basis(con, opened) if opened else None
    except duckdb.Error as error:
        raise SourceError(
            f"{file.file.name}: cannot be read as {file.format}: {str(error).splitlines()[0][:300]}"
        ) from error


def _open(
    con: duckdb.DuckDBPyConnection, file: Recognised, spool: Path, asked: Callable[[source.Source], Iterable[str]]
) -> source.Source | None:
    """The file's rows with the columns that the SQL in `asked` reads, and dates; null where nothing can be read."""
    files, _ = salvage.readable([file], spool)
    con.execute("drop table if exists csv_rejects; drop table if exists csv_rejects_scan")
    if not files:
        return None

    def used(opened: source.Source) -> list[str]:
        named = passes.mentioned(asked(opened), opened.columns)
        return list(dict.fromkeys([*named, *texts.dates(opened.columns)]))

    columns = formats.JSON_COLUMNS.get(file.details["family"])
    return source.open_source(con, "one_file", files, spool, columns, used)


def _clusters(
    con: duckdb.DuckDBPyConnection, delivery: Delivery, files: Sequence[Recognised], spool: Path
) -> list[list[Recognised]]:
    """Files that belong together; a file joins the first group none of whose files it repeats."""
    if len(files) < 2 or len({_run(file) for file in files}) == 1:
        return [list(files)]
    repeats = _repeats(con, delivery, files, spool)
    clusters: list[list[int]] = []
    for index in range(len(files)):
        home = next((cluster for cluster in clusters if not any((other, index) in repeats for other in cluster)), None)
        if home is None:
            clusters.append([index])
        else:
            home.append(index)
    return [[files[index] for index in cluster] for cluster in clusters]


def _run(file: Recognised) -> str:
    name = file.file.name.replace("!", "/").rpartition("/")[2]
    part = _PART.match(name)
    return part["run"] if part else name


def _repeats(
    con: duckdb.DuckDBPyConnection, delivery: Delivery, files: Sequence[Recognised], spool: Path
) -> set[tuple[int, int]]:
    """Pairs of files, lower index first, whose common days hold mostly equal rows, or the same ones with amounts restated."""
    module = formats.MODULES[delivery.family]
    con.execute(
        "create or replace temp table row_marks (file integer, day date, mark ubigint, about ubigint, amount double)"
    )
    for index, file in enumerate(files):
        try:
            opened = _open(
                con,
                file,
                spool,
                lambda opened: [*module.keys(opened).values(), *module.measures(opened, net=False).values()],
            )
            if opened is None:
                continue
            keys = module.keys(opened)
            day = keys.get("bill_day", f"({keys['start_at']})::date")
            what = [keys[name] for name in sorted(keys) if name not in ("bill_day", "hourly", "invoice", "tags")]
            measures = module.measures(opened, net=False)
            marked = ", ".join([*what, *(sql for _, sql in sorted(measures.items()))])
            amount = next(iter(measures.values()))
            con.execute(
                f"insert into row_marks select {index}, {day}, hash({marked}), hash({', '.join(what)}), {amount} from {opened.relation}"
            )
        except duckdb.Error as error:
            raise SourceError(
                f"{file.file.name}: cannot be read as {file.format}: {str(error).splitlines()[0][:300]}"
            ) from error
    found = con.execute(f"""
        with sizes as (select count(*) > 100000 as is_large from row_marks),
        looked_at as (select row_marks.* from row_marks, sizes where not is_large or about % {_SAMPLE} = 0),
        marks as (select file, day, mark, count(*) as times from looked_at group by all),
        days as (select file, day, sum(times) as times from marks group by all),
        shared_days as (
            select a.file as first, b.file as second, least(sum(a.times), sum(b.times)) as times
            from days as a join days as b on a.day is not distinct from b.day and a.file < b.file group by all
        ),
        shared_rows as (
            select a.file as first, b.file as second, sum(least(a.times, b.times)) as times
            from marks as a join marks as b on a.mark = b.mark and a.day is not distinct from b.day and a.file < b.file group by all
        ),
        single as (select file, day, about, any_value(amount) as amount from looked_at group by all having count(*) = 1),
        -- Google's rows are appended and not restated: two of one key are two charges.
        restated as (
            select a.file as first, b.file as second, count(*) as times
            from single as a join single as b on a.about = b.about and a.day is not distinct from b.day and a.file < b.file
            where {str(delivery.family != "gcp").lower()}
                and (a.amount = b.amount or (a.amount * b.amount > 0 and abs(a.amount - b.amount) <= {_APART} * greatest(abs(a.amount), abs(b.amount))))
            group by all
        )
        select first, second
        from shared_days
        left join shared_rows using (first, second)
        left join restated using (first, second)
        where coalesce(shared_rows.times, 0) >= {_SAME} * shared_days.times or (restated.times >= {_EVIDENCE} and restated.times >= {_LIKE} * shared_days.times)
    """).fetchall()
    con.execute("drop table row_marks")
    return {(int(first), int(second)) for first, second in found}
