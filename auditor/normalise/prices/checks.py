"""What a price has to withstand before rules may compare with it: public lists carry errors, and each was seen in one."""

import json
from collections import Counter
from collections.abc import Sequence

import duckdb

from auditor.focus import CLASSIFICATION_KEYS, MONEY
from auditor.normalise import classify
from auditor.normalise.prices.quotes import Quote
from auditor.views import PRICES

_STAGED = {**PRICES, "variant": "VARCHAR", "at": "BIGINT", "place": "BIGINT"}
_BATCH = 20_000
_NOTHING = "''"
# The line that a bill would have for an hour of the machine, so that prices and charges name machines alike.
_MACHINE_LINE = {
    "provider": "provider",
    "ServiceName": "case provider when 'aws' then 'Amazon EC2' when 'gcp' then 'Compute Engine' else 'Virtual Machines' end",
    "x_ServiceCode": "case when provider = 'aws' then 'AmazonEC2' else '' end",
    "x_UsageType": "case when provider = 'aws' then 'BoxUsage:' || machine_type else '' end",
    "x_SkuDescription": "case when provider = 'gcp' then 'Instance Core running in' else '' end",
    "x_SkuMeterCategory": "case when provider = 'azure' then 'Virtual Machines' else '' end",
    "x_InstanceType": "machine_type",
    "ChargeCategory": "'Usage'",
}
_MAX_NOTES = 3

VERDICTS = {
    "incomplete": "{n} prices dropped (no provider, Region, price kind, currency, date, figure or number of devices)",
    "unit": "{n} prices dropped (their unit is no hour)",
    "zero": "{n} prices dropped (0 or less: a price of nothing is unknown, not free)",
    "range": "{n} prices dropped (the low end is above the high end)",
    "impossible": "{n} prices dropped (their machine type has other accelerators than they say)",
    "above": "{n} spot prices dropped (above the on-demand price of the same machine)",
    "below": "{n} on-demand prices dropped (below the spot price of the same machine: a calendar or flex SKU read as on-demand)",
}


def stage(con: duckdb.DuckDBPyConnection, quotes: Sequence[tuple[int, str, Quote]]) -> None:
    """Puts (place of the file, source, quote) into `price_stage`, with what is known of each machine type."""
    columns = ", ".join(f'"{name}" {kind}' for name, kind in _STAGED.items())
    con.execute(f"create or replace temp table price_stage ({columns})")
    shape = json.dumps([dict.fromkeys(_STAGED, "VARCHAR")])
    values = ", ".join(f'try_cast("{name}" as {kind}) as "{name}"' for name, kind in _STAGED.items())
    for start in range(0, len(quotes), _BATCH):
        rows = [
            _row(at, source, quote, start + offset)
            for offset, (at, source, quote) in enumerate(quotes[start : start + _BATCH])
        ]
        con.execute(
            f"insert into price_stage by name select {values} from (select unnest(from_json($rows, '{shape}'), recursive := true))",
            {"rows": json.dumps(rows)},
        )
    _name_machines(con)


def judge(con: duckdb.DuckDBPyConnection) -> tuple[dict[int, Counter[str]], dict[int, list[str]]]:
    """Appends the good prices to `prices_seen`. Returns the verdicts and notes of each file."""
    con.execute("""
        create or replace temp table price_judged as
        with named as (
            select
                s.* exclude (accelerator_model, accelerator_count, machine_type),
                s.accelerator_model as given_model,
                s.accelerator_count as given_count,
                k.accelerator_model as known_model,
                k.accelerator_count as known_count,
                coalesce(k.is_accelerator, false) as is_accelerator,
                coalesce(k.machine_type, s.machine_type) as machine_type,
                coalesce(k.accelerator_model, s.accelerator_model) as accelerator_model,
                coalesce(k.accelerator_count, s.accelerator_count) as accelerator_count
            from price_stage as s
            left join price_machines as k on k.provider = s.provider and k.written = s.machine_type
        ),
        scaled as (
            -- a device's price is that of the machine once it is known how many devices that has
            select *, case when unit = 'accelerator-hour' and scope = 'whole_instance' then accelerator_count else 1 end as devices
            from named
        )
        select
            * exclude (low, high, unit),
            (low * devices)::decimal(30, 12) as low,
            (high * devices)::decimal(30, 12) as high,
            'hour' as unit,
            case
                when provider is null or RegionId is null or price_kind is null or currency is null or as_of is null or source is null
                    or low is null or high is null or devices is null or coalesce(machine_type, accelerator_model) is null then 'incomplete'
                when unit is null or unit not in ('hour', 'accelerator-hour') then 'unit'
                when low <= 0 then 'zero'
                when low > high then 'range'
                when scope = 'whole_instance' and not is_accelerator and given_model is null then 'other'
                when scope = 'whole_instance' and is_accelerator
                    and (given_count <> known_count or not same_device(given_model, known_model)) then 'impossible'
                else 'good'
            end as verdict
        from scaled
    """)
    _compare_with_spot(con)
    counts: dict[int, Counter[str]] = {}
    for at, verdict, n in con.execute('select "at", verdict, count(*) from price_judged group by all').fetchall():
        counts.setdefault(at, Counter())[verdict] = n
    notes = _far_apart(con)
    columns = ", ".join(f'"{name}"' for name in PRICES)
    con.execute(
        f"insert into prices_seen by name select {columns} from price_judged where verdict = 'good' order by place"
    )
    for table in ("price_stage", "price_machines", "price_judged"):
        con.execute(f"drop table {table}")
    return counts, notes


def _row(at: int, source: str, quote: Quote, place: int) -> dict[str, object]:
    def text(value: object) -> str | None:
        return None if value is None else str(value)

    return {
        "provider": quote.provider,
        "RegionId": quote.region_id,
        "AvailabilityZone": quote.zone,
        "machine_type": quote.machine_type,
        "accelerator_model": quote.accelerator_model,
        "accelerator_count": text(quote.accelerator_count),
        "price_kind": quote.price_kind,
        "low": text(quote.low),
        "high": text(quote.high),
        "unit": quote.unit,
        "currency": quote.currency,
        "source": quote.source or source,
        "as_of": quote.as_of,
        "scope": quote.scope,
        "variant": quote.variant,
        "at": at,
        "place": place,
    }


def _name_machines(con: duckdb.DuckDBPyConnection) -> None:
    """`price_machines`: of every machine type as a list writes it the bill's spelling and its accelerators."""
    con.execute(r"""
        create or replace temp macro device_key(x) as regexp_replace(regexp_replace(lower(x), 'nvidia|tesla', '', 'g'), '[^a-z0-9]', '', 'g');
        create or replace temp macro same_device(a, b) as a is null or b is null
            or starts_with(device_key(a), device_key(b)) or starts_with(device_key(b), device_key(a));
    """)
    keys = ", ".join(f"{_MACHINE_LINE.get(name, _NOTHING)} as {name}" for name in CLASSIFICATION_KEYS)
    con.execute(f"""
        create or replace temp table price_keys as
        select distinct {keys} from price_stage where machine_type is not null and provider in ('aws', 'gcp', 'azure')
    """)
    classify.classify(con, "price_keys", "price_classes")
    con.execute("""
        create or replace temp table price_machines as
        select provider, x_InstanceType as written, machine_type, accelerator_model, accelerator_count,
            usage_kind like 'accelerator.%' as is_accelerator
        from price_classes
    """)
    con.execute("drop table price_keys; drop table price_classes")


def _compare_with_spot(con: duckdb.DuckDBPyConnection) -> None:
    """Spot above on-demand is an error of the list. Google's lists read another SKU as on-demand; elsewhere on-demand
    is spot's ceiling. Equal prices are genuine: a pool can be that tight.
    """
    same = """a.provider = b.provider and a.RegionId = b.RegionId and lower(a.machine_type) = lower(b.machine_type)
        and a.currency = b.currency and a.unit = b.unit and a.verdict = 'good' and b.verdict = 'good'"""
    con.execute(f"""
        update price_judged as a set verdict = 'below'
        where a.provider = 'gcp' and a.price_kind = 'on_demand' and exists (
            select 1 from price_judged as b where {same} and b.price_kind = 'spot' and b.low > a.high
        )
    """)
    con.execute(f"""
        update price_judged as a set verdict = 'above'
        where a.price_kind = 'spot' and a.low > (
            select max(b.high) from price_judged as b where {same} and b.price_kind = 'on_demand'
        )
    """)


def _far_apart(con: duckdb.DuckDBPyConnection) -> dict[int, list[str]]:
    """Machines that cost twice as much in one Region of a country as in another: kept, and named for a person to check."""
    rows = con.execute(f"""
        with placed as (
            select *, case when provider = 'azure' then regexp_extract(RegionId, '(us|europe|india|asia|japan|uk|korea|australia)')
                else split_part(RegionId, '-', 1) end as geography
            from price_judged where verdict = 'good' and price_kind = 'on_demand' and scope <> 'accelerator_only'
        )
        select min("at"), machine_type, arg_min(RegionId, low), min(low), arg_max(RegionId, high), max(high), currency
        from placed
        where geography <> ''
        group by provider, machine_type, currency, unit, variant, geography
        having max(high) >= 2 * min(low)::{MONEY}
        order by machine_type, currency
    """).fetchall()
    notes: dict[int, list[str]] = {}
    for at, machine, cheap, low, dear, high, currency in rows:
        said = notes.setdefault(at, [])
        if len(said) < _MAX_NOTES:
            said.append(
                f"{machine} costs {float(high):,.2f} {currency} an hour in {dear} and {float(low):,.2f} in {cheap}: check the list"
            )
    return notes
