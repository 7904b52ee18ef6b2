"""Capacity Blocks: a fee for so many instances for so many hours becomes the cost of what ran in them.

The bill shows a block as one fee and the machines in it as hours that cost nothing. Here the fee leaves its own lines of
the ledger and comes back as parts: to each machine for the hours it ran in the block, and for the rest to the block
itself as capacity that nobody used. Only the ledger moves money; the charges stay as they were billed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Bills write a reservation's ARN, inventories its short id; a fee that names no block stands for the reserved capacity
# of its account, region and machine type.
_NAMES = """
create or replace temp table block_names as
with named as (
    select provider, ResourceId as name from ledger_lines where usage_kind = 'accelerator.capacity_block'
    union
    select provider, reservation from ledger_lines
    union
    select provider, json_extract_string(attributes, '$.capacity_reservation_id') from resources
),

plainly as (
    select *, kin(provider, plain_id(name)) as kin from named where name <> ''
)

select
    plainly.provider,
    plainly.name,
    coalesce(any_value(exact.ResourceId), any_value(near.ResourceId), any_value(plainly.kin)) as block
from plainly
left join identities as exact on exact.provider = plainly.provider and exact.alias = lower(trim(plainly.name))
left join identities as near on near.provider = plainly.provider and near.alias = plainly.kin
group by plainly.provider, plainly.name
"""

_FEES = """
create or replace temp table block_fees as
with keyed as (
    select
        ledger_lines.*,
        coalesce(
            reserved.block, itself.block,
            to_json([ledger_lines.SubAccountId, ledger_lines.RegionId, ledger_lines.machine_type])::varchar
        ) as block,
        coalesce(reserved.block, itself.block) as block_id
    from ledger_lines
    left join block_names as reserved on reserved.provider = ledger_lines.provider and reserved.name = ledger_lines.reservation
    left join block_names as itself on itself.provider = ledger_lines.provider and itself.name = ledger_lines.ResourceId
    where ledger_lines.usage_kind = 'accelerator.capacity_block'
)

select
    provider,
    block,
    BillingCurrency,
    any_value(block_id) as block_id,
    sum(EffectiveCost)::decimal(30, 12) as EffectiveCost,
    min(hour) as first_hour,
    max(hour + case grain when 'day' then interval 24 hours else interval 1 hour end) as last_hour,
    sum(unit_hours) filter (where regexp_matches(unit, '(?i)^(h|hr|hour|instance.?hour)s?$')) as instance_hours,
    max(accelerator_count) as accelerator_count,
    arg_max(line, row(EffectiveCost, line)) as line
from keyed
group by provider, block, BillingCurrency
"""

# Who ran in a block, and for what part of an hour. A machine of which the bill says nothing ran where it has samples.
_USES = """
create or replace temp table block_uses as
with hints as (
    select
        resources.provider,
        resources.ResourceId,
        json_extract_string(resources.attributes, '$.capacity_reservation_id') as reservation
    from resources
),

billed as (
    select
        ledger_lines.*,
        coalesce(ledger_lines.reservation, hints.reservation) as in_reservation
    from ledger_lines
    left join hints on hints.provider = ledger_lines.provider and hints.ResourceId = ledger_lines.ResourceId
    where ledger_lines.counts = 'machine' and not ledger_lines.is_unused and ledger_lines.ResourceId is not null
        and ledger_lines.usage_kind <> 'accelerator.capacity_block'
),

keyed as (
    select billed.*, block_names.block
    from billed
    join block_names on block_names.provider = billed.provider and block_names.name = billed.in_reservation
    union all
    select billed.*, to_json([SubAccountId, RegionId, machine_type])::varchar
    from billed
    where purchase_option = 'reserved_capacity'
),

by_line as (
    select
        keyed.provider,
        keyed.block,
        keyed.ResourceId,
        keyed.grain,
        keyed.hour as period,
        least(sum(keyed.unit_hours), case keyed.grain when 'day' then 24 else 1 end) / case keyed.grain when 'day' then 24 else 1 end as part
    from keyed
    join (select distinct provider, block from block_fees) as wanted
        on wanted.provider = keyed.provider and wanted.block = keyed.block
    group by keyed.provider, keyed.block, keyed.ResourceId, keyed.grain, keyed.hour
),

seen as (
    select distinct hints.provider, block_names.block, hints.ResourceId, metric_hours.hour
    from hints
    join block_names on block_names.provider = hints.provider and block_names.name = hints.reservation
    join (select distinct provider, block from block_fees) as wanted on wanted.provider = hints.provider and wanted.block = block_names.block
    join metric_hours on metric_hours.provider = hints.provider and metric_hours.ResourceId = hints.ResourceId
    where regexp_matches(metric_hours.metric, '^(gpu|neuron|cpu)[.]')
        and not exists (select 1 from by_line where by_line.provider = hints.provider and by_line.ResourceId = hints.ResourceId)
)

select
    provider,
    block,
    ResourceId,
    grain,
    period,
    period + to_hours(step.step::integer) as hour,
    (part * 1000000)::bigint as millionths
from by_line
cross join range(24) as step (step)
where step.step = 0 or grain = 'day'
union all
select provider, block, ResourceId, 'hour', hour, hour, 1000000 from seen
"""

# The block's own times and size from the inventory. Without them its fee covers the time it is billed for, and where
# machines ran in it at another time (a fee paid in one hour, in advance), the time from the first to the last of them.
_BLOCKS = """
create or replace temp table blocks as
with known as (
    select
        resources.provider,
        resources.ResourceId as block,
        try_cast(json_extract_string(resources.attributes, '$.starts_at') as timestamp) as starts_at,
        try_cast(json_extract_string(resources.attributes, '$.ends_at') as timestamp) as ends_at,
        try_cast(json_extract_string(resources.attributes, '$.reserved_count') as double) as reserved_count,
        try_cast(json_extract_string(resources.attributes, '$.accelerator_count') as decimal(9, 3)) as seen_count
    from resources
    where resources.ResourceType = 'capacity_reservation'
),

used as (
    select provider, block, min(hour) as first_use, max(hour) + interval 1 hour as last_use
    from block_uses
    group by provider, block
),

spanned as (
    select
        block_fees.*,
        known.reserved_count,
        known.seen_count,
        greatest(date_trunc('hour', coalesce(known.starts_at, least(used.first_use, block_fees.first_hour))), audit_windows.window_start) as block_start,
        least(coalesce(known.ends_at, greatest(used.last_use, block_fees.last_hour)), audit_windows.window_end) as block_end,
        known.starts_at is null and used.first_use is not null and block_fees.last_hour - block_fees.first_hour <= interval 1 day as is_upfront,
        used.first_use,
        used.last_use
    from block_fees
    join audit_windows on audit_windows.provider = block_fees.provider
    left join known on known.provider = block_fees.provider and known.block = block_fees.block
    left join used on used.provider = block_fees.provider and used.block = block_fees.block
),

timed as (
    select
        * exclude (block_start, block_end),
        case when is_upfront then first_use when block_start < block_end then block_start else first_hour end as block_start,
        case when is_upfront then last_use when block_start < block_end then block_end else last_hour end as block_end
    from spanned
),

together as (
    select provider, block, max(parts) as machines
    from (select provider, block, hour, sum(millionths) / 1000000 as parts from block_uses group by provider, block, hour)
    group by provider, block
)

select
    timed.*,
    ceil((epoch(timed.block_end) - epoch(timed.block_start)) / 3600)::bigint as hours,
    greatest(
        1,
        coalesce(timed.reserved_count, 0),
        ceil(coalesce(together.machines, 0) - 0.000001),
        case
            when timed.reserved_count is null
                and abs(timed.instance_hours / hours - round(timed.instance_hours / hours)) < 0.01 then round(timed.instance_hours / hours)
            else 0
        end
    )::bigint as instances
from timed
left join together on together.provider = timed.provider and together.block = timed.block
"""

_PARTS = """
create or replace temp table block_parts as
with clock as (
    select
        provider,
        block,
        BillingCurrency,
        instances,
        block_start + to_hours(part::integer) as hour,
        as_units(share_of(EffectiveCost, part + 1, hours)) as units
    from (select *, unnest(range(hours)) as part from blocks)
),

running as (
    select clock.*, block_uses.ResourceId, block_uses.grain, block_uses.period, block_uses.millionths
    from clock
    join block_uses on block_uses.provider = clock.provider and block_uses.block = clock.block and block_uses.hour = clock.hour
),

unused as (
    select
        clock.*,
        null::varchar as ResourceId,
        'hour' as grain,
        clock.hour as period,
        any_value(clock.instances) * 1000000 - coalesce(sum(block_uses.millionths), 0)::bigint as millionths
    from clock
    left join block_uses on block_uses.provider = clock.provider and block_uses.block = clock.block and block_uses.hour = clock.hour
    group by all
),

parts as (
    select * from running
    union all
    select * from unused where millionths > 0
),

shared as (
    select
        *,
        units * millionths // (instances * 1000000) as part_units,
        row_number() over (partition by provider, block, BillingCurrency, hour order by ResourceId desc nulls last) as place,
        count(*) over (partition by provider, block, BillingCurrency, hour) as places
    from parts
),

exact as (
    select
        *,
        case
            when place < places then part_units
            else units - coalesce(sum(case when place < places then part_units end) over (partition by provider, block, BillingCurrency, hour), 0)
        end as exact_units
    from shared
)

select
    provider,
    block,
    BillingCurrency,
    ResourceId,
    grain,
    period,
    from_units(sum(exact_units)::hugeint) as EffectiveCost,
    sum(millionths) / 1000000 as instance_hours
from exact
group by provider, block, BillingCurrency, ResourceId, grain, period
"""

# An unused part counts instances, unless the bill has lines of its own for the reservation's empty hours.
_PLACE = """
insert into ledger_lines by name
with empty_lines as (
    select distinct ledger_lines.provider, block_names.block, ledger_lines.hour
    from ledger_lines
    join block_names on block_names.provider = ledger_lines.provider and block_names.name = coalesce(ledger_lines.reservation, ledger_lines.ResourceId)
    where ledger_lines.is_unused and ledger_lines.grain = 'hour'
),

counts as (
    select block_uses.provider, block_uses.block, max(ledger_lines.accelerator_count) as accelerator_count
    from block_uses
    join ledger_lines on ledger_lines.provider = block_uses.provider and ledger_lines.ResourceId = block_uses.ResourceId
    group by block_uses.provider, block_uses.block
)

select
    fee.* replace (
        (select max(line) from ledger_lines) + row_number() over (order by part.block, part.period, part.ResourceId, part.BillingCurrency) as line,
        coalesce(part.ResourceId, blocks.block_id) as ResourceId,
        case when part.ResourceId is null then fee.ResourceName end as ResourceName,
        part.period as hour,
        part.grain as grain,
        part.EffectiveCost as EffectiveCost,
        part.EffectiveCost as committed_cost,
        part.ResourceId is null as is_unused,
        case when part.ResourceId is null and empty_lines.block is null then 'machine' else 'part' end as counts,
        part.instance_hours::decimal(30, 12) as unit_hours,
        case when part.ResourceId is null then coalesce(fee.accelerator_count, blocks.seen_count, counts.accelerator_count) end as accelerator_count,
        case when coalesce(part.ResourceId, blocks.block_id) is null then fee.scope else '' end as scope,
        'reserved_capacity' as purchase_option
    )
from block_parts as part
join blocks
    on blocks.provider = part.provider and blocks.block = part.block
    and blocks.BillingCurrency is not distinct from part.BillingCurrency
join ledger_lines as fee on fee.line = blocks.line
left join counts on counts.provider = part.provider and counts.block = part.block
left join empty_lines on empty_lines.provider = part.provider and empty_lines.block = part.block and empty_lines.hour = part.period
"""

_SCRATCH = ("block_names", "block_fees", "block_uses", "blocks", "block_parts")


def place_fees(con: DuckDBPyConnection) -> None:
    """Replace the fees of Capacity Blocks in `ledger_lines` by parts for the machines in them and for what stood empty.

    Each block's fee is spread evenly over its hours and instances; those hours lie in the audit window, so the window's
    sum stays what it was, to the last decimal. A block whose hours all lie outside keeps the hours of its charge.
    """
    fees = con.execute("select list(line) from ledger_lines where usage_kind = 'accelerator.capacity_block'").fetchone()
    if not fees or not fees[0]:
        return
    for statement in (_NAMES, _FEES, _USES, _BLOCKS, _PARTS, _PLACE):
        con.execute(statement)
    con.execute("delete from ledger_lines where line in (select unnest($fees))", {"fees": fees[0]})
    for table in _SCRATCH:
        con.execute(f"drop table {table}")
