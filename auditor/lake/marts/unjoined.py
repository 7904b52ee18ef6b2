"""Unjoined: what bill, telemetry and inventory say of resources that the others do not know.

A wrong join would move money to the wrong machine, so only exact keys join; here a reader sees what that left apart, what
it costs, and which of the three sources would have to name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_UNJOINED = """
create or replace table unjoined as
with watched as (
    select distinct provider, ResourceId from metric_hours where regexp_matches(metric, '^(gpu|tpu|neuron)[.]')
),

billed as (
    select provider, ResourceId, BillingCurrency, sum(EffectiveCost)::decimal(30, 12) as EffectiveCost, any_value(ServiceName) as ServiceName
    from accelerator_hours
    where class <> 'reserved_unused'
    group by provider, ResourceId, BillingCurrency
),

inventoried as (
    select distinct provider from resources where ResourceType in ('instance', 'tpu_node', 'endpoint', 'notebook', 'training_job', 'ml_compute')
),

ambiguous as (
    select distinct provider, alias from ambiguous_aliases
)

select
    'telemetry' as kind,
    ids.reported_provider as provider,
    ids.reported_id as id,
    case
        when max(ambiguous.alias) is not null then 'two or more resources answer to this name'
        else 'no bill and no inventory knows this name'
    end as reason,
    null::decimal(30, 12) as EffectiveCost,
    null::varchar as BillingCurrency,
    sum(reported.samples)::bigint as samples
from metric_identities as ids
join reported_series as reported on reported.resource_id = ids.reported_id and reported.provider is not distinct from ids.reported_provider
left join ambiguous
    on ambiguous.alias in (lower(trim(ids.reported_id)), plain_id(ids.reported_id))
    and ambiguous.provider = coalesce(ids.reported_provider, ambiguous.provider)
where not ids.resolved
group by ids.reported_provider, ids.reported_id
union all
select 'bill', billed.provider, billed.ResourceId, 'no sample of its accelerators', billed.EffectiveCost, billed.BillingCurrency, 0
from billed
left join watched on watched.provider = billed.provider and watched.ResourceId = billed.ResourceId
where billed.ResourceId is not null and watched.ResourceId is null
union all
select 'bill', billed.provider, null, 'the bill names no resource: ' || coalesce(billed.ServiceName, 'unknown service'), billed.EffectiveCost, billed.BillingCurrency, 0
from billed
where billed.ResourceId is null
union all
-- only where there is an inventory at all: without one every machine would stand here
select 'inventory', billed.provider, billed.ResourceId, 'no inventory lists it', billed.EffectiveCost, billed.BillingCurrency, null
from billed
join inventoried on inventoried.provider = billed.provider
left join resources on resources.provider = billed.provider and resources.ResourceId = billed.ResourceId
where billed.ResourceId is not null and resources.ResourceId is null
union all
select
    'inventory',
    instances.provider,
    instances.ResourceId,
    'no bill charges it in the window, in state ' || coalesce(instances.state, 'unknown'),
    null,
    null,
    (select sum(metric_hours.samples)::bigint from metric_hours where metric_hours.provider = instances.provider and metric_hours.ResourceId = instances.ResourceId)
from instances
left join billed
    on billed.provider = instances.provider
    and lower(billed.ResourceId) in (
        lower(instances.ResourceId),
        -- the members of a scale set are billed with it
        regexp_replace(lower(instances.ResourceId), '(/virtualmachinescalesets/[^/]+)/virtualmachines/[^/]+$', '\1')
    )
where instances.accelerator_count > 0 and billed.ResourceId is null
    and coalesce(instances.state, '') not in ('terminated', 'deleted', 'stopped', 'deallocated', 'suspended', 'stopping', 'deallocating')
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `unjoined`, one row per kind, provider and id that the other sources do not answer to.

    `kind` says whose id it is: `telemetry` (samples without a resource; `samples` counts them), `bill` (accelerator cost
    without telemetry, or without a resource at all), `inventory` (a billed accelerator that no inventory lists, or a
    listed one that no bill charges). EffectiveCost is that of the window, null where the bill does not know the id.
    """
    con.execute(_UNJOINED)
