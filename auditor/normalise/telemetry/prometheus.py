"""Prometheus `query_range` and `query` answers: DCGM exporter, node exporter, Neuron, kube-state-metrics."""

import duckdb

from auditor import exporters
from auditor.normalise.telemetry.elements import largest_object

ARRAYS = (("data", "result"),)

_COLUMNS = "{doc: 'INTEGER', e: 'STRUCT(metric MAP(VARCHAR, VARCHAR), \"values\" VARCHAR[][], \"value\" VARCHAR[])'}"

# DCGM writes these (and a little above) where a field is blank: int32, double and int64.
_BLANK = 2147483632


def stage(con: duckdb.DuckDBPyConnection, spool: str) -> list[str]:
    """Fills `telemetry_staged` from the spool and `telemetry_docs`; returns remarks.

    A name that a function such as avg_over_time took away is read from the file's name, but only beside labels of
    the exporter in question, and never for counters, whose rate looks like a counter. Time is the sample's own, for a
    counter the start of the interval between two readings.
    """
    con.execute(
        f"""create or replace temp table telemetry_series as
        with answers as (
            select s.doc as place, e.metric as m, coalesce(e.values, [e.value]) as points, d.envelope->>'name_hint' as hint
            from read_json($spool, format = 'newline_delimited', columns = {_COLUMNS}, maximum_object_size = $largest) s
            join telemetry_docs d using (doc)
            where e.metric is not null
        ), named as (
            select *, coalesce(m['__name__'],
                case when coalesce(m['UUID'], m['uuid'], m['modelName'], m['neuroncore']) is not null then hint end) as name,
                coalesce(
                    [x for x in [m['hostname'], m['Hostname'], m['node'], m['kubernetes_node'], m['nodename'],
                        regexp_replace(m['instance'], ':[0-9]+$', '')] if x <> '' and x <> 'localhost'][1]) as host
            from answers
        )
        select place, m, points, coalesce(name, '(without a name)') as name, host,
            coalesce(telemetry_cloud_id(m['provider_id']), telemetry_cloud_id(m['providerID']),
                telemetry_cloud_id(m['instance_id']), telemetry_cloud_id(m['InstanceId']),
                telemetry_cloud_id(m['ec2_instance_id']), telemetry_cloud_id(m['resource_id']),
                case when regexp_matches(m['instance_id'], '^[0-9]+$') and m['project_id'] is not null
                        and coalesce(m['zone'], m['location']) is not null
                    then '//compute.googleapis.com/projects/' || m['project_id'] || '/zones/'
                        || coalesce(m['zone'], m['location']) || '/instances/' || m['instance_id'] end,
                telemetry_cloud_id(m['instance']), telemetry_cloud_id(host), host) as resource_id
        from named""",
        {"spool": spool, "largest": largest_object(spool)},
    )
    con.execute(
        """insert into telemetry_nodes
        select distinct m['node'], telemetry_cloud_id(m['provider_id']), telemetry_provider(telemetry_cloud_id(m['provider_id']))
        from telemetry_series where name = 'kube_node_info' and telemetry_cloud_id(m['provider_id']) is not null"""
    )
    con.execute(
        """create or replace temp table telemetry_points as
        with labelled as (
            -- once a series: at the level of points the same work costs a thousand times as much
            select place, name, resource_id, telemetry_provider(resource_id) as provider, points,
            case when name like 'DCGM%' then coalesce(nullif(m['gpu'], ''), nullif(m['minor_number'], ''), m['UUID'], '')
                when name like 'nvidia_smi%' then coalesce(m['gpu'], m['uuid'], m['UUID'], '')
                when name like 'neuron%' then coalesce(m['neuroncore'], m['neuron_core'], '')
                when name like 'node_disk%' then coalesce(m['device'], '')
                else '' end as device,
            -- not the pod: it changes hands while the device stays
            case when name like 'node_cpu%' then coalesce(m['cpu'], '') || '/' || coalesce(m['mode'], '')
                when name like 'node_network%' then coalesce(m['device'], '')
                else coalesce(m['GPU_I_ID'], '') end as series,
            coalesce(m['mode'], '') as mode
            from telemetry_series
            where name <> 'kube_node_info'
                -- reads 0 or nothing on a partitioned GPU
                and not (name = 'DCGM_FI_DEV_GPU_UTIL' and coalesce(m['GPU_I_ID'], '') <> '')
                and not (name like 'node_cpu%' and coalesce(m['mode'], '') not in (select unnest($modes)))
                and not (name like 'node_disk%' and regexp_matches(coalesce(m['device'], ''), $no_disks))
                and not (name like 'node_network%' and regexp_matches(coalesce(m['device'], ''), $no_networks))
        )
        select place, name, resource_id, provider, device, series, mode,
            make_timestamp(cast(round(try_cast(p[1] as double) * 1000000) as bigint)) as time, try_cast(p[2] as double) as reading
        from (select * exclude (points), unnest(points) as p from labelled)""",
        {
            "modes": list(exporters.CPU_MODES),
            "no_disks": exporters.NO_DISKS,
            "no_networks": exporters.NO_NETWORKS,
        },
    )
    con.execute(
        """create or replace temp table telemetry_staged as
        with counters as (
            select *, lag(reading) over readings as before, lag(time) over readings as since
            from (select distinct on (name, resource_id, device, series, time) * from telemetry_points
                where name in (select unnest($counters)) and isfinite(reading) and reading >= 0
                order by name, resource_id, device, series, time, place desc)
            window readings as (partition by name, resource_id, device, series order by time)
        ), steps as (
            select *, epoch(time) - epoch(since) as seconds,
                case when reading < before then reading else reading - before end as growth  -- a reset starts from 0
            from counters where since is not null
        ), usual as (
            select name, resource_id, device, series, median(seconds) as spacing from steps group by all
        ), rates as (
            select s.* from steps s join usual u using (name, resource_id, device, series)
            where s.seconds <= 4 * u.spacing  -- over a longer gap nobody knows when the growth was
        )
        select time, provider, resource_id, device, series, name,
            cast(null as varchar) as other_name,
            case when name like 'DCGM%' and reading >= $blank then 'nan'::double else reading end as mean,
            case when name like 'DCGM%' and reading >= $blank then 'nan'::double else reading end as total,
            cast(null as varchar) as unit, cast(null as double) as seconds, place
        from telemetry_points where name not in (select unnest($counters))
        union all
        select since, provider, resource_id, device, series,
            case when name like 'node_cpu%' then name || '{' || mode || '}' else name end, null,
            figure, figure, null, seconds, place
        from (select *, case
                when mode = 'idle' then greatest(0, 1 - growth / seconds)  -- ticks jitter by a hair over the clock
                when ends_with(name, '_seconds_total') then growth / seconds
                else growth end as figure
            from rates where seconds > 0)""",
        {"counters": sorted(exporters.COUNTERS), "blank": _BLANK},
    )
    con.execute("drop table telemetry_points")
    con.execute("drop table telemetry_series")
    failed = con.execute(
        """select coalesce(envelope->>'error', envelope->>'errorType', 'no reason given') from telemetry_docs
        where envelope->>'status' = 'error'"""
    ).fetchall()
    partial = con.execute(
        "select distinct w from (select unnest(from_json(envelope->'warnings', '[\"VARCHAR\"]')) w from telemetry_docs)"
    ).fetchall()
    return [f"Prometheus answered with an error: {row[0]}" for row in failed] + [
        f"Prometheus warned: {row[0]}" for row in partial
    ]
