/* rule
id     = "storage.checkpoint_bloat"
title  = "Bucket of checkpoints or data grows and nothing expires"
status = "stable"
stage  = "remove"
clouds = ["aws", "gcp", "azure"]

why = """
Training writes checkpoints every few hours, and only the last of a run are ever read again. Without a lifecycle rule the
bucket keeps them all, and its bill grows month by month with no decision behind it."""

savings  = "EffectiveCost of stored bytes x share of bytes older than keep_days, which is the size so many days ago over today's; a range where the history is shorter"
blind_to = "which objects are still needed, overwritten objects and old versions; buckets with many short-lived objects, whose bytes are younger than their size tells"

references = [
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lifecycle-mgmt.html",
    "https://cloud.google.com/storage/docs/lifecycle",
    "https://learn.microsoft.com/azure/storage/blobs/lifecycle-management-overview",
]

[needs]
charges = [
    "provider", "ResourceId", "ResourceName", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "PricingQuantity", "usage_kind", "purchase_option", "day",
    "standby",
]

[needs.optional]
buckets      = ["provider", "ResourceId", "has_lifecycle"]
metric_hours = ["provider", "ResourceId", "metric", "hour", "mean_value"]

[parameters]
min_growth       = { default = 0.2, unit = "ratio of size per month of 730 hours", about = "growth over the window from which on a bucket bloats" }
keep_days        = { default = 90, unit = "days", about = "what is older is taken to be dispensable" }
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a rule" }

[remedy.aws]
summary  = "Agree what to keep, then add a lifecycle rule that expires old checkpoints and non-current versions"
commands = [
    "aws s3api get-bucket-lifecycle-configuration --bucket {bucket}",
    "aws s3api put-bucket-lifecycle-configuration --bucket {bucket} --lifecycle-configuration file://lifecycle.json",
]
terraform = '''
resource "aws_s3_bucket_lifecycle_configuration" "{resource_label}" {
  bucket = {bucket}

  rule {
    id     = "expire-checkpoints"
    status = "Enabled"

    filter {
      prefix = var.checkpoint_prefix
    }

    expiration {
      days = {keep_days}
    }

    noncurrent_version_expiration {
      noncurrent_days = {keep_days}
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}
'''
risk     = "Expired objects are gone; keep the final checkpoint of each run under a prefix that the rule leaves alone."
effort   = "hours"

[remedy.gcp]
summary  = "Agree what to keep, then add a lifecycle rule that deletes old checkpoints"
commands = [
    "gcloud storage buckets describe gs://{bucket} --format='default(lifecycle_config)'",
    "gcloud storage buckets update gs://{bucket} --lifecycle-file=lifecycle.json",
]
terraform = '''
# In the block that `terraform state list -id={bucket}` names; its other arguments stay as they are.
resource "google_storage_bucket" "{resource_label}" {
  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      age            = {keep_days}
      matches_prefix = [var.checkpoint_prefix]
    }
  }
}
'''
risk     = "Deleted objects are gone; keep the final checkpoint of each run under a prefix that the rule leaves alone."
effort   = "hours"

[remedy.azure]
summary  = "Agree what to keep, then add a management policy that deletes old checkpoints"
commands = ["az resource show --ids {resource_id}", "az storage account management-policy create --account-name {bucket} --resource-group $RESOURCE_GROUP --policy @policy.json"]
terraform = '''
resource "azurerm_storage_management_policy" "{resource_label}" {
  storage_account_id = {resource_id}

  rule {
    name    = "expire-checkpoints"
    enabled = true

    filters {
      prefix_match = [var.checkpoint_prefix]
      blob_types   = ["blockBlob"]
    }

    actions {
      base_blob {
        delete_after_days_since_modification_greater_than = {keep_days}
      }
    }
  }
}
'''
risk     = "Deleted blobs are gone; keep the final checkpoint of each run under a prefix that the rule leaves alone."
effort   = "hours"
*/
with billed_sizes as (
    select
        provider,
        ResourceId,
        day,
        -- quantities are parts of a month; the days of the month make them sizes, in whatever unit
        sum(PricingQuantity)::double * day(last_day(day)) as size
    from charges
    where
        usage_kind = 'object.capacity'
        and ResourceId is not null
        and PricingQuantity > 0
        and day < $window_end
    group by provider, ResourceId, day
),

measured_sizes as (
    select
        provider,
        ResourceId,
        hour::date as day,
        max(mean_value) as size
    from metric_hours
    where metric = 'bucket.size_bytes' and hour < $window_end
    group by provider, ResourceId, hour::date
),

-- each source tells a history of its own, as their units differ; the longer one decides, the bill if they are equal
histories as (
    select
        provider,
        ResourceId,
        day,
        size,
        'bill' as size_source
    from billed_sizes
    union all
    select
        provider,
        ResourceId,
        day,
        size,
        'metric' as size_source
    from measured_sizes
),

ranked as (
    select
        provider,
        ResourceId,
        size_source,
        min(day) as first_day,
        max(day) as last_day,
        -- means of three days: the ends of an export may be parts of a day
        avg(case when day >= $window_start and day < $window_start + interval 3 day then size end) as start_size,
        avg(case when day >= $window_start + ($window_end - $window_start) / 2 and day < $window_start + ($window_end - $window_start) / 2 + interval 3 day then size end)
            as middle_size,
        avg(case when day >= $window_end - interval 4 day and day < $window_end - interval 1 day then size end) as end_size,
        max(case when day < $window_end - interval 4 day then size end) as largest_before,
        avg(case when day between $window_end::date - $keep_days - 1 and $window_end::date - $keep_days + 1 then size end) as kept_size
    from histories
    group by provider, ResourceId, size_source
),

grown as (
    select
        provider,
        ResourceId,
        size_source,
        first_day,
        start_size,
        end_size,
        kept_size,
        (end_size / start_size - 1) * 730 / $window_hours::double as growth,
        -- with a shorter history: at the pace of the window, backwards
        greatest(end_size - (end_size - start_size) * $keep_days / ($window_hours::double / 24 - 3), 0) as supposed_size
    from ranked
    where
        start_size > 0
        and end_size > middle_size
        and middle_size > start_size
        and largest_before <= end_size * 1.02  -- what ever shrinks is cleaned up by somebody
        and last_day >= $window_end::date - 3
    qualify row_number() over (partition by provider, ResourceId order by first_day asc, size_source asc) = 1
),

costs as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(ResourceName) as ResourceName,
        sum(EffectiveCost) as effective_cost,
        sum(case when purchase_option = 'committed' then EffectiveCost else 0 end) as committed_cost,
        sum(case when usage_kind = 'object.capacity' and purchase_option is distinct from 'committed' then EffectiveCost else 0 end) as capacity_cost,
        bool_or(coalesce(standby, false)) as standby
    from charges
    where
        ResourceId is not null
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

judged as (
    select
        costs.provider,
        costs.ResourceId,
        costs.BillingCurrency,
        costs.SubAccountId,
        costs.RegionId,
        costs.effective_cost,
        costs.committed_cost,
        costs.capacity_cost,
        costs.standby,
        grown.size_source,
        grown.first_day,
        grown.growth,
        grown.kept_size is not null as knows_age,
        buckets.has_lifecycle,
        regexp_extract(costs.ResourceId, '[^/:]+$') as bucket,
        least(coalesce(grown.kept_size, grown.supposed_size) / grown.end_size, 1)::decimal(9, 8) as old_share,
        least(grown.start_size / grown.end_size, 1)::decimal(9, 8) as start_share,
        regexp_matches(
            lower(costs.ResourceId || ' ' || coalesce(costs.ResourceName, '')),
            'ch(ec)?k-?p(oin)?t|snapshot|train|model|weight|dataset|corpus|corpora|artifact|experiment|run|mlflow|wandb|finetun|llm'
        ) as is_named_so
    from grown
    inner join costs using (provider, ResourceId)
    left join buckets using (provider, ResourceId)
    where
        grown.growth >= $min_growth
        and not coalesce(buckets.has_lifecycle, false)
        and costs.capacity_cost * 730 >= $min_monthly_cost * $window_hours
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    capacity_cost * old_share as avoidable_cost,
    capacity_cost * case when knows_age then old_share else 0 end as avoidable_low,
    capacity_cost * case when knows_age then old_share else greatest(start_share, old_share) end as avoidable_high,
    case when has_lifecycle is null or not is_named_so then 'low' else 'medium' end as confidence,
    format('grows by {:.1f} % a month, ', 100 * growth)
    || case when has_lifecycle is null then 'a lifecycle rule is not known' else 'no lifecycle rule' end
    || format('; about {:.1f} % of its bytes are older than {} days', 100 * old_share::double, $keep_days)
    || case when knows_age then '' else format(' at this pace (its history begins on {})', strftime(first_day, '%Y-%m-%d')) end as reason,
    bucket,
    round(growth, 4) as monthly_growth,
    old_share,
    capacity_cost,
    has_lifecycle,
    size_source,
    first_day,
    $keep_days::integer as keep_days,
    standby
from judged
order by avoidable_cost desc, ResourceId asc
