/* rule
id     = "gpu.inference_class_training"
title  = "Long training on inference-class accelerators"
status = "stable"
stage  = "resize"
clouds = ["aws", "gcp", "azure"]

why = """
Accelerators made for inference are cheap an hour and short of what long training needs: memory, memory bandwidth and a
fast link between devices. A run of a week or more often costs less on fewer devices of the training class, and ends sooner."""

savings  = "an estimate: EffectiveCost of the training hours x (1 - price of a training-class device / own price / gain), gain being the part of the peak advantage that real work keeps; without prices nothing, with a range up to a share"
blind_to = "what the work gains in truth (a short benchmark tells); small models that fill neither device; hours without a training tag, name or service"

references = [
    "https://www.nvidia.com/en-us/data-center/tesla-t4/",
    "https://www.nvidia.com/en-us/data-center/l4/",
    "https://www.nvidia.com/en-us/data-center/a100/",
    "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/arch/neuron-hardware/index.html",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "hour", "machine_type", "accelerator_model",
    "accelerator_count", "accelerator_hours", "EffectiveCost", "purchase_option", "job", "workload_kind", "workload_signal", "class", "standby",
]
charges = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day"]
accelerator_peaks = ["provider", "accelerator_model", "peak_tflops", "use", "quality"]

[needs.optional]
prices = ["provider", "RegionId", "machine_type", "accelerator_model", "accelerator_count", "price_kind", "high", "unit", "currency", "source", "as_of"]

[parameters]
min_run_hours       = { default = 168, unit = "hours", about = "training hours of the longest run: shorter runs are trials, for which a cheap hour is right" }
max_gap_hours       = { default = 12, unit = "hours", about = "a longer pause ends a run; a restart does not" }
realised_gain       = { default = 0.5, unit = "ratio", about = "the part of the other device's peak advantage that real work keeps" }
share_without_price = { default = 0.2, unit = "ratio of EffectiveCost", about = "upper end of the range where no price of a training-class device is known" }

[remedy.aws]
summary  = "Time a few hundred steps on a training-class device, compare the cost of the same work, then move the next run"
commands = ["aws ec2 describe-instance-type-offerings --region {region_id} --location-type availability-zone --filters Name=instance-type,Values={other_type}"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  instance_type = {other_type}
}
'''
risk     = "Capacity of training-class machines is scarcer; batch size and learning rate need another look."
effort   = "days"

[remedy.gcp]
summary  = "Time a few hundred steps on a training-class device, compare the cost of the same work, then move the next run"
commands = ["gcloud compute machine-types list --project {sub_account_id} --filter=name={other_type}"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id=projects/{sub_account_id}/zones/{zone}/instances/{resource_short_id}` names; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  machine_type              = {other_type}
  allow_stopping_for_update = true
}
'''
risk     = "Capacity of training-class machines is scarcer; batch size and learning rate need another look."
effort   = "days"

[remedy.azure]
summary  = "Time a few hundred steps on a training-class device, compare the cost of the same work, then move the next run"
commands = ["az vm list-skus --location {region_id} --size {other_type} --output table"]
terraform = '''
# After the benchmark, for the next run.
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  size = {other_type}
}
'''
risk     = "Capacity of training-class machines is scarcer; batch size and learning rate need another look."
effort   = "days"
*/
with trained as (
    select
        accelerator_hours.provider,
        accelerator_hours.ResourceId,
        accelerator_hours.BillingCurrency,
        accelerator_hours.hour,
        max(accelerator_hours.SubAccountId) as SubAccountId,
        max(accelerator_hours.RegionId) as RegionId,
        max(accelerator_hours.AvailabilityZone) as zone,
        max(accelerator_hours.machine_type) as machine_type,
        max(accelerator_hours.accelerator_model) as accelerator_model,
        max(accelerator_hours.accelerator_count) as accelerator_count,
        max(accelerator_hours.job) as job,
        max(accelerator_hours.workload_signal) as workload_signal,
        sum(accelerator_hours.accelerator_hours) as device_hours,
        sum(accelerator_hours.EffectiveCost) as accelerator_cost,
        bool_and(coalesce(accelerator_hours.purchase_option = 'spot', false)) as is_spot,
        bool_or(coalesce(accelerator_hours.standby, false)) as standby
    from accelerator_hours
    inner join accelerator_peaks as inference_class
        on
            accelerator_hours.provider = inference_class.provider
            and accelerator_hours.accelerator_model = inference_class.accelerator_model
            and inference_class.use = 'inference'
    where
        accelerator_hours.workload_kind = 'training'
        and accelerator_hours.ResourceId is not null
        and accelerator_hours.hour >= $window_start and accelerator_hours.hour < $window_end
    group by accelerator_hours.provider, accelerator_hours.ResourceId, accelerator_hours.BillingCurrency, accelerator_hours.hour
    having bool_or(accelerator_hours.class not in ('idle', 'held', 'reserved_unused'))  -- a machine that waits trains nothing
),

gaps as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        hour,
        coalesce(hour > lag(hour) over machine + to_hours($max_gap_hours::integer + 1), false) as begins_run
    from trained
    window machine as (partition by provider, ResourceId, BillingCurrency order by hour)
),

numbered as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        sum(begins_run::integer) over (partition by provider, ResourceId, BillingCurrency order by hour) as run
    from gaps
),

runs as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        count(*) as run_hours
    from numbered
    group by provider, ResourceId, BillingCurrency, run
),

long_trained as (
    select
        trained.provider,
        trained.ResourceId,
        trained.BillingCurrency,
        max(trained.SubAccountId) as SubAccountId,
        max(trained.RegionId) as RegionId,
        max(trained.zone) as zone,
        max(trained.machine_type) as machine_type,
        max(trained.accelerator_model) as accelerator_model,
        max(trained.accelerator_count) as accelerator_count,
        max(trained.job) as job,
        max(trained.workload_signal) as workload_signal,
        count(*) as training_hours,
        sum(trained.accelerator_cost) as training_cost,
        sum(trained.accelerator_cost)::double / sum(trained.device_hours)::double as device_hour_cost,
        case when bool_and(trained.is_spot) then 'spot' else 'on_demand' end as price_kind,
        bool_or(trained.standby) as standby
    from trained
    group by trained.provider, trained.ResourceId, trained.BillingCurrency
    having sum(trained.device_hours) > 0 and sum(trained.accelerator_cost) > 0
),

longest as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(run_hours) as longest_run_hours
    from runs
    group by provider, ResourceId, BillingCurrency
    having max(run_hours) >= $min_run_hours
),

-- the upper end of a pool's range: a saving that needs the best zone is none
device_prices as (
    select
        prices.provider,
        prices.RegionId,
        prices.machine_type,
        prices.accelerator_model,
        prices.price_kind,
        prices.currency,
        training_class.peak_tflops,
        training_class.quality,
        max(prices.high::double / case when prices.unit = 'hour' then prices.accelerator_count::double else 1 end) as device_hour_price,
        max(prices.source || ' ' || prices.as_of) as price_source
    from prices
    inner join accelerator_peaks as training_class
        on
            prices.provider = training_class.provider
            and prices.accelerator_model = training_class.accelerator_model
            and training_class.use = 'training'
    where prices.high > 0 and prices.accelerator_count > 0
    group by
        prices.provider, prices.RegionId, prices.machine_type, prices.accelerator_model, prices.price_kind, prices.currency, training_class.peak_tflops,
        training_class.quality
),

-- the own region's price before another's, then the best bargain
offers as (
    select
        long_trained.provider,
        long_trained.ResourceId,
        long_trained.BillingCurrency,
        device_prices.accelerator_model as other_model,
        device_prices.machine_type as other_type,
        device_prices.RegionId as price_region_id,
        device_prices.device_hour_price,
        device_prices.price_source,
        device_prices.peak_tflops / inference_class.peak_tflops as peak_gain,
        inference_class.quality = 'ok' and device_prices.quality = 'ok' as peaks_confirmed,
        1 - device_prices.device_hour_price / long_trained.device_hour_cost / (device_prices.peak_tflops / inference_class.peak_tflops) as share_at_peak,
        1 - device_prices.device_hour_price / long_trained.device_hour_cost
        / (1 + $realised_gain::double * (device_prices.peak_tflops / inference_class.peak_tflops - 1)) as share
    from long_trained
    inner join accelerator_peaks as inference_class using (provider, accelerator_model)
    inner join device_prices
        on
            long_trained.provider = device_prices.provider
            and long_trained.price_kind = device_prices.price_kind
            and long_trained.BillingCurrency = device_prices.currency
            and starts_with(long_trained.accelerator_model, 'Inferentia') = starts_with(device_prices.accelerator_model, 'Trainium')
    qualify
        row_number() over (
            partition by long_trained.provider, long_trained.ResourceId, long_trained.BillingCurrency
            order by
                device_prices.RegionId = long_trained.RegionId desc,
                share desc,
                device_prices.accelerator_model asc,
                device_prices.machine_type asc
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
    inner join longest using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
),

estimated as (
    select
        long_trained.provider,
        long_trained.ResourceId,
        long_trained.BillingCurrency,
        greatest(least(long_trained.training_cost, costs.effective_cost - costs.committed_cost), 0) as movable_cost,
        costs.effective_cost,
        costs.committed_cost,
        longest.longest_run_hours,
        greatest(coalesce(offers.share, 0), 0)::decimal(9, 8) as share,
        greatest(coalesce(offers.share_at_peak, $share_without_price), 0)::decimal(9, 8) as share_at_peak
    from long_trained
    inner join longest using (provider, ResourceId, BillingCurrency)
    inner join costs using (provider, ResourceId, BillingCurrency)
    left join offers using (provider, ResourceId, BillingCurrency)
)

select
    estimated.provider,
    estimated.ResourceId,
    long_trained.SubAccountId,
    long_trained.RegionId,
    estimated.BillingCurrency,
    estimated.effective_cost,
    estimated.committed_cost,
    estimated.movable_cost * estimated.share as avoidable_cost,
    0 as avoidable_low,
    estimated.movable_cost * estimated.share_at_peak as avoidable_high,
    'low' as confidence,
    format(
        '{} hours of training ({}) on {}, {} of them in one run; ',
        long_trained.training_hours, coalesce(long_trained.workload_signal, 'signal unknown'), long_trained.accelerator_model, estimated.longest_run_hours
    )
    || case
        when offers.other_model is null then 'the price of a training-class device is not known here'
        when estimated.share_at_peak = 0
            then format(
                '{} at {:.2f} a device-hour against {:.2f} here, {:.1f} x the peak: sooner done, at these prices not for less',
                offers.other_model, offers.device_hour_price, long_trained.device_hour_cost, offers.peak_gain
            )
        else format(
            '{} at {:.2f} a device-hour against {:.2f} here, {:.1f} x the peak: the same work for {:.0f} to {:.1f} % less',
            offers.other_model, offers.device_hour_price, long_trained.device_hour_cost, offers.peak_gain, 100 * estimated.share::double,
            100 * estimated.share_at_peak::double
        )
    end
    || case when offers.price_region_id <> long_trained.RegionId then format('; price of {}, none known for {}', offers.price_region_id, long_trained.RegionId) else '' end
        as reason,
    long_trained.zone,
    long_trained.machine_type,
    long_trained.accelerator_model,
    offers.other_model,
    coalesce(offers.other_type, case estimated.provider when 'aws' then 'p4d.24xlarge' when 'gcp' then 'a2-highgpu-1g' else 'Standard_NC24ads_A100_v4' end)
        as other_type,
    round(long_trained.device_hour_cost, 4) as device_hour_cost,
    round(offers.device_hour_price, 4) as other_device_hour_price,
    offers.price_region_id,
    offers.price_source,
    round(offers.peak_gain, 2) as peak_gain,
    offers.peaks_confirmed,
    long_trained.training_hours,
    estimated.longest_run_hours,
    long_trained.job,
    long_trained.workload_signal,
    long_trained.standby
from estimated
inner join long_trained using (provider, ResourceId, BillingCurrency)
left join offers using (provider, ResourceId, BillingCurrency)
order by avoidable_cost desc, estimated.ResourceId asc
