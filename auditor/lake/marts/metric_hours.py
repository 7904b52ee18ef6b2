"""Metric hours: every series added up to hours, with what its own rhythm would lead one to expect.

A month of minute samples is tens of millions of rows. Exact quantiles and spacings keep all values of a group in memory,
so the series are taken in portions of a few million samples; then any order of arrival fits into the engine's limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# About 300 MB of quantile state where no two neighbouring samples belong to one hour.
_PORTION = 4_000_000

# One series a resource, whatever ids its samples came under.
_SERIES = """
create or replace temp table metric_series as
with reported as (
    select provider, resource_id, device, metric, count(*) as samples
    from metrics
    where time is not null and value is not null
    group by provider, resource_id, device, metric
),

resolved as (
    select
        reported.provider as reported_provider,
        reported.resource_id as reported_id,
        reported.device as reported_device,
        reported.metric,
        reported.samples,
        ids.provider,
        ids.ResourceId,
        coalesce(reported.device, '') as device
    from reported
    join metric_identities as ids
        on ids.reported_provider is not distinct from reported.provider and ids.reported_id = reported.resource_id
),

numbered as (
    select *, dense_rank() over (order by provider, ResourceId, device, metric) as series
    from resolved
),

sized as (
    select series, sum(samples) as samples from numbered group by series
),

portions as (
    select series, (sum(samples) over (order by series) - 1) // $portion as portion from sized
)

select numbered.*, portions.portion::bigint as portion
from numbered
join portions using (series)
"""

_SAMPLES = """
create or replace temp table portion_samples as
select metric_series.series, metrics.time, metrics.value
from metrics
join metric_series
    on metric_series.reported_provider is not distinct from metrics.provider
    and metric_series.reported_id = metrics.resource_id
    and metric_series.reported_device is not distinct from metrics.device
    and metric_series.metric = metrics.metric
where metric_series.portion = $portion and metrics.time is not null and metrics.value is not null
"""

_SUMS_TABLE = """
create or replace temp table series_hours (
    series bigint, hour timestamp, samples bigint, mean_value double, min_value double, max_value double, p95_value double, sum_value double
)
"""

_SUMS = """
insert into series_hours
select
    series,
    date_trunc('hour', time) as hour,
    count(*) as samples,
    avg(value) as mean_value,
    min(value) as min_value,
    max(value) as max_value,
    quantile_cont(value, 0.95) as p95_value,
    sum(value) as sum_value
from portion_samples
group by series, date_trunc('hour', time)
"""

_SPACINGS_TABLE = "create or replace temp table series_spacings (series bigint, seconds double)"

_SPACINGS = """
insert into series_spacings
select series, median(seconds) as seconds
from (
    select series, epoch(time) - lag(epoch(time)) over (partition by series order by time) as seconds
    from portion_samples
)
where seconds > 0
group by series
"""

# A series of one sample has no spacing of its own: it keeps the beat of its kind, else of an hour.
_METRIC_HOURS = """
create or replace table metric_hours as
with named as (
    select series, any_value(provider) as provider, any_value(ResourceId) as ResourceId, any_value(device) as device, any_value(metric) as metric
    from metric_series
    group by series
),

kinds as (
    select named.provider, named.metric, median(series_spacings.seconds) as seconds
    from named
    join series_spacings using (series)
    group by named.provider, named.metric
)

select
    named.provider,
    named.ResourceId,
    named.device,
    named.metric,
    series_hours.hour,
    series_hours.samples,
    3600 / coalesce(series_spacings.seconds, kinds.seconds, 3600) as expected,
    series_hours.mean_value,
    series_hours.min_value,
    series_hours.max_value,
    series_hours.p95_value,
    series_hours.sum_value
from series_hours
join named using (series)
left join series_spacings using (series)
left join kinds on kinds.provider is not distinct from named.provider and kinds.metric = named.metric
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `metric_hours`, one row per provider, ResourceId, device, metric and hour.

    `expected` is the number of samples an hour at the series' own median spacing; a resource that no bill and no inventory
    knows keeps the id its samples came with.
    """
    con.execute(_SERIES, {"portion": _PORTION})
    con.execute(_SUMS_TABLE)
    con.execute(_SPACINGS_TABLE)
    last = con.execute("select coalesce(max(portion), -1) from metric_series").fetchone()
    for portion in range(int(last[0]) + 1 if last else 0):
        con.execute(_SAMPLES, {"portion": portion})
        con.execute(_SUMS)
        con.execute(_SPACINGS)
    con.execute("drop table if exists portion_samples")
    con.execute(_METRIC_HOURS)
    for table in ("metric_series", "series_hours", "series_spacings"):
        con.execute(f"drop table {table}")
