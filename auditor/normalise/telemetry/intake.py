"""Takes staged vendor samples into the lake's terms: our metric, our unit, and a verdict on every sample."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import duckdb

from auditor.normalise.telemetry.signals import HIGHEST_RATIO, REFUSED, SIGNALS, UNDECLARED, UNITS, kind
from auditor.views import METRICS

# What a vendor's reader stages. `mean` and `total` are the same figure where the source has one; `series` names the
# dimensions that are added up; `seconds` is the length of the sample's interval where the source tells it; `place`
# grows in the order of delivery, because of equal samples the last counts.
STAGED: dict[str, str] = {
    "time": "TIMESTAMP",
    "provider": "VARCHAR",
    "resource_id": "VARCHAR",
    "device": "VARCHAR",
    "series": "VARCHAR",
    "name": "VARCHAR",
    "other_name": "VARCHAR",
    "mean": "DOUBLE",
    "total": "DOUBLE",
    "unit": "VARCHAR",
    "seconds": "DOUBLE",
    "place": "BIGINT",
}

_MACROS = r"""
create or replace temp macro telemetry_cloud_id(x) as case
    when x like 'aws:///%' then nullif(regexp_extract(x, '/(i-[0-9a-f]+)$', 1), '')
    when regexp_matches(x, '^i-[0-9a-f]{8,17}$') then x
    when regexp_matches(x, '^gce://[^/]+/[^/]+/[^/]+$')
        then regexp_replace(x, '^gce://([^/]+)/([^/]+)/([^/]+)$', '//compute.googleapis.com/projects/\1/zones/\2/instances/\3')
    when x ilike 'azure:///subscriptions/%' then substr(x, 9)
    when x ilike '/subscriptions/%' or x like '//%.googleapis.com/%' or x like 'arn:%' then x
    when regexp_matches(x, '^[a-z0-9-]+\.[a-z0-9-]+\.c\.[a-z0-9.:-]+\.internal$')
        then regexp_replace(x, '^([a-z0-9-]+)\.([a-z0-9-]+)\.c\.([a-z0-9.:-]+)\.internal$',
            '//compute.googleapis.com/projects/\3/zones/\2/instances/\1')
end;
create or replace temp macro telemetry_provider(x) as case
    when regexp_matches(x, '^(i|vol|fs|nat)-[0-9a-f]{8,17}$') or x like 'arn:aws%' then 'aws'
    when x like '%.ec2.internal' or x like '%.compute.internal' then 'aws'
    when x like '//%.googleapis.com/%' or x like 'projects/%/zones/%' then 'gcp'
    when x ilike '/subscriptions/%' or x like '%.internal.cloudapp.net' then 'azure'
end;
create or replace temp macro telemetry_time(x) as case
    -- a cast to TIMESTAMP ignores an offset, so only the cast to an aware type may see one
    when regexp_matches(x, '[+-]\d\d(:?\d\d)?$') and x like '%:%' then make_timestamp(epoch_us(try_cast(x as timestamptz)))
    when regexp_matches(x, '^\d{9,11}(\.\d+)?$') then make_timestamp(cast(round(try_cast(x as double) * 1000000) as bigint))
    when regexp_matches(x, '^\d{12,14}$') then make_timestamp(try_cast(x as bigint) * 1000)
    else try_cast(x as timestamp)
end;
"""


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Creates `metrics` and the temporary tables that live between load and finish."""
    columns = ", ".join(f"{name} {kind_}" for name, kind_ in METRICS.items())
    con.execute(f"create table if not exists metrics ({columns})")
    con.execute(
        f"create temp table if not exists telemetry_parts ({columns}, combine varchar, part varchar, series varchar, "
        "sequence bigint)"
    )
    con.execute("create temp table if not exists telemetry_nodes (node varchar, resource_id varchar, provider varchar)")
    con.execute("create temp sequence if not exists telemetry_batch")
    con.execute(_MACROS)
    signals = [
        {**signal._asdict(), "kind": "bytes" if signal.combine == "share" else kind(signal.metric)}
        for signal in SIGNALS
    ]
    con.execute(
        """create or replace temp table telemetry_signals as
        select s.* from (select unnest(from_json($signals, '[{"source": "VARCHAR", "name": "VARCHAR", "metric": "VARCHAR",
            "unit": "VARCHAR", "combine": "VARCHAR", "part": "VARCHAR", "statistic": "VARCHAR", "kind": "VARCHAR"}]')) s)""",
        {"signals": json.dumps(signals)},
    )
    con.execute(
        """create or replace temp table telemetry_units as
        select u.* from (select unnest(from_json($units,
            '[{"kind": "VARCHAR", "unit": "VARCHAR", "factor": "DOUBLE", "rate_seconds": "DOUBLE"}]')) u)""",
        {"units": json.dumps([unit._asdict() for unit in UNITS])},
    )


class Taken(NamedTuple):
    """How many samples were kept, and the sentence on the others (None where there are none)."""

    rows: int
    message: str | None


_VERDICTS = {
    "capped": "{n} ratios up to 1.5 capped at 1",
    "dropped": "{n} samples dropped (negative, out of range, not a number or a blank reading)",
    "percent": "{n} samples dropped (ratios of series that often exceed what a ratio can be)",
    "unreadable": "{n} rows dropped (no readable time, value or resource)",
    "unit": "{n} samples dropped (declared in a unit that the metric cannot have)",
    "interval": "{n} samples dropped (a rate without the length of its interval)",
    "statistic": "{n} samples dropped (without the statistic that the metric needs: average, or sum for bytes and counts)",
    "homeless": "{n} samples dropped (their labels name no machine or resource)",
    "duplicate": "{n} repeated samples, the last of each kept",
}


def describe(counts: Mapping[str, int], unused: Mapping[str, int], notes: list[str]) -> str | None:
    """One sentence a verdict, then what was in the file and is of no use."""
    said = [text.format(n=counts[verdict]) for verdict, text in _VERDICTS.items() if counts.get(verdict)]
    named = sorted(unused.items(), key=lambda item: (-item[1], item[0]))
    if named:
        some = ", ".join(f"{name} ({n}{_why(name)})" for name, n in named[:5])
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        said.append(f"metrics not used: {some}{more}")
    return "; ".join([*said, *notes]) or None


def _why(name: str) -> str:
    reason = REFUSED.get(name.rpartition("|")[2])
    return f": {reason}" if reason else ""


def take(con: duckdb.DuckDBPyConnection, source: str, notes: list[str]) -> Taken:
    """Judges every row of `telemetry_staged`, appends the good ones, and says what became of the others.

    A sample that needs its fellows (bytes of two directions, used and total memory) waits in `telemetry_parts`.
    """
    con.execute(
        """create or replace temp table telemetry_judged as
        with declared as (
            -- a few names and units stand for millions of samples
            select distinct name, other_name, unit from telemetry_staged
        ), known as (
            select d.name, d.unit as declared_unit, sg.metric, sg.combine, sg.part, sg.kind, sg.statistic,
                case when lower(trim(coalesce(d.unit, ''))) in (select unnest($undeclared)) then sg.unit
                    else lower(trim(d.unit)) end as effective_unit
            from declared d
            left join telemetry_signals sg on sg.source = $source and (sg.name = d.name or sg.name = d.other_name)
        ), meanings as (
            select k.*, case when u.kind = 'ratio' and u.factor < 1 then 'percent' else u.kind end as met_unit,
                u.factor, u.rate_seconds
            from known k left join telemetry_units u on u.kind = k.kind and u.unit = k.effective_unit
        ), converted as (
            select st.time, st.provider, st.resource_id, st.device, st.series, st.name, st.place,
                m.metric, m.combine, m.part, m.kind, m.met_unit,
                case m.statistic when 'sum' then st.total else st.mean end as figure,
                figure * m.factor * case when m.rate_seconds is null then 1.0 else st.seconds / m.rate_seconds end as value
            from telemetry_staged st
            join meanings m on m.name = st.name and m.declared_unit is not distinct from st.unit
        )
        select *, case
            when metric is null then 'unused'
            when resource_id is null then 'homeless'
            when time is null then 'unreadable'
            when figure is null then 'statistic'
            when met_unit is null then 'unit'
            when value is null then 'interval'
            when not isfinite(value) or value < 0 or (kind = 'ratio' and value > $highest) then 'dropped'
            when kind = 'ratio' and value > 1 then 'capped'
            else 'kept' end as verdict
        from converted""",
        {"source": source, "undeclared": list(UNDECLARED), "highest": HIGHEST_RATIO},
    )
    counts = dict(con.execute("select verdict, count(*) from telemetry_judged group by 1").fetchall())
    unused = dict(
        con.execute("select name, count(*) from telemetry_judged where verdict = 'unused' group by 1").fetchall()
    )
    columns = "time, provider, resource_id, device, metric, case when kind = 'ratio' then least(value, 1) else value end, met_unit"
    con.execute(
        f"insert into metrics select {columns} from telemetry_judged where verdict in ('kept', 'capped') and combine = 'direct' order by place, value"
    )
    con.execute(
        f"""insert into telemetry_parts select {columns}, combine, part, series, b.batch * 1000000000000 + place
        from telemetry_judged, (select nextval('telemetry_batch') as batch) b
        where verdict in ('kept', 'capped') and combine <> 'direct'"""
    )
    repeated = con.execute(
        """select count(*) - count(distinct hash(provider, resource_id, device, series, name, time))
        from telemetry_judged where verdict in ('kept', 'capped')"""
    ).fetchone()
    counts["duplicate"] = repeated[0] if repeated else 0
    con.execute("drop table telemetry_judged")
    con.execute("drop table telemetry_staged")
    return Taken(counts.get("kept", 0) + counts.get("capped", 0), describe(counts, unused, notes))
