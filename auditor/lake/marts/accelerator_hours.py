"""The GPU-hour ledger: every billed accelerator-hour in exactly one class, its costs adding up to the bill.

The way: the accelerator charges of the window → machine-hours (a machine's device, core, RAM and disk lines together; a
daily charge divided over the hours in which its machine ran) → device-hours (a machine-hour divided over its devices) →
the class that each device's own samples show. Divisions work on whole units of 10^-12 and give the remainder to the last
part, so every step keeps the sum.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from auditor.lake.marts import capacity_blocks
from auditor.views import VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from auditor.lake.marts import LedgerThresholds, Window

_WINDOWS = """
create or replace temp table audit_windows as
select provider, window_start::timestamp as window_start, window_end::timestamp as window_end
from (
    select unnest(from_json($windows, '[{"provider": "VARCHAR", "window_start": "VARCHAR", "window_end": "VARCHAR"}]'), recursive := true)
)
"""

# Whole units of 10^-12 and back: integer division is exact where DuckDB's decimal division would be a double.
_UNITS = "create or replace temp macro as_units(amount) as (amount * 1000000000000::decimal(13, 0))::hugeint"
_AMOUNT = "create or replace temp macro from_units(units) as (units::decimal(38, 0) * 0.000000000001::decimal(13, 12))::decimal(30, 12)"
_SHARE = """
create or replace temp macro share_of(amount, part, parts) as
    case
        when parts = 1 then amount
        when part < parts then from_units(as_units(amount) // parts)
        else amount - from_units((as_units(amount) // parts) * (parts - 1))
    end
"""

# Which lines count what: Google counts devices (GPU-hours, chip-hours), the others machines; core, RAM and disk lines of
# a machine bear cost only, and so do lines that repeat a quantity (a negation) or have none (an unused reservation's fee).
_LINES = r"""
create or replace temp table ledger_lines as
with inside as (
    select accelerator_charges.*
    from accelerator_charges
    join audit_windows on audit_windows.provider = accelerator_charges.provider
    where accelerator_charges.hour >= audit_windows.window_start and accelerator_charges.hour < audit_windows.window_end
),

measured as (
    select
        *,
        coalesce(ConsumedQuantity, PricingQuantity)::decimal(30, 12) as quantity,
        case when ConsumedQuantity is not null then coalesce(ConsumedUnit, PricingUnit) else PricingUnit end as unit,
        usage_kind = 'accelerator.reserved_unused' or coalesce(CapacityReservationStatus = 'Unused', false)
            or coalesce(CommitmentDiscountStatus = 'Unused', false) as is_unused,
        regexp_matches(coalesce(x_SkuDescription, ''), '(?i)\b(gpu|tpu|chip)') as names_device
    from inside
),

told as (
    select
        *,
        case
            when regexp_matches(unit, '(?i)^(s|sec|second)s?$') then round(quantity::double / 3600, 12)::decimal(30, 12)
            when regexp_matches(unit, '(?i)^(min|minute)s?$') then round(quantity::double / 60, 12)::decimal(30, 12)
            when regexp_matches(unit, '(?i)^days?$') then quantity * 24
            when regexp_matches(unit, '(?i)months?$') then quantity * 730
            else quantity
        end as unit_hours,
        case
            when usage_kind in ('accelerator.core', 'accelerator.ram', 'accelerator.local_ssd') then 'part'
            when coalesce(ChargeCategory, 'Usage') <> 'Usage' or contains(coalesce(x_LineItemType, ''), 'Negation') then 'part'
            when quantity is null or quantity <= 0 then 'part'
            when provider <> 'gcp' then 'machine'
            when names_device then 'device'
            when regexp_matches(x_SkuDescription, '(?i)\b(core|ram|v?cpu|memory|ssd)\b') then 'part'
            when usage_kind in ('accelerator.hours', 'accelerator.tpu') then 'device'
            else 'machine'
        end as counts
    from measured
)

select
    row_number() over () as line,
    told.provider,
    coalesce(bill.ResourceId, nullif(told.ResourceId, '')) as ResourceId,
    told.ResourceName,
    told.SubAccountId,
    told.RegionId,
    told.AvailabilityZone,
    told.BillingCurrency,
    told.ServiceName,
    told.usage_kind,
    told.SkuId,
    told.hour,
    told.grain,
    told.machine_type,
    told.accelerator_model,
    told.accelerator_count,
    told.purchase_option,
    told.owner,
    told.job,
    told.workload_kind,
    told.workload_signal,
    told.standby,
    told.is_unused,
    told.counts,
    told.unit,
    told.unit_hours,
    nullif(told.CapacityReservationId, '') as reservation,
    told.EffectiveCost,
    case when told.CommitmentDiscountStatus = 'Used' or told.purchase_option = 'committed' then told.EffectiveCost else 0 end as committed_cost,
    -- charges without a resource stay apart as far as the bill tells them apart
    case
        when nullif(told.ResourceId, '') is null
            then to_json([
                told.SubAccountId, told.RegionId, told.ServiceName, told.usage_kind, told.machine_type, told.accelerator_model,
                told.purchase_option, told.owner, told.job, told.workload_kind
            ])::varchar
        else ''
    end as scope
from told
left join bill_identities as bill on bill.provider = told.provider and bill.written_id = told.ResourceId
"""

_MACHINES = """
create or replace temp table ledger_machines as
with listed as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        is_unused,
        scope,
        max(accelerator_count) as billed_count,
        max(unit_hours) filter (where counts = 'device' and grain = 'hour') as busiest_hour
    from ledger_lines
    group by provider, ResourceId, BillingCurrency, is_unused, scope
)

select
    row_number() over (order by listed.provider, listed.ResourceId, listed.BillingCurrency, listed.is_unused, listed.scope) as machine,
    listed.*,
    listed.ResourceId is not null and not listed.is_unused as is_observed,
    resources.AvailabilityZone,
    resources.ResourceName,
    json_extract_string(resources.attributes, '$.machine_type') as machine_type,
    json_extract_string(resources.attributes, '$.accelerator_model') as accelerator_model,
    try_cast(json_extract_string(resources.attributes, '$.accelerator_count') as decimal(9, 3)) as seen_count,
    coalesce(try_cast(json_extract_string(resources.attributes, '$.launched_at') as timestamp), resources.created_at) as started_at,
    coalesce(
        try_cast(json_extract_string(resources.attributes, '$.stopped_at') as timestamp),
        try_cast(json_extract_string(resources.attributes, '$.ended_at') as timestamp)
    ) as ended_at
from listed
left join resources on resources.provider = listed.provider and resources.ResourceId = listed.ResourceId
"""

# Utilisation by device and hour. A sum over devices is divided by their number, or unknown where nobody tells it. A sample of a series slower than an hour speaks for the hours up to the next one.
# A MIG slice has no utilisation of its own but the activity of its SMs, and the GPU it is a part of reads 0.
_UTILIZATION = """
create or replace temp table device_utilization as
with told as (
    select
        ledger_machines.machine,
        metric_hours.device,
        metric_hours.metric,
        unnest(range(
            metric_hours.hour,
            metric_hours.hour + to_hours(least(24, greatest(1, ceil(1 / metric_hours.expected - 0.001)))::integer),
            interval 1 hour
        )) as hour,
        case when metric_hours.expected < 0.999 then 1 else metric_hours.samples end as samples,
        greatest(metric_hours.expected, 1) as expected,
        coalesce(nullif(ledger_machines.billed_count, 0), nullif(ledger_machines.seen_count, 0))::double as devices,
        case when ends_with(metric_hours.metric, '_devices') then least(1, metric_hours.mean_value / devices) else metric_hours.mean_value end as mean_value,
        case when ends_with(metric_hours.metric, '_devices') then least(1, metric_hours.max_value / devices) else metric_hours.max_value end as max_value
    from metric_hours
    join ledger_machines on ledger_machines.provider = metric_hours.provider and ledger_machines.ResourceId = metric_hours.ResourceId
    where ledger_machines.is_observed
        and metric_hours.metric in (
            'gpu.utilization', 'tpu.duty_cycle', 'neuron.utilization', 'gpu.sm_active', 'gpu.busy_devices',
            'gpu.memory_used_ratio', 'gpu.memory_used_devices'
        )
),

best as (
    select
        machine,
        device,
        hour,
        arg_min(
            struct_pack(samples := samples, expected := expected, mean_value := mean_value, max_value := max_value),
            case
                when metric = 'gpu.busy_devices' then 5
                when metric = 'gpu.sm_active' then case when max_value > 0 then 2 else 4 end
                when max_value > 0 then 1
                else 3
            end
        ) filter (where not starts_with(metric, 'gpu.memory_')) as activity,
        coalesce(
            max(max_value) filter (where metric = 'gpu.memory_used_ratio'),
            max(max_value) filter (where metric = 'gpu.memory_used_devices')
        ) as memory_used_ratio
    from told
    where max_value is not null
    group by machine, device, hour
)

select
    machine,
    device,
    hour,
    activity.samples as samples,
    activity.expected as expected,
    activity.mean_value as utilization_mean,
    activity.max_value as utilization_max,
    memory_used_ratio
from best
"""

_DEVICES = """
create or replace temp table machine_devices as
select machine, list(device order by try_cast(device as integer) nulls last, device) as devices
from (select distinct machine, device from device_utilization where device <> '')
group by machine
"""

# A machine's lines of one hour (or day) together. The line that says most about the machine lends its attributes.
_PERIODS = """
create or replace temp table machine_periods as
with summed as (
    select
        ledger_machines.machine,
        ledger_lines.hour,
        ledger_lines.grain,
        sum(ledger_lines.EffectiveCost)::decimal(30, 12) as EffectiveCost,
        sum(ledger_lines.committed_cost)::decimal(30, 12) as committed_cost,
        sum(ledger_lines.unit_hours) filter (where ledger_lines.counts = 'machine') as machine_hours,
        sum(ledger_lines.unit_hours) filter (where ledger_lines.counts = 'device') as device_hours,
        max(ledger_lines.accelerator_count) as billed_count,
        arg_max(
            ledger_lines.line,
            row(
                ledger_lines.counts <> 'part', ledger_lines.EffectiveCost, coalesce(ledger_lines.SkuId, ''),
                coalesce(ledger_lines.purchase_option, ''), coalesce(ledger_lines.usage_kind, '')
            )
        ) as line
    from ledger_lines
    join ledger_machines
        on ledger_machines.provider = ledger_lines.provider
        and ledger_machines.ResourceId is not distinct from ledger_lines.ResourceId
        and ledger_machines.BillingCurrency is not distinct from ledger_lines.BillingCurrency
        and ledger_machines.is_unused = ledger_lines.is_unused
        and ledger_machines.scope = ledger_lines.scope
    group by ledger_machines.machine, ledger_lines.hour, ledger_lines.grain
),

sized as (
    select
        summed.* exclude (billed_count),
        ledger_machines.is_observed,
        ledger_machines.started_at,
        ledger_machines.ended_at,
        starts_with(ledger_machines.ResourceId, 'i-') or contains(ledger_machines.ResourceId, ':instance/i-') as is_one_machine,
        coalesce(
            nullif(summed.billed_count, 0),
            nullif(ledger_machines.billed_count, 0),
            nullif(ledger_machines.seen_count, 0),
            ceil(ledger_machines.busiest_hour),
            len(machine_devices.devices),
            case when summed.grain = 'day' then ceil(summed.device_hours / 24) else ceil(summed.device_hours) end,
            1
        )::decimal(9, 3) as accelerator_count
    from summed
    join ledger_machines using (machine)
    left join machine_devices using (machine)
),

counted as (
    select
        *,
        -- one machine cannot run longer than the clock, however many lines say that it ran
        coalesce(
            case when is_one_machine then least(machine_hours, case grain when 'day' then 24 else 1 end) else machine_hours end * accelerator_count,
            device_hours
        )::decimal(30, 12) as billed_device_hours
    from sized
)

select
    row_number() over () as period,
    *,
    -- a machine of which the bill shows parts only ran for as long as the period lasts; of a mere fee nothing is known
    coalesce(
        billed_device_hours,
        case when is_observed then accelerator_count * case grain when 'day' then 24 else 1 end end
    )::decimal(30, 12) as accelerator_hours
from counted
"""

_RUNNING_HOURS = """
create or replace temp table running_hours as
select distinct ledger_machines.machine, metric_hours.hour
from metric_hours
join ledger_machines on ledger_machines.provider = metric_hours.provider and ledger_machines.ResourceId = metric_hours.ResourceId
where ledger_machines.is_observed and regexp_matches(metric_hours.metric, '^(gpu|tpu|neuron|cpu|disk|net)[.]')
"""

# A day's charge belongs to as many hours as were billed: first those with a sample, then those in which the inventory has
# the machine running, then the day from its start.
_MACHINE_HOURS = """
create or replace temp table machine_hours as
with days as (
    select
        *,
        case
            when billed_device_hours is null then 24
            else greatest(1, least(24, ceil(billed_device_hours::double / accelerator_count::double - 0.000001)))
        end::integer as parts
    from machine_periods
    where grain = 'day'
),

sampled_days as (
    select days.period, count(*) as sampled
    from days
    join running_hours on running_hours.machine = days.machine and running_hours.hour >= days.hour and running_hours.hour < days.hour + interval 1 day
    where days.billed_device_hours is null
    group by days.period
),

clock as (
    select
        days.* exclude (hour, parts),
        coalesce(sampled_days.sampled, days.parts)::integer as parts,
        days.hour + to_hours(step.step::integer) as hour,
        step.step + 1 as hour_of_day
    from days
    cross join range(24) as step (step)
    left join sampled_days using (period)
),

ranked as (
    select
        clock.*,
        row_number() over (
            partition by clock.period
            order by
                case
                    when running_hours.hour is not null then 0
                    when clock.hour >= date_trunc('hour', coalesce(clock.started_at, clock.hour)) and clock.hour < coalesce(clock.ended_at, clock.hour + interval 1 hour) then 1
                    else 2
                end,
                clock.hour
        ) as choice
    from clock
    left join running_hours on running_hours.machine = clock.machine and running_hours.hour = clock.hour
    where clock.parts < 24
),

chosen as (
    select *, row_number() over (partition by period order by hour) as part from ranked where choice <= parts
    union all by name
    select *, hour_of_day as part from clock where parts >= 24 -- whole days leave no choice
),

hourly as (
    select machine, hour, EffectiveCost, committed_cost, accelerator_hours, accelerator_count, line from machine_periods where grain <> 'day'
    union all
    select
        machine,
        hour,
        share_of(EffectiveCost, part, parts) as EffectiveCost,
        share_of(committed_cost, part, parts) as committed_cost,
        share_of(accelerator_hours, part, parts) as accelerator_hours,
        accelerator_count,
        line
    from chosen
)

select
    machine,
    hour,
    sum(EffectiveCost)::decimal(30, 12) as EffectiveCost,
    sum(committed_cost)::decimal(30, 12) as committed_cost,
    sum(accelerator_hours)::decimal(30, 12) as accelerator_hours,
    max(accelerator_count) as accelerator_count,
    arg_max(line, row(EffectiveCost, line)) as line
from hourly
group by machine, hour
"""

# The devices of a machine-hour: those that reported in it, then others known of the machine, then plain numbers for those
# that never reported. More reporting devices than billed ones (slices of a GPU, a wrong count) share the hour alike.
_DEVICE_HOURS = """
create or replace temp table device_hours as
with reporting as (
    select machine, hour, list(device order by try_cast(device as integer) nulls last, device) as devices
    from device_utilization
    where device <> ''
    group by machine, hour
),

counted as (
    select
        machine_hours.*,
        ledger_machines.is_observed,
        greatest(1, ceil(machine_hours.accelerator_count), ceil(coalesce(machine_hours.accelerator_hours, 0) - 0.000001))::integer as device_count,
        coalesce(reporting.devices, []) as reporting,
        coalesce(machine_devices.devices, []) as known
    from machine_hours
    join ledger_machines using (machine)
    left join reporting using (machine, hour)
    left join machine_devices using (machine)
),

named as (
    select
        * exclude (reporting, known),
        case
            when not is_observed then ['']
            when len(reporting) >= device_count then reporting
            else list_concat(
                reporting,
                list_filter(known, lambda name: not list_contains(reporting, name)),
                list_filter(
                    list_transform(range(device_count), lambda number: number::varchar),
                    lambda name: not list_contains(known, name)
                )
            )[1:device_count]
        end as devices
    from counted
),

placed as (
    select *, unnest(devices) as device, generate_subscripts(devices, 1) as part, len(devices) as parts from named
)

select
    machine,
    hour,
    device,
    line,
    accelerator_count,
    share_of(EffectiveCost, part, parts) as EffectiveCost,
    share_of(committed_cost, part, parts) as committed_cost,
    share_of(accelerator_hours, part, parts) as accelerator_hours
from placed
"""

# A machine's own disks and the file systems it mounts; a file system that the inventory ties to no machine serves the job
# whose label it bears. p95 rather than the maximum: one minute at the limit starves nobody.
_STORAGE = """
create or replace temp table storage_pressure as
with jobs_of as (
    select distinct coalesce(bill.provider, charges.provider) as provider, bill.ResourceId, charges.job
    from charges
    join bill_identities as bill on bill.provider = charges.provider and bill.written_id = charges.ResourceId
    where charges.job is not null
),

links as (
    select machine, provider, ResourceId from ledger_machines where is_observed
    union
    select ledger_machines.machine, relations.provider, relations.other
    from ledger_machines
    join relations on relations.provider = ledger_machines.provider and relations.ResourceId = ledger_machines.ResourceId
    join resources on resources.provider = relations.provider and resources.ResourceId = relations.other
    where ledger_machines.is_observed and resources.ResourceType in ('volume', 'file_system')
),

by_job as (
    select ledger_machines.machine, stores.provider, stores.ResourceId
    from ledger_machines
    join jobs_of as machines on machines.provider = ledger_machines.provider and machines.ResourceId = ledger_machines.ResourceId
    join jobs_of as stores on stores.provider = machines.provider and stores.job = machines.job
    join (select distinct provider, ResourceId from metric_hours where metric in ('fs.throughput_ratio', 'fs.iops_ratio', 'fs.limit_reached')) as measured
        on measured.provider = stores.provider and measured.ResourceId = stores.ResourceId
    left join links on links.provider = stores.provider and links.ResourceId = stores.ResourceId
    where ledger_machines.is_observed and links.machine is null
),

sources as (
    select machine, provider, ResourceId from links
    union
    select machine, provider, ResourceId from by_job
)

select
    sources.machine,
    metric_hours.hour,
    -- a yes or no: at the limit for most of the hour is at the limit
    max(case
        when ends_with(metric_hours.metric, '.limit_reached') then case when metric_hours.mean_value > 0.5 then 1 else 0 end
        else metric_hours.p95_value
    end) as storage_pressure
from sources
join metric_hours on metric_hours.provider = sources.provider and metric_hours.ResourceId = sources.ResourceId
where metric_hours.metric in (
    'disk.throughput_ratio', 'disk.iops_ratio', 'fs.throughput_ratio', 'fs.iops_ratio', 'disk.limit_reached', 'fs.limit_reached'
)
group by sources.machine, metric_hours.hour
"""

_INPUT_WAIT = """
create or replace temp table input_wait as
select ledger_machines.machine, metric_hours.hour, max(metric_hours.mean_value) as input_wait
from metric_hours
join ledger_machines on ledger_machines.provider = metric_hours.provider and ledger_machines.ResourceId = metric_hours.ResourceId
where ledger_machines.is_observed and metric_hours.metric = 'cpu.iowait'
group by ledger_machines.machine, metric_hours.hour
"""

# A scheduler knows which job held a machine when; of several jobs in an hour the one that held it longest counts.
_JOBS = """
create or replace temp table machine_jobs as
with held as (
    select
        ledger_machines.machine,
        jobs.ResourceId as job_id,
        json_extract_string(resources.attributes, '$.job') as job,
        jobs.started_at,
        coalesce(jobs.ended_at, audit_windows.window_end) as ended_at
    from jobs
    join resources on resources.provider = jobs.provider and resources.ResourceId = jobs.ResourceId
    join relations on relations.provider = jobs.provider and relations.ResourceId = jobs.ResourceId
    join ledger_machines on ledger_machines.provider = relations.provider and ledger_machines.ResourceId = relations.other
    join audit_windows on audit_windows.provider = jobs.provider
    where ledger_machines.is_observed and json_extract_string(resources.attributes, '$.scheduler') is not null
        and jobs.started_at < audit_windows.window_end and coalesce(jobs.ended_at, audit_windows.window_end) > audit_windows.window_start
),

hours as (
    select held.*, unnest(range(date_trunc('hour', started_at), ended_at, interval 1 hour)) as hour from held
)

select
    machine,
    hour,
    arg_max(job, row(least(ended_at, hour + interval 1 hour) - greatest(started_at, hour), job_id)) as job
from hours
group by machine, hour
"""

# A series without a device speaks for every device that is silent itself.
_CLASSED = """
create or replace temp view classed_hours as
with measured as (
    select
        device_hours.*,
        coalesce(own.utilization_mean, shared.utilization_mean) as utilization_mean,
        coalesce(own.utilization_max, shared.utilization_max) as utilization_max,
        coalesce(own.memory_used_ratio, shared.memory_used_ratio) as memory_used_ratio,
        coalesce(own.samples, shared.samples, 0) / nullif(
            coalesce(own.expected, shared.expected, 1)
            * least(1, device_hours.accelerator_hours::double / least(1, device_hours.accelerator_count::double)),
            0
        ) as seen_ratio,
        storage_pressure.storage_pressure,
        input_wait.input_wait
    from device_hours
    left join device_utilization as own
        on own.machine = device_hours.machine and own.device = device_hours.device and own.hour = device_hours.hour
    left join device_utilization as shared
        on shared.machine = device_hours.machine and shared.device = '' and shared.hour = device_hours.hour
    left join storage_pressure on storage_pressure.machine = device_hours.machine and storage_pressure.hour = device_hours.hour
    left join input_wait on input_wait.machine = device_hours.machine and input_wait.hour = device_hours.hour
)

select
    ledger_machines.provider,
    ledger_machines.ResourceId,
    coalesce(ledger_lines.ResourceName, ledger_machines.ResourceName) as ResourceName,
    ledger_lines.SubAccountId,
    ledger_lines.RegionId,
    coalesce(ledger_lines.AvailabilityZone, ledger_machines.AvailabilityZone) as AvailabilityZone,
    ledger_machines.BillingCurrency,
    ledger_lines.ServiceName,
    ledger_lines.usage_kind,
    measured.hour,
    measured.device,
    coalesce(ledger_lines.machine_type, ledger_machines.machine_type) as machine_type,
    coalesce(ledger_lines.accelerator_model, ledger_machines.accelerator_model) as accelerator_model,
    measured.accelerator_count,
    measured.accelerator_hours,
    measured.EffectiveCost,
    measured.committed_cost,
    ledger_lines.purchase_option,
    ledger_lines.owner,
    -- what a tag says goes before what the scheduler says
    coalesce(ledger_lines.job, machine_jobs.job) as job,
    coalesce(ledger_lines.workload_kind, case when machine_jobs.job is not null then 'training' end) as workload_kind,
    case
        when ledger_lines.workload_kind is null and machine_jobs.job is not null then 'scheduler'
        else ledger_lines.workload_signal
    end as workload_signal,
    ledger_lines.standby,
    measured.utilization_mean,
    measured.utilization_max,
    case when ledger_machines.is_observed then least(1, coalesce(measured.seen_ratio, 0)) end as coverage,
    measured.memory_used_ratio,
    measured.storage_pressure,
    measured.input_wait,
    case
        when ledger_machines.is_unused then 'reserved_unused'
        when not ledger_machines.is_observed or measured.utilization_mean is null then 'no_telemetry'
        -- a hair less than the threshold is a rounding of the ratio, not a lost sample
        when coalesce(measured.seen_ratio, 0) < getvariable('min_coverage') - 0.000001 then 'no_telemetry'
        when measured.utilization_mean between getvariable('max_utilization') and getvariable('starved_max_utilization')
            and measured.storage_pressure >= getvariable('storage_limit') then 'starved'
        when measured.utilization_max < getvariable('max_utilization') and measured.memory_used_ratio <= getvariable('max_memory_idle') then 'idle'
        when measured.utilization_max < getvariable('max_utilization') then 'held'
        else 'productive'
    end as class
from measured
join ledger_machines using (machine)
join ledger_lines using (line)
left join machine_jobs on machine_jobs.machine = measured.machine and machine_jobs.hour = measured.hour
"""

_STEPS = (
    _UNITS,
    _AMOUNT,
    _SHARE,
    _LINES,
    _MACHINES,
    _UTILIZATION,
    _DEVICES,
    _PERIODS,
    _RUNNING_HOURS,
    _MACHINE_HOURS,
    _DEVICE_HOURS,
    _STORAGE,
    _INPUT_WAIT,
    _JOBS,
    _CLASSED,
)

_SCRATCH = (
    "ledger_lines",
    "ledger_machines",
    "device_utilization",
    "machine_devices",
    "machine_periods",
    "running_hours",
    "machine_hours",
    "device_hours",
    "storage_pressure",
    "input_wait",
    "machine_jobs",
)


def build(con: DuckDBPyConnection, windows: Mapping[str, Window], thresholds: LedgerThresholds) -> None:
    """Create `accelerator_hours`, one row per accelerator resource, hour and device, of the providers' windows.

    Costs add up to the window's accelerator charges exactly, by provider and currency. Charges without a resource and
    unused reservations have one row an hour with the device '' and all their device-hours; charges whose provider has no
    window are left out.
    """
    rows = [
        {
            "provider": provider,
            "window_start": window.start.replace(tzinfo=None).isoformat(),
            "window_end": window.end.replace(tzinfo=None).isoformat(),
        }
        for provider, window in windows.items()
    ]
    con.execute(_WINDOWS, {"windows": json.dumps(rows)})
    for name, value in asdict(thresholds).items():
        con.execute(f"set variable {name} = {float(value)!r}")
    for statement in _STEPS:
        con.execute(statement)
        if statement is _LINES:
            capacity_blocks.place_fees(con)
    columns = ", ".join(f'"{name}"::{kind} as "{name}"' for name, kind in VIEWS["accelerator_hours"].items())
    con.execute(f"create or replace table accelerator_hours as select {columns} from classed_hours")
    con.execute("drop view classed_hours")
    for table in _SCRATCH:
        con.execute(f"drop table {table}")
