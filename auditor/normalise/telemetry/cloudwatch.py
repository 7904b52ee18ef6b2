"""CloudWatch: metric streams (one object a line) and GetMetricData answers stored with their queries."""

import duckdb

from auditor.normalise.telemetry.elements import largest_object

ARRAYS = (("MetricDataResults",),)

_STREAM = (
    "{account_id: 'VARCHAR', region: 'VARCHAR', namespace: 'VARCHAR', metric_name: 'VARCHAR', "
    "dimensions: 'MAP(VARCHAR, VARCHAR)', \"timestamp\": 'BIGINT', "
    '"value": \'STRUCT("sum" DOUBLE, "count" DOUBLE)\', unit: \'VARCHAR\'}'
)
_RESULT = "{doc: 'INTEGER', e: 'STRUCT(Id VARCHAR, Label VARCHAR, StatusCode VARCHAR, Timestamps VARCHAR[], \"Values\" DOUBLE[])'}"
_QUERIES = (
    '[{"Id": "VARCHAR", "AccountId": "VARCHAR", "MetricStat": {"Metric": {"Namespace": "VARCHAR", "MetricName": "VARCHAR", '
    '"Dimensions": [{"Name": "VARCHAR", "Value": "VARCHAR"}]}, "Period": "DOUBLE", "Stat": "VARCHAR", "Unit": "VARCHAR"}}]'
)


def stage_stream(con: duckdb.DuckDBPyConnection, paths: list[str], compression: str) -> list[str]:
    """Fills `telemetry_staged` from metric-stream files. The time stamp is the start of the interval."""
    con.execute(
        f"""create or replace temp table telemetry_answers as
        select account_id, region, namespace, metric_name, coalesce(dimensions, map {{}}) as d,
            make_timestamp(timestamp * 1000) as time, value.sum / nullif(value.count, 0) as mean, value.sum as total, unit,
            cast(null as double) as seconds, row_number() over () as place
        from read_json($paths, format = 'unstructured', compression = $compression, columns = {_STREAM}, hive_partitioning = false)
        where metric_name is not null""",
        {"paths": paths, "compression": compression},
    )
    _stage(con)
    return []


def stage_metric_data(con: duckdb.DuckDBPyConnection, spool: str) -> list[str]:
    """Fills `telemetry_staged` from GetMetricData answers.

    An answer names its series by query id only, so a document holds `MetricDataQueries` as they were asked beside
    `MetricDataResults`, and `AccountId` and `Region` where ids are to be built; what no query explains is counted.
    """
    con.execute(
        """create or replace temp table telemetry_queries as
        select doc, q.Id as id, q.MetricStat as stat, coalesce(q.AccountId, envelope->>'AccountId', envelope->>'account_id') as account_id,
            coalesce(envelope->>'Region', envelope->>'region') as region
        from (select doc, envelope, unnest(from_json(coalesce(envelope->'MetricDataQueries', envelope->'Request'->'MetricDataQueries'),
            $layout)) as q from telemetry_docs)""",
        {"layout": _QUERIES},
    )
    con.execute(
        f"""create or replace temp table telemetry_results as
        select s.doc as place, s.e as e, q.stat as stat, q.account_id, q.region
        from read_json($spool, format = 'newline_delimited', columns = {_RESULT}, maximum_object_size = $largest) s
        left join telemetry_queries q on q.doc = s.doc and q.id = s.e.Id
        where s.e.Id is not null""",
        {"spool": spool, "largest": largest_object(spool)},
    )
    con.execute(
        """create or replace temp table telemetry_answers as
        with points as (
            select place, account_id, region, stat, unnest(e.Timestamps) as stamp, unnest(e.Values) as figure
            from telemetry_results where stat.Metric.MetricName is not null
        )
        select account_id, region, stat.Metric.Namespace as namespace, stat.Metric.MetricName as metric_name,
            map_from_entries(list_transform(coalesce(stat.Metric.Dimensions, []), lambda x: {'k': x.Name, 'v': x.Value})) as d,
            telemetry_time(stamp) as time, case when stat.Stat = 'Average' then figure end as mean,
            case when stat.Stat = 'Sum' then figure end as total, stat.Unit as unit, stat.Period as seconds, place
        from points where stat.Stat in ('Average', 'Sum')"""
    )
    _stage(con)
    odd = con.execute(
        """select count(*) filter (stat.Metric.MetricName is null),
            count(*) filter (stat.Stat not in ('Average', 'Sum')),
            count(*) filter (coalesce(e.StatusCode, 'Complete') not in ('Complete', 'PartialData')) from telemetry_results"""
    ).fetchone() or (0, 0, 0)
    con.execute("drop table telemetry_results")
    con.execute("drop table telemetry_queries")
    texts = (
        "{n} series without their query: store MetricDataQueries beside MetricDataResults",
        "{n} series of other statistics than Average and Sum not used",
        "{n} series that CloudWatch could not answer",
    )
    return [text.format(n=n) for n, text in zip(odd, texts, strict=True) if n]


def _stage(con: duckdb.DuckDBPyConnection) -> None:
    """Names the resource and device of every answer by its dimensions."""
    con.execute(
        """create or replace temp table telemetry_staged as
        with placed as (
            select *, 'arn:' || case when region like 'cn-%' then 'aws-cn' when region like 'us-gov-%' then 'aws-us-gov' else 'aws' end
                as partition, region || ':' || account_id as owner
            from telemetry_answers
        )
        select time, 'aws' as provider,
            case
                when namespace = 'AWS/NATGateway'
                    then coalesce(partition || ':ec2:' || owner || ':natgateway/' || d['NatGatewayId'], d['NatGatewayId'])
                when namespace = 'AWS/FSx'
                    then coalesce(partition || ':fsx:' || owner || ':file-system/' || d['FileSystemId'], d['FileSystemId'])
                when namespace = 'AWS/EFS'
                    then coalesce(partition || ':elasticfilesystem:' || owner || ':file-system/' || d['FileSystemId'], d['FileSystemId'])
                -- SageMaker writes the endpoint's name in lower case into its ARN
                when namespace in ('AWS/SageMaker', '/aws/sagemaker/Endpoints')
                    then coalesce(partition || ':sagemaker:' || owner || ':endpoint/' || lower(d['EndpointName']), d['EndpointName'])
                -- the host is the job's name and the number of its machine
                when namespace = '/aws/sagemaker/TrainingJobs'
                    then coalesce(partition || ':sagemaker:' || owner || ':training-job/' || split_part(d['Host'], '/', 1), split_part(d['Host'], '/', 1))
                when namespace = 'AWS/EBS' then d['VolumeId']
                when namespace = 'AWS/S3' then d['BucketName']
                else coalesce(d['InstanceId'], d['host']) end as resource_id,
            case
                when metric_name like 'nvidia_smi%' then coalesce(d['index'], '')
                when metric_name like 'node_gpu%' then coalesce(d['GpuDevice'], '')
                when metric_name like 'node_neuroncore%' then concat_ws('/', d['NeuronDevice'], d['NeuronCore'])
                else '' end as device,
            case
                when metric_name = 'cpu_usage_iowait' then case when coalesce(d['cpu'], 'cpu-total') = 'cpu-total' then '' else d['cpu'] end
                -- one dimension is the resource itself: such a series speaks for all
                when cardinality(d) <= 1 and d['Host'] is null then ''
                else array_to_string(list_sort(list_transform(map_entries(d), lambda x: x.key || '=' || x.value)), ',') end as series,
            namespace || '|' || metric_name as name, '*|' || metric_name as other_name, mean, total, unit, seconds, place
        from placed"""
    )
    con.execute("drop table telemetry_answers")
