"""Prices: the user's own lists first, then the shipped, dated facts; a source and a date on each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import assets
from auditor.views import PRICES, VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Rules compare whole machines (and TPU chips, which are billed one by one): a price of the accelerator or the host alone
# would look like a bargain. Of each list the newest price counts; zones and variants of one machine are a range.
# Where the user's lists price a machine in a Region, the shipped fact about the same is left out.
_PRICES = """
create or replace table prices as
with newest as (
    select *
    from prices_seen
    where scope in ('whole_instance', 'per_chip')
    qualify rank() over (
        partition by provider, RegionId, coalesce(AvailabilityZone, ''), lower(machine_type), price_kind, currency, unit, variant
        order by as_of desc
    ) = 1
),

given as (
    select
        provider,
        RegionId,
        any_value(machine_type) as machine_type,
        any_value(accelerator_model) as accelerator_model,
        any_value(accelerator_count) as accelerator_count,
        price_kind,
        min(low) as low,
        max(high) as high,
        unit,
        currency,
        max(source) as source,
        left(max(as_of), 10) as as_of
    from newest
    group by provider, RegionId, lower(machine_type), price_kind, unit, currency
),

shipped as (
    select {columns}
    from read_csv($path, header = true, all_varchar = true)
    where scope in ('whole_instance', 'whole_instance_derived', 'per_chip') and quality <> 'suspect'
)

select {names} from given
union all
select {names}
from shipped
where not exists (
    select 1
    from given
    where given.provider = shipped.provider and given.RegionId = shipped.RegionId and given.currency = shipped.currency
        and lower(given.machine_type) = lower(shipped.machine_type) and given.price_kind = shipped.price_kind
)
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `prices`, one row per machine type, region and price kind; `low` and `high` in `currency` per `unit`.

    Reads `prices_seen`, which may be missing where nobody gave prices.
    """
    seen = ", ".join(f'"{name}" {kind}' for name, kind in PRICES.items())
    con.execute(f"create table if not exists prices_seen ({seen})")
    path = assets.room("config") / "prices" / "accelerators.csv"
    columns = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in VIEWS["prices"].items())
    names = ", ".join(f'"{name}"' for name in VIEWS["prices"])
    con.execute(_PRICES.format(columns=columns, names=names), {"path": str(path)})
