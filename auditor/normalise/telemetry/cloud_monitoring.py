"""Cloud Monitoring `projects.timeSeries.list` answers."""

import duckdb

from auditor.normalise.telemetry.elements import largest_object

ARRAYS = (("timeSeries",),)

_COLUMNS = (
    "{doc: 'INTEGER', e: 'STRUCT(metric STRUCT(\"type\" VARCHAR, labels MAP(VARCHAR, VARCHAR)), "
    'resource STRUCT("type" VARCHAR, labels MAP(VARCHAR, VARCHAR)), '
    "metadata STRUCT(systemLabels MAP(VARCHAR, JSON)), metricKind VARCHAR, unit VARCHAR, "
    'points STRUCT("interval" STRUCT(startTime VARCHAR, endTime VARCHAR), '
    '"value" STRUCT(doubleValue VARCHAR, int64Value VARCHAR, distributionValue STRUCT(mean VARCHAR)))[])\'}'
)


def stage(con: duckdb.DuckDBPyConnection, spool: str) -> list[str]:
    """Fills `telemetry_staged`; returns remarks. The unit is the series' own, else the answer's, else the documented."""
    con.execute(
        f"""create or replace temp table telemetry_series as
        with answers as (
            select s.doc as place, e.metric.type as name, coalesce(e.metric.labels, map {{}}) as m, e.resource.type as resource_type,
                coalesce(e.resource.labels, map {{}}) as r, e.metricKind as metric_kind, e.points as points,
                coalesce(e.unit, d.envelope->>'unit') as unit,
                trim(cast(e.metadata.systemLabels['node_name'] as varchar), '"') as node_name
            from read_json($spool, format = 'newline_delimited', columns = {_COLUMNS}, maximum_object_size = $largest) s
            join telemetry_docs d using (doc)
            where e.metric.type is not null
        ), placed as (
            select *, coalesce(r['project_id'], r['resource_container']) as project,
                coalesce(r['zone'], r['location'], r['region']) as location,
                regexp_extract(name, '^prometheus\\.googleapis\\.com/([^/]+)/', 1) as exported
            from answers
        ), hosted as (
            select *, coalesce(node_name, r['node_name'],
                case when exported <> '' then coalesce(m['hostname'], m['Hostname'], m['node'],
                    regexp_replace(r['instance'], ':[0-9]+$', '')) end) as node
            from placed
        )
        select place, name, exported, m, unit, points, metric_kind,
            case
                when resource_type in ('gce_instance') or r['instance_id'] is not null and resource_type ilike '%tpu%' and r['node_id'] is null
                    then '//compute.googleapis.com/projects/' || project || '/zones/' || location || '/instances/' || r['instance_id']
                when resource_type in ('k8s_node', 'k8s_container', 'k8s_pod') or exported <> ''
                    -- a regional cluster tells the region only; the bare name is then all there is
                    then case when regexp_matches(location, '-[a-z]$')
                        then '//compute.googleapis.com/projects/' || project || '/zones/' || location || '/instances/' || node
                        else node end
                when resource_type ilike '%tpu%'
                    then '//tpu.googleapis.com/projects/' || project || '/locations/' || location || '/nodes/' || r['node_id']
                when resource_type = 'nat_gateway'
                    then '//compute.googleapis.com/projects/' || project || '/regions/' || location || '/routers/' || r['router_id']
                when resource_type = 'aiplatform.googleapis.com/Endpoint'
                    then '//aiplatform.googleapis.com/projects/' || project || '/locations/' || location || '/endpoints/' || r['endpoint_id']
                when resource_type = 'cloudml_job'
                    then coalesce('//aiplatform.googleapis.com/projects/' || project || '/locations/' || location || '/customJobs/' || r['job_id'], r['job_id'])
                when resource_type = 'filestore_instance'
                    then '//file.googleapis.com/projects/' || project || '/locations/' || location || '/instances/' || r['instance_name']
                when resource_type = 'gcs_bucket' then '//storage.googleapis.com/projects/_/buckets/' || r['bucket_name']
            end as resource_id,
            case
                when name like 'ml.googleapis.com/%' then coalesce(r['task_name'], '')
                when name like '%/accelerator/%' and name not like 'aiplatform%'
                    then case when coalesce(r['worker_id'], '0') not in ('', '0') then r['worker_id'] || ':' else '' end
                        || coalesce(m['accelerator_id'], m['chip'], m['core'], '')
                when name like 'aiplatform%accelerator%' then coalesce(m['replica_id'], '')
                when name like '%gpu%' then coalesce(nullif(m['gpu_number'], ''), m['uuid'], '')
                when exported like 'DCGM%' then coalesce(nullif(m['gpu'], ''), m['UUID'], '')
                when name like '%/instance/disk/%' then coalesce(m['device_name'], '')
                else '' end as device,
            coalesce(m['GPU_I_ID'], '') as slice,
            array_to_string(list_sort(list_concat(
                list_transform(map_entries(m), lambda x: x.key || '=' || x.value),
                list_transform(map_entries(r), lambda x: x.key || '=' || x.value))), ',') as dimensions
        from hosted
        where not (exported = 'DCGM_FI_DEV_GPU_UTIL' and coalesce(m['GPU_I_ID'], '') <> '')""",
        {"spool": spool, "largest": largest_object(spool)},
    )
    cumulative = con.execute(
        "select coalesce(sum(len(points)), 0) from telemetry_series where metric_kind = 'CUMULATIVE'"
    ).fetchone()
    con.execute(
        r"""create or replace temp table telemetry_staged as
        with labelled as (
            select resource_id, coalesce(device, '') as device, unit, place, points,
                case when exported <> '' then slice else dimensions end as series,
                coalesce(m['memory_state'], m['cpu_state'], m['gpu_memory_state'], m['state'], m['pipe'], m['gpu_pipe']) as facet,
                case when exported <> '' then exported
                    when name like '%/accelerator/%' and name not like 'tpu.%' and coalesce(m['model'], m['make'], '') ilike '%tpu%'
                        then name || '{tpu}'
                    when facet is not null and not regexp_matches(name, '^(router|compute|storage)\.') then name || '{' || facet || '}'
                    else name end as name
            from telemetry_series where metric_kind is distinct from 'CUMULATIVE'
        ), points as (
            select * exclude (points), unnest(points) as p from labelled
        ), figures as (
            select * exclude (p), telemetry_time(p.interval.startTime) as began, telemetry_time(p.interval.endTime) as ended,
                try_cast(coalesce(p.value.doubleValue, p.value.int64Value, p.value.distributionValue.mean) as double) as figure
            from points
        )
        select coalesce(began, ended) as time, 'gcp' as provider, resource_id, device, series, name,
            cast(null as varchar) as other_name, figure as mean, figure as total, unit,
            nullif(epoch(ended) - epoch(began), 0) as seconds, place
        from figures"""
    )
    con.execute("drop table telemetry_series")
    if cumulative and cumulative[0]:
        return [f"{cumulative[0]} cumulative samples dropped: ask for them with the aligner ALIGN_DELTA"]
    return []
