"""The series beside a run's document: costs by day, the ledger cut several ways, and the samples behind findings."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from auditor import render

POINTS = 120  # of one line of a chart: what an eye can tell apart in a card
CHARTED = 300  # findings, the dearest first; the rest of a huge run stays in the data files
HISTORY_DAYS = 56  # before the end of the window: twice what a forecast needs
DEAREST_MACHINES = 30
DEAREST_PAYERS = 40

# What would bring samples of an accelerator, by where it runs.
_TELEMETRY_STEPS = {
    "aws": "install the CloudWatch agent with its nvidia_gpu section, or run dcgm-exporter and scrape it with Prometheus",
    "gcp": "install the Ops Agent, which reports agent.googleapis.com/gpu, or enable DCGM metrics of the GKE cluster",
    "azure": "run dcgm-exporter on the machine and scrape it with Managed Prometheus; Azure itself has no GPU metric for machines",
}

# Beginning of a rule's id -> (metric, label, unit) of the sums that it judges by.
_SUMMED = {
    "network.nat": (("nat.bytes", "Bytes through the gateway", "bytes"),),
    "storage.idle_filesystem": (
        ("fs.read_bytes", "Bytes read", "bytes"),
        ("fs.write_bytes", "Bytes written", "bytes"),
    ),
    "storage.unattached": (("disk.read_bytes", "Bytes read", "bytes"), ("disk.write_bytes", "Bytes written", "bytes")),
    "gpu.idle_endpoint": (("endpoint.invocations", "Requests", "count"),),
}
# Rules that compare the busiest hour with a threshold: parameter that holds it.
_THRESHOLDS = {"gpu.underused_instance": "max_p95"}


def daily_costs(con: duckdb.DuckDBPyConnection) -> tuple[render.DailyCost, ...]:
    """EffectiveCost by provider, account, service and owner of every day of the windows."""
    rows = con.execute("""
        select provider, SubAccountId, ServiceName, owner, day, BillingCurrency, sum(EffectiveCost)
        from charges join audit_windows using (provider)
        where day >= window_start and day < window_end
        group by all order by all
    """).fetchall()
    return tuple(render.DailyCost(*row) for row in rows)


def history(con: duckdb.DuckDBPyConnection) -> tuple[render.DayTotal, ...]:
    """EffectiveCost by provider of the last days before the windows' ends, inside the windows or not."""
    rows = con.execute(
        """
        select provider, day, BillingCurrency, sum(EffectiveCost)
        from charges join audit_windows using (provider)
        where day >= window_end - to_days(?) and day < window_end
        group by all order by all
        """,
        [HISTORY_DAYS],
    ).fetchall()
    return tuple(render.DayTotal(*row) for row in rows)


def account_names(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The newest name that the bill has for an account whose id is not its name already."""
    rows = con.execute("""
        select SubAccountId, arg_max(SubAccountName, day)
        from charges
        where SubAccountName is not null and SubAccountName <> '' and SubAccountName <> SubAccountId
        group by SubAccountId
    """).fetchall()
    return dict(rows)


def gpu_slices(con: duckdb.DuckDBPyConnection, key: str) -> tuple[render.GpuSlice, ...]:
    """The ledger's classes by one key, an expression over accelerator_hours."""
    rows = con.execute(
        f"select {key}, class, coalesce(sum(accelerator_hours), 0), sum(EffectiveCost), BillingCurrency from accelerator_hours group by all order by all"
    ).fetchall()
    return tuple(render.GpuSlice(*row) for row in rows)


def machine_days(con: duckdb.DuckDBPyConnection) -> tuple[render.MachineDay, ...]:
    """The ledger of the dearest machines of each currency by day and class."""
    rows = con.execute(
        """
        with machines as (
            select provider, ResourceId, BillingCurrency, max(ResourceName) as name, max(owner) as owner,
                max(machine_type) as machine_type,
                row_number() over (partition by BillingCurrency order by sum(EffectiveCost) desc, ResourceId) as place
            from accelerator_hours where ResourceId is not null
            group by provider, ResourceId, BillingCurrency
        )
        select provider, ResourceId, m.name, m.owner, m.machine_type, hour::date, class, sum(EffectiveCost), BillingCurrency
        from accelerator_hours join machines as m using (provider, ResourceId, BillingCurrency)
        where place <= ?
        group by all order by all
        """,
        [DEAREST_MACHINES],
    ).fetchall()
    return tuple(render.MachineDay(*row) for row in rows)


def week_hours(con: duckdb.DuckDBPyConnection) -> tuple[render.WeekHour, ...]:
    """The ledger by hour of the week, in UTC as the bills are."""
    rows = con.execute("""
        select isodow(hour) - 1, hour(hour), class, sum(EffectiveCost), BillingCurrency
        from accelerator_hours group by all order by all
    """).fetchall()
    return tuple(render.WeekHour(*row) for row in rows)


def transfer_edges(con: duckdb.DuckDBPyConnection) -> tuple[render.TransferEdge, ...]:
    """Transfer charges by the places between which they arose."""
    rows = con.execute("""
        select coalesce(from_region_id, RegionId), coalesce(to_region_id, case when usage_kind like '%internet%' then 'internet' end), usage_kind, sum(EffectiveCost), BillingCurrency
        from transfers join audit_windows using (provider)
        where day >= window_start and day < window_end
        group by all having sum(EffectiveCost) > 0 order by 4 desc, 1, 2, 3
    """).fetchall()
    return tuple(render.TransferEdge(*row) for row in rows)


def transfer_payers(con: duckdb.DuckDBPyConnection) -> tuple[render.TransferPayer, ...]:
    """Transfer charges by owner and kind; the resources that pay most by name, the others of an owner as one."""
    rows = con.execute(
        """
        with paid as (
            select owner, provider, SubAccountId, ResourceId, max(ResourceName) as name, usage_kind, sum(gigabytes) as gigabytes,
                sum(EffectiveCost) as cost, BillingCurrency,
                row_number() over (partition by BillingCurrency order by sum(EffectiveCost) desc, ResourceId, usage_kind) as place
            from transfers join audit_windows using (provider)
            where day >= window_start and day < window_end
            group by owner, provider, SubAccountId, ResourceId, usage_kind, BillingCurrency
            having sum(EffectiveCost) <> 0
        ),
        inventoried as (select provider, ResourceId, max(ResourceName) as known_name from resources group by all)
        select owner, provider, case when place <= $most then SubAccountId end, case when place <= $most then ResourceId end,
            case when place <= $most then coalesce(name, known_name) end, usage_kind, sum(gigabytes), sum(cost), BillingCurrency
        from paid left join inventoried using (provider, ResourceId)
        group by all order by 8 desc, 1, 2, 3, 4, 6
        """,
        {"most": DEAREST_PAYERS},
    ).fetchall()
    return tuple(render.TransferPayer(*row) for row in rows)


def no_telemetry(con: duckdb.DuckDBPyConnection) -> tuple[render.NoTelemetry, ...]:
    """Accelerators of which no hour could be judged, dearest first."""
    rows = con.execute("""
        select ResourceId, any_value(machine_type), sum(EffectiveCost), BillingCurrency, provider
        from accelerator_hours
        where ResourceId is not null
        group by ResourceId, BillingCurrency, provider
        having count(*) filter (where class <> 'no_telemetry') = 0
        order by 3 desc, 1
    """).fetchall()
    unknown = "send samples of gpu.utilization for it as a metrics table"
    return tuple(
        render.NoTelemetry(row[0], row[1], row[2], row[3], _TELEMETRY_STEPS.get(row[4], unknown)) for row in rows
    )


def unjoined(con: duckdb.DuckDBPyConnection) -> tuple[render.Unjoined, ...]:
    """What no other source knows, dearest first; accelerators without samples are told by `no_telemetry`."""
    rows = con.execute("""
        select kind, provider, id, reason, EffectiveCost, BillingCurrency, samples
        from unjoined
        where kind <> 'bill' or id is null
        order by EffectiveCost desc nulls last, samples desc, kind, id, reason
    """).fetchall()
    return tuple(render.Unjoined(*row) for row in rows)


def classification(con: duckdb.DuckDBPyConnection) -> tuple[render.Classification, ...]:
    """How much of the cost has no known kind."""
    rows = con.execute("""
        select coalesce(sum(EffectiveCost) filter (where usage_kind = 'other' or usage_kind is null), 0), sum(EffectiveCost), BillingCurrency
        from charges join audit_windows using (provider)
        where day >= window_start and day < window_end
        group by BillingCurrency order by 2 desc
    """).fetchall()
    return tuple(render.Classification(*row) for row in rows)


def samples(
    con: duckdb.DuckDBPyConnection,
    findings: Iterable[Mapping[str, Any]],
    parameters: Mapping[str, Mapping[str, object]],
) -> dict[str, tuple[render.Samples, ...]]:
    """The very samples behind findings, by finding id, over the whole audit window and thinned to POINTS.

    `parameters` is rule id -> parameter -> value used, from which the thresholds come.
    """
    wanted = [
        f
        for f in findings
        if f["resource_id"] and f["status"] != "resolved" and f["rule_id"].startswith(("gpu.", "network.", "storage."))
    ][:CHARTED]  # prices and budgets have no samples to show
    _create_charted(con, wanted)
    made: dict[str, list[render.Samples]] = defaultdict(list)
    for found in (_accelerator_lines(con, parameters), _summed_lines(con), _charged_lines(con)):
        for finding_id, lines in found.items():
            if finding_id not in made or lines[0].unit == made[finding_id][0].unit:
                made[finding_id] += lines
    return {finding_id: tuple(lines) for finding_id, lines in made.items()}


def _create_charted(con: duckdb.DuckDBPyConnection, wanted: Sequence[Mapping[str, Any]]) -> None:
    """Temp table charted: the findings, their rules and steps; one JSON text carries them in."""
    rows = [
        {
            "id": f["id"],
            "rule_id": f["rule_id"],
            "provider": f["provider"],
            "resource_id": f["resource_id"],
            "currency": f["currency"],
        }
        for f in wanted
    ]
    con.execute(
        """
        create or replace temp table charted as
        select f.id, f.rule_id, f.provider, f.resource_id as ResourceId, f.currency as BillingCurrency,
            w.window_start as starts, w.window_end as ends,
            greatest(1, ceil(date_diff('hour', starts, ends) / $points))::integer as step
        from (
            select unnest(from_json($rows::json, '[{"id":"VARCHAR","rule_id":"VARCHAR","provider":"VARCHAR","resource_id":"VARCHAR","currency":"VARCHAR"}]')) as f
        )
        join audit_windows as w on w.provider = f.provider
        """,
        {"rows": json.dumps(rows), "points": POINTS},
    )


def _accelerator_lines(
    con: duckdb.DuckDBPyConnection, parameters: Mapping[str, Mapping[str, object]]
) -> dict[str, list[render.Samples]]:
    """Utilisation (and what starves it) of accelerators that a finding says are not at work."""
    rows = con.execute("""
        select c.id, c.rule_id, c.starts, c.ends, c.step, floor(date_diff('hour', c.starts, hour) / c.step)::integer as place,
            round(max(utilization_max), 4), round(avg(utilization_mean), 4), round(max(storage_pressure), 4), round(avg(input_wait), 4)
        from charted as c join accelerator_hours using (provider, ResourceId, BillingCurrency)
        where (c.rule_id like 'gpu.%' or c.rule_id like '%starved%') and hour >= c.starts and hour < c.ends
        group by all order by all
    """).fetchall()
    found: dict[str, list[render.Samples]] = {}
    for finding_id, points in _by_finding(rows).items():
        rule_id, starts, ends, step = points[0][:4]
        columns = [_spread([(p[4], p[5 + n]) for p in points], starts, ends, timedelta(hours=step)) for n in range(4)]
        if all(value is None for value in columns[0]):
            continue
        limit = parameters.get(rule_id, {}).get(_THRESHOLDS.get(rule_id, "max_utilization"))
        threshold = float(str(limit)) if limit is not None else None
        lines = [
            render.Samples("Mean of all devices", "ratio", starts, step, columns[1]),
            render.Samples("Highest sample of any device", "ratio", starts, step, columns[0], threshold),
        ]
        if "starved" in rule_id:
            named = (("Disk or file system, of its limit", columns[2]), ("Processors waiting for input", columns[3]))
            # the mean tells of waiting; a single busy sample would hide it
            lines[1:] = [
                render.Samples(label, "ratio", starts, step, values)
                for label, values in named
                if any(value is not None for value in values)
            ]
        found[finding_id] = lines
    return found


def _summed_lines(con: duckdb.DuckDBPyConnection) -> dict[str, list[render.Samples]]:
    """Bytes or requests that a finding says are none, or few."""
    found: dict[str, list[render.Samples]] = defaultdict(list)
    for prefix, metrics in _SUMMED.items():
        for metric, label, unit in metrics:
            rows = con.execute(
                """
                select c.id, c.rule_id, c.starts, c.ends, c.step, floor(date_diff('hour', c.starts, hour) / c.step)::integer as place,
                    sum(sum_value)
                from charted as c join metric_hours using (provider, ResourceId)
                where starts_with(c.rule_id, $prefix) and metric = $metric and hour >= c.starts and hour < c.ends
                group by all order by all
                """,
                {"prefix": prefix, "metric": metric},
            ).fetchall()
            for finding_id, points in _by_finding(rows).items():
                _, starts, ends, step = points[0][:4]
                values = _spread([(p[4], p[5]) for p in points], starts, ends, timedelta(hours=step))
                found[finding_id].append(render.Samples(label, unit, starts, step, values))
    return dict(found)


def _charged_lines(con: duckdb.DuckDBPyConnection) -> dict[str, list[render.Samples]]:
    """Charged bytes by day of a resource that a finding says sends too many; a day without a charge had none."""
    rows = con.execute("""
        select c.id, c.rule_id, c.starts, c.ends, 24, date_diff('day', c.starts, day)::integer as place, sum(gigabytes)
        from charted as c join transfers using (provider, ResourceId, BillingCurrency)
        where starts_with(c.rule_id, 'network.') and day >= c.starts and day < c.ends and gigabytes is not null
        group by all having sum(gigabytes) > 0 order by all
    """).fetchall()
    found = {}
    for finding_id, points in _by_finding(rows).items():
        _, starts, ends, step = points[0][:4]
        values = _spread([(p[4], p[5]) for p in points], starts, ends, timedelta(hours=step))
        charged = tuple(value or 0.0 for value in values)
        found[finding_id] = [render.Samples("Charged gigabytes", "GB", starts, step, charged)]
    return found


def _by_finding(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    grouped: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row[1:])
    return grouped


def _spread(
    points: Iterable[tuple[int, float | Decimal | None]], starts: datetime, ends: datetime, step: timedelta
) -> tuple[float | None, ...]:
    """A value for every step of the window, null where there is none."""
    values: list[float | None] = [None] * -((starts - ends) // step)
    for place, value in points:
        values[place] = None if value is None else float(value)
    return tuple(values)
