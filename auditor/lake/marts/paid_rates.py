"""Paid rates: what an hour of each machine type costs this customer on demand, on spot and under a commitment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Commitments are sold by family. AWS and Google begin a type with it (`g5.2xlarge`, `a2-highgpu-1g`; SageMaker's `ml.g5`
# is sold apart), Azure puts the size in its middle (`Standard_NC24ads_A100_v4`).
_PAID_RATES = r"""
create or replace table paid_rates as
with hours as (
    select
        provider,
        RegionId,
        lower(machine_type) as machine_type,
        BillingCurrency,
        purchase_option,
        sum(EffectiveCost)::decimal(30, 12) as EffectiveCost,
        sum(accelerator_hours::double / accelerator_count::double) as machine_hours
    from accelerator_hours
    where
        machine_type is not null
        and accelerator_count > 0
        and usage_kind <> 'accelerator.reserved_unused'
        and purchase_option in ('on_demand', 'spot', 'committed')
    group by provider, RegionId, lower(machine_type), BillingCurrency, purchase_option
),

-- what the same charges would have cost without the commitment, where the bill says so
lists as (
    select
        provider,
        RegionId,
        lower(machine_type) as machine_type,
        BillingCurrency,
        purchase_option,
        sum(EffectiveCost)::double / nullif(sum(ListCost), 0)::double as list_ratio
    from charges
    where
        usage_kind like 'accelerator.%'
        and usage_kind <> 'accelerator.reserved_unused'
        and machine_type is not null
        and purchase_option = 'committed'
        and ListCost > EffectiveCost
        and EffectiveCost > 0
    group by provider, RegionId, lower(machine_type), BillingCurrency, purchase_option
)

select
    hours.provider,
    hours.RegionId,
    hours.machine_type,
    case
        when hours.provider = 'azure' then regexp_replace(hours.machine_type, '[0-9]+(-[0-9]+)?', '')
        else regexp_extract(hours.machine_type, '^(ml\.)?[a-z0-9]+')
    end as machine_family,
    hours.BillingCurrency,
    hours.purchase_option,
    hours.machine_hours,
    hours.EffectiveCost,
    hours.EffectiveCost::double / nullif(hours.machine_hours, 0) as hourly_rate,
    lists.list_ratio
from hours
left join lists
    on lists.provider = hours.provider and lists.RegionId is not distinct from hours.RegionId and lists.machine_type = hours.machine_type
    and lists.BillingCurrency = hours.BillingCurrency and lists.purchase_option = hours.purchase_option
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `paid_rates`, one row per machine type, region, currency and purchase option of the audit window.

    Reads `accelerator_hours` and `charges`. Rates are of a whole machine with all its lines, after private discounts.
    """
    con.execute(_PAID_RATES)
