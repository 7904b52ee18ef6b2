/* rule
id     = "gpu.previous_generation"
title  = "Steady work on an accelerator generation with a cheaper successor"
status = "stable"
stage  = "resize"
clouds = ["aws", "gcp", "azure"]

why = """
A newer device costs more an hour and does so much more in it that the work itself becomes cheaper. Machines that work
every day on an old generation are worth the port; the price of the successor decides, not its age."""

savings  = "EffectiveCost of the accelerator hours x (1 - price of the successor / own price / gain), gain being the part of the peak advantage that real work keeps; without prices nothing, with a range up to a share, for generations two or more behind only"
blind_to = "what the work gains in truth (a short benchmark tells), models that need the old device's drivers, and whether the successor can be had in the zone"

references = [
    "https://www.nvidia.com/en-us/data-center/v100/",
    "https://www.nvidia.com/en-us/data-center/a100/",
    "https://www.nvidia.com/en-us/data-center/h100/",
    "https://cloud.google.com/tpu/docs/system-architecture-tpu-vm",
    "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/arch/neuron-hardware/index.html",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "machine_type", "accelerator_model",
    "accelerator_count", "accelerator_hours", "EffectiveCost", "purchase_option", "workload_kind", "coverage", "class", "standby",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day"]
accelerator_peaks = ["provider", "accelerator_model", "peak_tflops", "quality"]

[needs.optional]
prices = ["provider", "RegionId", "machine_type", "accelerator_model", "accelerator_count", "price_kind", "high", "unit", "currency", "source", "as_of"]

[parameters]
min_run_hours       = { default = 168, unit = "hours", about = "hours of work in the window: a week of it is steady" }
min_coverage        = { default = 0.8, unit = "samples seen / samples expected", about = "below it nothing shows the work, and there is no verdict" }
min_busy_share      = { default = 0.5, unit = "ratio of device-hours with samples", about = "a machine that mostly idles is no work to move" }
realised_gain       = { default = 0.5, unit = "ratio", about = "the part of the successor's peak advantage that real work keeps" }
min_saving          = { default = 0.10, unit = "ratio of EffectiveCost", about = "less does not pay for the port" }
share_without_price = { default = 0.2, unit = "ratio of EffectiveCost", about = "upper end of the range where no price of a successor is known" }

[remedy.aws]
summary  = "Run the workload's benchmark on the successor, compare the cost of the same work, then move"
commands = ["aws ec2 describe-instance-type-offerings --region {region_id} --location-type availability-zone --filters Name=instance-type,Values={successor_type}"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  instance_type = {successor_type}
}
'''
risk     = "Newer devices need newer drivers and frameworks; numbers may differ in the last digits."
effort   = "days"

[remedy.gcp]
summary  = "Run the workload's benchmark on the successor, compare the cost of the same work, then move"
commands = ["gcloud compute machine-types list --project {sub_account_id} --filter=name={successor_type}"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  machine_type              = {successor_type}
  allow_stopping_for_update = true
}
'''
risk     = "Newer devices need newer drivers and frameworks; numbers may differ in the last digits."
effort   = "days"

[remedy.azure]
summary  = "Run the workload's benchmark on the successor, compare the cost of the same work, then move"
commands = ["az vm list-skus --location {region_id} --size {successor_type} --output table"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  size = {successor_type}
}
'''
risk     = "Newer devices need newer drivers and frameworks; numbers may differ in the last digits."
effort   = "days"
*/
with successors as (
    select
        line.accelerator_model,
        line.successor,
        line.far_behind  -- two generations or more: cheaper on every price list that was seen
    from (
        values
        ('K80', 'T4', true), ('K80', 'L4', true), ('K80', 'A100 40GB', true),
        ('M60', 'T4', true), ('M60', 'L4', true), ('M60', 'A10', true), ('M60', 'A10G', true),
        ('P4', 'T4', true), ('P4', 'L4', true),
        ('P40', 'T4', true), ('P40', 'A10', true),
        ('P100', 'A100 40GB', true), ('P100', 'A100 80GB', true), ('P100', 'L4', true),
        ('V100', 'A100 40GB', true), ('V100', 'A100 80GB', true), ('V100', 'H100', true), ('V100', 'H100 NVL', true), ('V100', 'L40S', true),
        ('T4', 'L4', false), ('T4G', 'L4', false),
        ('A100 40GB', 'H100', false), ('A100 80GB', 'H100', false), ('A100 80GB', 'H100 NVL', false), ('A100 80GB', 'H200', false),
        ('Inferentia', 'Inferentia2', true), ('Trainium', 'Trainium2', false),
        ('TPU v2', 'TPU v5e', true), ('TPU v2', 'TPU v6e', true), ('TPU v3', 'TPU v5e', true), ('TPU v3', 'TPU v6e', true),
        ('TPU v4', 'TPU v6e', false), ('TPU v5e', 'TPU v6e', false)
    ) as line (accelerator_model, successor, far_behind)
),

worked as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(workload_kind) as workload_kind,
        case when bool_and(coalesce(purchase_option = 'spot', false)) then 'spot' else 'on_demand' end as price_kind,
        max(accelerator_count) as accelerator_count,
        count(distinct hour) as run_hours,
        max(hour) as last_hour,
        count(case when class <> 'no_telemetry' then 1 end) as sampled_hours,
        count(case when class in ('productive', 'starved') then 1 end) as busy_hours,
        sum(accelerator_hours) as device_hours,
        sum(least(coalesce(coverage, 0), 1) * accelerator_hours::double) as covered_hours,
        sum(EffectiveCost) as accelerator_cost,
        bool_or(coalesce(standby, false)) as standby
    from accelerator_hours
    where
        ResourceId is not null
        -- notebooks and endpoints do not choose their device as freely, and a fee is no machine
        and usage_kind is distinct from 'accelerator.reserved_unused'
        and usage_kind is distinct from 'accelerator.notebook'
        and usage_kind is distinct from 'accelerator.endpoint'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency
),

steady as (
    select
        worked.provider,
        worked.ResourceId,
        worked.BillingCurrency,
        worked.SubAccountId,
        worked.RegionId,
        worked.zone,
        worked.machine_type,
        worked.accelerator_model,
        worked.workload_kind,
        worked.price_kind,
        worked.accelerator_count,
        worked.run_hours,
        worked.sampled_hours,
        worked.busy_hours,
        worked.accelerator_cost,
        worked.standby,
        peaks.peak_tflops,
        peaks.quality as peak_quality,
        worked.accelerator_cost::double / worked.device_hours::double as device_hour_cost
    from worked
    inner join accelerator_peaks as peaks on worked.provider = peaks.provider and worked.accelerator_model = peaks.accelerator_model
    where
        worked.run_hours >= $min_run_hours
        and worked.last_hour >= $window_end - interval 24 hour
        and worked.covered_hours >= worked.device_hours::double * $min_coverage
        and worked.busy_hours >= worked.sampled_hours * $min_busy_share
        and worked.device_hours > 0
        and worked.accelerator_cost > 0
),

-- the upper end of a pool's range: a saving that needs the best zone is none
device_prices as (
    select
        provider,
        RegionId,
        machine_type,
        accelerator_model,
        accelerator_count,
        price_kind,
        currency,
        max(high::double / case when unit = 'hour' then accelerator_count::double else 1 end) as device_hour_price,
        max(source || ' ' || as_of) as price_source
    from prices
    where high > 0 and accelerator_count > 0
    group by provider, RegionId, machine_type, accelerator_model, accelerator_count, price_kind, currency
),

offers as (
    select
        steady.provider,
        steady.ResourceId,
        steady.BillingCurrency,
        successors.successor,
        successors.far_behind,
        device_prices.machine_type as successor_type,
        device_prices.RegionId as price_region_id,
        device_prices.device_hour_price,
        device_prices.price_source,
        device_prices.RegionId = steady.RegionId as is_same_region,
        device_prices.accelerator_count = steady.accelerator_count as is_same_size,
        newer.peak_tflops / steady.peak_tflops as peak_gain,
        steady.peak_quality = 'ok' and newer.quality = 'ok' as peaks_confirmed,
        1 - device_prices.device_hour_price / steady.device_hour_cost / (newer.peak_tflops / steady.peak_tflops) as share_at_peak,
        1 - device_prices.device_hour_price / steady.device_hour_cost
        / (1 + $realised_gain::double * (newer.peak_tflops / steady.peak_tflops - 1)) as share
    from steady
    inner join successors on steady.accelerator_model = successors.accelerator_model
    inner join accelerator_peaks as newer on steady.provider = newer.provider and successors.successor = newer.accelerator_model
    left join device_prices
        on
            steady.provider = device_prices.provider
            and successors.successor = device_prices.accelerator_model
            and steady.price_kind = device_prices.price_kind
            and steady.BillingCurrency = device_prices.currency
),

-- the own region's price before another's, then a machine of as many devices, then the best bargain
best as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        successor,
        far_behind,
        successor_type,
        price_region_id,
        device_hour_price,
        price_source,
        is_same_region,
        peak_gain,
        peaks_confirmed,
        share,
        share_at_peak
    from offers
    qualify
        row_number() over (
            partition by provider, ResourceId, BillingCurrency
            order by
                device_hour_price is null,
                coalesce(is_same_region, false) desc,
                coalesce(is_same_size, false) desc,
                share desc nulls last,
                peak_gain asc,
                successor asc,
                successor_type asc
        ) = 1
),

costs as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        sum(charges.EffectiveCost) as effective_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost
    from charges
    inner join steady using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
),

judged as (
    select
        steady.provider,
        steady.ResourceId,
        steady.BillingCurrency,
        steady.SubAccountId,
        steady.RegionId,
        steady.zone,
        steady.machine_type,
        steady.accelerator_model,
        steady.workload_kind,
        steady.run_hours,
        steady.sampled_hours,
        steady.busy_hours,
        steady.accelerator_cost,
        steady.standby,
        steady.device_hour_cost,
        best.successor,
        best.successor_type,
        best.price_region_id,
        best.device_hour_price,
        best.price_source,
        best.is_same_region,
        best.peak_gain,
        best.peaks_confirmed,
        greatest(coalesce(best.share, 0), 0)::decimal(9, 8) as share,
        greatest(coalesce(best.share_at_peak, $share_without_price), 0)::decimal(9, 8) as share_at_peak
    from steady
    inner join best using (provider, ResourceId, BillingCurrency)
    where case when best.device_hour_price is null then best.far_behind else best.share >= $min_saving end
)

select
    judged.provider,
    judged.ResourceId,
    judged.SubAccountId,
    judged.RegionId,
    judged.BillingCurrency,
    costs.effective_cost,
    costs.committed_cost,
    greatest(least(judged.accelerator_cost, costs.effective_cost) - costs.committed_cost, 0) * judged.share as avoidable_cost,
    0 as avoidable_low,
    greatest(least(judged.accelerator_cost, costs.effective_cost) - costs.committed_cost, 0) * judged.share_at_peak as avoidable_high,
    'low' as confidence,
    format('{} hours of work on {}; ', judged.run_hours, judged.accelerator_model)
    || case
        when judged.device_hour_price is null then format('{} is some generations newer, its price is not known here', judged.successor)
        else format(
            '{} at {:.2f} a device-hour against {:.2f} here would do the same work for about {:.1f} % less, if it keeps {:.1f} % of its peak advantage of {:.1f} x',
            judged.successor, judged.device_hour_price, judged.device_hour_cost, 100 * judged.share::double, 100 * $realised_gain::double, judged.peak_gain
        )
    end
    || case when not judged.is_same_region then format('; price of {}, none known for {}', judged.price_region_id, judged.RegionId) else '' end as reason,
    judged.zone,
    judged.machine_type,
    judged.accelerator_model,
    judged.successor,
    coalesce(judged.successor_type, judged.successor) as successor_type,
    round(judged.device_hour_cost, 4) as device_hour_cost,
    round(judged.device_hour_price, 4) as successor_device_hour_price,
    judged.price_region_id,
    judged.price_source,
    round(judged.peak_gain, 2) as peak_gain,
    judged.peaks_confirmed,
    judged.run_hours,
    judged.sampled_hours,
    judged.busy_hours,
    judged.workload_kind,
    judged.standby
from judged
inner join costs using (provider, ResourceId, BillingCurrency)
order by avoidable_cost desc, judged.ResourceId asc
