"""Azure Monitor metrics answers, of one resource (`value`) and of a batch (`values`)."""

import duckdb

from auditor.normalise.telemetry.elements import largest_object

ARRAYS = (("value",), ("values",))

_METRIC = (
    'id VARCHAR, name STRUCT("value" VARCHAR), unit VARCHAR, timeseries STRUCT('
    'metadatavalues STRUCT(name STRUCT("value" VARCHAR), "value" VARCHAR)[], '
    '"data" STRUCT("timeStamp" VARCHAR, average DOUBLE, total DOUBLE, minimum DOUBLE, maximum DOUBLE, count DOUBLE)[])[]'
)
_COLUMNS = f"{{doc: 'INTEGER', e: 'STRUCT({_METRIC}, resourceid VARCHAR, \"interval\" VARCHAR, \"value\" STRUCT({_METRIC})[])'}}"

# PT1H as the service writes it, `1 day, 0:00:00` or `0:05:00` as the az command does.
_SECONDS = " + ".join(
    f"coalesce(try_cast(nullif(regexp_extract(stated, '{pattern}', 1, 'i'), '') as double), 0) * {seconds}"
    for pattern, seconds in (
        (r"(\d+)(?:D| day)", 86400),
        (r"(\d+)H", 3600),
        (r"T.*?(\d+)M", 60),
        (r"(\d+):\d\d:\d\d", 3600),
        (r"\d+:(\d\d):\d\d", 60),
    )
)


def stage(con: duckdb.DuckDBPyConnection, spool: str) -> list[str]:
    """Fills `telemetry_staged`. An interval without a figure is a gap, not a zero. Time stamps are interval starts."""
    con.execute(
        f"""create or replace temp table telemetry_staged as
        with answers as (
            select s.doc as place, e, d.envelope->>'interval' as stated
            from read_json($spool, format = 'newline_delimited', columns = {_COLUMNS}, maximum_object_size = $largest) s
            join telemetry_docs d using (doc)
        ), metrics_of as (
            select e.id as id, e.name.value as name, e.unit as unit, e.timeseries as timeseries,
                cast(null as varchar) as resource_id, stated, place from answers where e.timeseries is not null
            union all
            select v.id, v.name.value, v.unit, v.timeseries, resource_id, stated, place
            from (select unnest(e.value) as v, e.resourceid as resource_id, coalesce(e.interval, stated) as stated, place from answers
                where e.value is not null)
        ), resources as (
            select place, name, unit, timeseries, coalesce(resource_id,
                    nullif(regexp_replace(id, '/providers/microsoft\\.insights/metrics/.*$', '', 'i'), '')) as resource_id,
                {_SECONDS} as seconds
            from metrics_of
        ), series as (
            select * exclude (timeseries), unnest(timeseries) as t from resources
        ), split as (
            select *, map_from_entries(list_transform(coalesce(t.metadatavalues, []),
                lambda x: {{'k': lower(x.name.value), 'v': coalesce(x.value, '')}})) as m
            from series
        ), labelled as (
            -- the bill knows the account, the pool, the endpoint and the compute, not what lies below or beside them
            select regexp_replace(case when m['computename'] is not null and regexp_matches(resource_id, '/workspaces/[^/]+$', 'i')
                        then resource_id || '/computes/' || m['computename'] else resource_id end,
                    '(/(blobServices|fileServices)/default|/deployments/[^/]+|(/capacityPools/[^/]+)/volumes/[^/]+)$', '\\3', 'i') as resource_id,
                case
                    when name ilike 'gpu%' then concat_ws('/', coalesce(m['instanceid'], m['nodeid']), m['deviceid'])
                    when name ilike 'data disk%' then case when m['lun'] is null then '' else 'lun' || m['lun'] end
                    when name ilike 'os disk%' then 'os'
                    when name ilike 'vm %cached%' then lower(split_part(name, ' ', 1) || '-' || split_part(name, ' ', 2))
                    else '' end as device,
                array_to_string(list_concat(
                    list_sort(list_transform(map_entries(m), lambda x: x.key || '=' || x.value)),
                    [x for x in [regexp_extract(resource_id, '/(volumes|deployments)/[^/]+$', 0, 'i')] if x <> '']), ',') as series,
                lower(name) as name, unit, nullif(seconds, 0) as seconds, place, t.data as points
            from split
        )
        select telemetry_time(p.timeStamp) as time, 'azure' as provider, resource_id, device, series, name,
            cast(null as varchar) as other_name, p.average as mean, p.total as total, unit, seconds, place
        from (select * exclude (points), unnest(points) as p from labelled)
        where coalesce(p.average, p.total, p.maximum, p.minimum) is not null""",
        {"spool": spool, "largest": largest_object(spool)},
    )
    return []
