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
_STEADY_STEPS = 6  # fewer even steps in a day are chance

# One series a resource, whatever ids its samples came under.
_SERIES = """
create or replace temp table metric_series as
with resolved as (
    select
        reported.provider as reported_provider,
        reported.resource_id as reported_id,
        reported.device as reported_device,
        reported.metric,
        reported.samples,
        ids.provider,
        ids.ResourceId,
        concat_ws('/', ids.member, case when ids.member is null then coalesce(reported.device, '') else nullif(reported.device, '') end) as device
    from reported_series as reported
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
),

spelled as (
    select
        series,
        reported_provider,
        reported_id,
        row_number() over (partition by series order by sum(samples) desc, reported_id, reported_provider nulls last) as spelling
    from numbered
    group by series, reported_provider, reported_id
)

select numbered.*, portions.portion::bigint as portion, spelled.spelling
from numbered
join portions using (series)
join spelled
    on spelled.series = numbered.series and spelled.reported_id = numbered.reported_id
    and spelled.reported_provider is not distinct from numbered.reported_provider
"""

# The samples under the number of their series: what follows reads whole numbers in order, not four texts a sample.
_SAMPLES = """
create or replace temp table series_samples as
select metric_series.series::integer as series, metric_series.spelling::integer as spelling, metrics.time, metrics.value
from metrics
join metric_series
    on metric_series.reported_provider is not distinct from metrics.provider
    and metric_series.reported_id = metrics.resource_id
    and metric_series.reported_device is not distinct from metrics.device
    and metric_series.metric = metrics.metric
where metrics.time is not null and metrics.value is not null
"""

# Two sources may watch one machine under two ids, or one under its id with and without the cloud, each with its own
# clock: the one with the most samples counts, and the others fill the steps in which it is silent. Steps are as long as
# its own beat, so that a shift of seconds is none.
_BEATS = """
create or replace temp table series_beats as
select series, median(seconds) as seconds
from (
    select series, epoch(time) - lag(epoch(time)) over (partition by series order by time) as seconds
    from series_samples
    where spelling = 1 and series in (select series from metric_series where spelling > 1)
)
where seconds > 0
group by series
"""

_ONCE = """
delete from series_samples
where rowid in (
    select id
    from (
        select
            series_samples.rowid as id,
            series_samples.spelling,
            min(series_samples.spelling) over (
                partition by series_samples.series, floor(epoch(series_samples.time) / coalesce(series_beats.seconds, 0.000001))
            ) as best
        from series_samples
        left join series_beats using (series)
        where series_samples.series in (select series from metric_series where spelling > 1)
    )
    where spelling > best
)
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
from series_samples
where series between $first and $last
group by series, date_trunc('hour', time)
"""

_SPACINGS_TABLE = (
    "create or replace temp table series_spacings (series bigint, day date, seconds double, is_steady boolean)"
)

# The day's own beat beside the series': a source that keeps minutes for two weeks and five minutes afterwards, or an
# agent that was set to another interval, loses nothing on its slower days. Lost samples make steps uneven; only even
# steps are a beat.
_SPACINGS = """
insert into series_spacings
select
    series,
    day,
    quantiles[2] as seconds,
    quantiles[3] - quantiles[1] <= 0.1 * quantiles[2] and steps >= $steady_steps as is_steady
from (
    select series, day, quantile_cont(seconds, [0.1, 0.5, 0.9]) as quantiles, count(*) as steps
    from (
        select series, time::date as day, epoch(time) - lag(epoch(time)) over (partition by series order by time) as seconds
        from series_samples
        where series between $first and $last
    )
    where seconds > 0
    group by grouping sets ((series, day), (series))
)
"""

# A series of one sample has no spacing of its own: it keeps the beat of its kind, else of an hour. What a resource's
# devices tell by themselves on a day, a series without a device only repeats, whatever id it came under.
_METRIC_HOURS = """
create or replace table metric_hours as
with named as (
    select series, any_value(provider) as provider, any_value(ResourceId) as ResourceId, any_value(device) as device, any_value(metric) as metric
    from metric_series
    group by series
),

own as (
    select series, seconds from series_spacings where day is null
),

of_day as (
    select series, day, seconds from series_spacings where day is not null and is_steady
),

kinds as (
    select named.provider, named.metric, median(own.seconds) as seconds
    from named
    join own using (series)
    group by named.provider, named.metric
),

whole as (
    select distinct named.provider, named.ResourceId, named.metric, series_hours.hour::date as day
    from series_hours
    join named using (series)
    where named.device = ''
),

repeated as (
    select distinct whole.provider, whole.ResourceId, whole.metric, whole.day
    from series_hours
    join named using (series)
    join whole
        on whole.provider is not distinct from named.provider and whole.ResourceId = named.ResourceId
        and whole.metric = named.metric and whole.day = series_hours.hour::date
    where named.device <> ''
)

select
    named.provider,
    named.ResourceId,
    named.device,
    named.metric,
    series_hours.hour,
    series_hours.samples,
    3600 / coalesce(of_day.seconds, own.seconds, kinds.seconds, 3600) as expected,
    series_hours.mean_value,
    series_hours.min_value,
    series_hours.max_value,
    series_hours.p95_value,
    series_hours.sum_value
from series_hours
join named using (series)
left join own using (series)
left join of_day on of_day.series = series_hours.series and of_day.day = series_hours.hour::date
left join kinds on kinds.provider is not distinct from named.provider and kinds.metric = named.metric
left join repeated
    on named.device = '' and repeated.provider is not distinct from named.provider and repeated.ResourceId = named.ResourceId
    and repeated.metric = named.metric and repeated.day = series_hours.hour::date
where repeated.day is null
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `metric_hours`, one row per provider, ResourceId, device, metric and hour.

    `expected` is the number of samples an hour at the series' own median spacing, on a day of another even spacing at that
    one; a resource that no bill and no inventory knows keeps the id its samples came with. Of two sources that tell of
    one device at one time one counts.
    """
    con.execute(_SERIES, {"portion": _PORTION})
    con.execute(_SAMPLES)
    if con.execute("select 1 from metric_series where spelling > 1 limit 1").fetchone():
        con.execute(_BEATS)
        con.execute(_ONCE)
        con.execute("drop table series_beats")
    con.execute(_SUMS_TABLE)
    con.execute(_SPACINGS_TABLE)
    portions = con.execute(
        "select min(series), max(series) from metric_series group by portion order by portion"
    ).fetchall()
    for first, last in portions:
        con.execute(_SUMS, {"first": first, "last": last})
        con.execute(_SPACINGS, {"first": first, "last": last, "steady_steps": _STEADY_STEPS})
    con.execute("drop table series_samples")
    con.execute(_METRIC_HOURS)
    for table in ("metric_series", "series_hours", "series_spacings"):
        con.execute(f"drop table {table}")
