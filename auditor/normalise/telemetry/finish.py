"""The last step after all files are in: joins parts, names machines, and leaves each sample once."""

import duckdb

from auditor.normalise.telemetry.intake import prepare


def finish(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Completes `metrics`; returns what it did, one sentence each.

    Host names that a kube_node_info answer explains become cloud ids; parts become samples; of samples that agree in
    provider, resource, device, metric and time the last delivered stays; on a day on which a resource has samples of a
    metric by device, those without a device go, because they repeat them.
    """
    prepare(con)
    _name_machines(con)
    incomplete = _join_parts(con)
    repeated = _drop_repeated(con)
    rolled_up = _drop_roll_ups(con)
    con.execute("drop table telemetry_parts")
    con.execute("drop table telemetry_nodes")
    said = {
        "{n} memory samples without the total they are a part of were not used": incomplete,
        "{n} repeated samples removed, the last of each kept": repeated,
        "{n} roll-up samples removed, their devices having samples of their own": rolled_up,
    }
    return [text.format(n=n) for text, n in said.items() if n]


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _name_machines(con: duckdb.DuckDBPyConnection) -> None:
    # a name that two clusters use for different machines explains nothing
    con.execute(
        """create or replace temp table telemetry_known_nodes as
        select node, any_value(resource_id) as resource_id, any_value(provider) as provider
        from telemetry_nodes group by node having count(distinct resource_id) = 1"""
    )
    for table in ("metrics", "telemetry_parts"):
        con.execute(
            f"""update {table} set resource_id = n.resource_id, provider = n.provider
            from telemetry_known_nodes n where {table}.resource_id = n.node"""
        )
    con.execute("drop table telemetry_known_nodes")


def _join_parts(con: duckdb.DuckDBPyConnection) -> int:
    """Turns parts into samples; returns how many shares lacked their whole."""
    key = "provider, resource_id, device, metric, time"
    con.execute(
        f"""create or replace temp table telemetry_last_parts as
        select * from telemetry_parts
        qualify row_number() over (partition by {key}, combine, part, series order by sequence desc, value desc) = 1"""
    )
    columns = "time, provider, resource_id, device, metric"
    con.execute(
        f"""insert into metrics
        with spoken as (
            select *, max(series = '') over (partition by {key}, part) as whole,
                regexp_replace(part, '\\.\\d$', '') as role
            from telemetry_last_parts where combine in ('sum', 'max', 'mean')
        ), roles as (
            select {columns}, combine, role, part, case combine when 'max' then max(value) when 'mean' then avg(value)
                else sum(value) end as value, any_value(unit_source) as unit_source
            from spoken where not whole or series = '' group by {columns}, combine, role, part
        ), preferred as (
            select * from roles qualify row_number() over (partition by {key}, role order by part) = 1
        )
        select {columns}, case any_value(combine) when 'max' then max(value) when 'mean' then avg(value) else sum(value) end,
            any_value(unit_source)
        from preferred group by {columns}"""
    )
    con.execute(
        f"""create or replace temp table telemetry_shares as
        with roles as (
            select {columns}, any_value(unit_source) as unit_source, sum(value) filter (part = 'used') as used,
                sum(value) filter (part = 'free') as free, sum(value) filter (part = 'reserved') as reserved,
                sum(value) filter (part = 'total') as total
            from telemetry_last_parts where combine = 'share' group by {columns}
        )
        select *, coalesce(total, used + free + coalesce(reserved, 0)) as whole from roles where used is not null"""
    )
    con.execute(
        f"""insert into metrics select {columns}, least(1, used / whole), unit_source from telemetry_shares where whole > 0"""
    )
    _drop_zeros_of_partitioned(con)
    con.execute(
        f"""insert into metrics
        with ranked as (
            select f.* from telemetry_last_parts f
            anti join (
                -- the few metrics that have a fallback, before the costly distinct
                select distinct resource_id, device, metric, cast(time as date) as day from metrics
                where metric in (select metric from telemetry_last_parts where combine = 'fallback')) m
                on m.resource_id = f.resource_id and m.device = f.device and m.metric = f.metric and m.day = cast(f.time as date)
            where f.combine = 'fallback'
        ), best as (
            -- the busiest slice speaks for its device, so that a device with any work never counts as idle
            select {columns}, part, max(value) as value, any_value(unit_source) as unit_source from ranked group by {columns}, part
        )
        select {columns}, value, unit_source from best qualify row_number() over (partition by {key} order by part) = 1"""
    )
    incomplete = _count(con, "select count(*) from telemetry_shares where whole is null or whole <= 0")
    con.execute("drop table telemetry_shares")
    con.execute("drop table telemetry_last_parts")
    return incomplete


def _drop_zeros_of_partitioned(con: duckdb.DuckDBPyConnection) -> None:
    """A partitioned GPU reads 0 itself on a day on which its slices work."""
    con.execute(
        """create or replace temp table telemetry_slices as
        select distinct resource_id, device, metric, cast(time as date) as day from telemetry_last_parts
        where combine = 'fallback' and value > 0"""
    )
    if _count(con, "select count(*) from telemetry_slices"):
        con.execute(
            """create or replace temp table telemetry_zeros as
            select m.resource_id, m.device, m.metric, cast(m.time as date) as day from metrics m
            join telemetry_slices s
                on s.resource_id = m.resource_id and s.device = m.device and s.metric = m.metric and s.day = cast(m.time as date)
            group by all having max(m.value) = 0"""
        )
        con.execute(
            """delete from metrics using telemetry_zeros z where metrics.resource_id = z.resource_id
            and metrics.device = z.device and metrics.metric = z.metric and cast(metrics.time as date) = z.day"""
        )
        con.execute("drop table telemetry_zeros")
    con.execute("drop table telemetry_slices")


def _drop_repeated(con: duckdb.DuckDBPyConnection) -> int:
    """Removes all but the last of equal samples. Hashes find the few suspects first: comparing all keys is ten times dearer."""
    con.execute(
        """create or replace temp table telemetry_suspects as
        select h from (select hash(resource_id, device, metric, time) as h from metrics) group by h having count(*) > 1"""
    )
    con.execute(
        """create or replace temp table telemetry_repeated as
        select id from (
            select m.rowid as id, row_number() over (
                partition by m.provider, m.resource_id, m.device, m.metric, m.time order by m.rowid desc) as place
            from metrics m semi join telemetry_suspects s on hash(m.resource_id, m.device, m.metric, m.time) = s.h
        ) where place > 1"""
    )
    removed = _count(con, "select count(*) from telemetry_repeated")
    if removed:
        con.execute("delete from metrics where rowid in (select id from telemetry_repeated)")
    con.execute("drop table telemetry_repeated")
    con.execute("drop table telemetry_suspects")
    return removed


def _drop_roll_ups(con: duckdb.DuckDBPyConnection) -> int:
    con.execute(
        """create or replace temp table telemetry_whole as
        select distinct resource_id, metric, cast(time as date) as day from metrics where device = ''"""
    )
    con.execute(
        """create or replace temp table telemetry_rolled as
        select distinct w.* from metrics m
        join telemetry_whole w on w.resource_id = m.resource_id and w.metric = m.metric and w.day = cast(m.time as date)
        where m.device <> ''"""
    )
    condition = """device = '' and exists (select 1 from telemetry_rolled r where r.resource_id = metrics.resource_id
        and r.metric = metrics.metric and r.day = cast(metrics.time as date))"""
    removed = _count(con, "select count(*) from telemetry_rolled")
    if removed:
        removed = _count(con, f"select count(*) from metrics where {condition}")
        con.execute(f"delete from metrics where {condition}")
    con.execute("drop table telemetry_rolled")
    con.execute("drop table telemetry_whole")
    return removed
