/* rule
id     = "network.cross_region_training_data"
title  = "Accelerators train in another region than their data"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["transfer.inter_region"]

why = """
A training run reads its data set once an epoch. When bucket and accelerators stand in different regions, every epoch pays
the inter-region price for the same bytes again and waits for them longer; a copy beside the accelerators is paid for once."""

savings  = "EffectiveCost of the inter-region lines of the bucket, disk or file system; the range begins at nothing, since the bill seldom says who read"
blind_to = "readers of other organizations; buckets that other users read beside the training; the price of keeping a copy; clouds' bills that do not name the receiving region, where labels and telemetry have to tell"

references = [
    "https://aws.amazon.com/s3/pricing/",
    "https://cloud.google.com/storage/pricing#network-buckets",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "to_region_id", "standby"]
charges   = ["provider", "ResourceId", "day", "usage_kind", "x_Operation", "EffectiveCost", "workload_kind"]
accelerator_hours = ["provider", "ResourceId", "SubAccountId", "RegionId", "hour", "workload_kind"]

[needs.optional]
resources    = ["provider", "ResourceId", "ResourceName", "ResourceType"]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
min_match        = { default = 0.5, unit = "bytes received / bytes sent", about = "a machine that receives at least this share of what the bucket sends is taken for its reader" }
max_match        = { default = 2, unit = "bytes received / bytes sent", about = "a machine that receives far more has other sources" }
storage_pattern  = { default = "(?i)/buckets/|microsoft\\.storage/|microsoft\\.netapp/|^arn:aws:s3|file-system|/disks/|^vol-|simple storage|cloud storage|filestore|fsx|elastic file", unit = "regular expression on resource id and service", about = "what holds data, where the inventory does not tell" }
copy_pattern     = { default = "(?i)backup|replica|archive|snapshot|mirror|\\blogs?\\b", unit = "regular expression on the resource's id and name", about = "copies kept on purpose, which only a training label makes training data" }

[remedy.aws]
summary  = "Copy the data set once into a bucket of the training region, or start the training where the data are"
commands = ["aws s3 sync s3://{resource_short_id} s3://$BUCKET_IN_THE_TRAINING_REGION --source-region {region_id} --region {reader_region_id}"]
terraform = '''
# A copy beside the training; objects that exist already are copied by the command above.
resource "aws_s3_bucket_replication_configuration" "{resource_label}" {
  bucket = {resource_short_id}
  role   = var.replication_role_arn

  rule {
    id     = "to-the-training-region"
    status = "Enabled"

    filter {
      prefix = var.data_set_prefix
    }

    delete_marker_replication {
      status = "Enabled"
    }

    destination {
      bucket = var.bucket_arn_in_the_training_region
    }
  }
}
'''
risk     = "Two copies have to be kept equal; the copy is billed for storage and, once, for the transfer."
effort   = "hours"

[remedy.gcp]
summary  = "Copy the data set once into a bucket of the training region (or a dual-region that holds both), or start the training where the data are"
commands = ["gcloud storage rsync --recursive gs://{resource_last_part} gs://$BUCKET_IN_THE_TRAINING_REGION"]
terraform = '''
resource "google_storage_bucket" "{resource_label}_copy" {
  project  = {sub_account_id}
  name     = var.name_of_the_copy
  location = {reader_region_id}
}

resource "google_storage_transfer_job" "{resource_label}" {
  project     = {sub_account_id}
  description = "Data set to the region that trains on it"

  transfer_spec {
    gcs_data_source {
      bucket_name = {resource_last_part}
    }

    gcs_data_sink {
      bucket_name = google_storage_bucket.{resource_label}_copy.name
    }
  }
}
'''
risk     = "Two copies have to be kept equal; the copy is billed for storage and, once, for the transfer."
effort   = "hours"

[remedy.azure]
summary  = "Copy the data set once into a storage account of the training region, or start the training where the data are"
commands = ["azcopy sync https://{resource_short_id}.blob.core.windows.net/$CONTAINER https://$ACCOUNT_IN_THE_TRAINING_REGION.blob.core.windows.net/$CONTAINER --recursive"]
terraform = '''
resource "azurerm_storage_object_replication" "{resource_label}" {
  source_storage_account_id      = {resource_id}
  destination_storage_account_id = var.storage_account_id_in_the_training_region

  rules {
    source_container_name      = var.container
    destination_container_name = var.container
  }
}
'''
risk     = "Two copies have to be kept equal; the copy is billed for storage and, once, for the transfer."
effort   = "hours"
*/
with sent as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(ServiceName) as ServiceName,
        list(distinct to_region_id order by to_region_id) filter (where to_region_id is not null and to_region_id <> RegionId) as to_regions,
        sum(EffectiveCost) as effective_cost,
        sum(gigabytes) * case when provider = 'gcp' then 1073741824 else 1000000000 end as sent_bytes,
        bool_or(standby) as standby
    from transfers
    where
        usage_kind = 'transfer.inter_region'
        and ResourceId is not null
        and EffectiveCost > 0
        and day >= $window_start and day < $window_end
    group by provider, ResourceId, BillingCurrency
),

-- replication is copied once and on purpose; reads come again and again
read_kinds as (
    select
        provider,
        ResourceId,
        bool_or(workload_kind = 'training') as is_labelled,
        coalesce(sum(case when x_Operation ilike '%replicat%' then EffectiveCost else 0 end) * 2 > sum(EffectiveCost), false) as is_replication
    from charges
    where
        usage_kind = 'transfer.inter_region'
        and EffectiveCost > 0
        and day >= $window_start and day < $window_end
    group by provider, ResourceId
),

stores as (
    select
        sent.provider,
        sent.ResourceId,
        sent.BillingCurrency,
        sent.SubAccountId,
        sent.RegionId,
        sent.ServiceName,
        coalesce(sent.to_regions, []) as to_regions,
        sent.effective_cost,
        sent.sent_bytes,
        sent.standby,
        coalesce(read_kinds.is_labelled, false) as is_labelled,
        regexp_matches(concat_ws(' ', sent.ResourceId, resources.ResourceName), $copy_pattern) as is_copy
    from sent
    join read_kinds on sent.provider = read_kinds.provider and sent.ResourceId = read_kinds.ResourceId
    left join resources on sent.provider = resources.provider and sent.ResourceId = resources.ResourceId
    where
        not read_kinds.is_replication
        and sent.effective_cost * 730 >= $min_monthly_cost * $window_hours
        and coalesce(
            resources.ResourceType in ('bucket', 'file_system', 'volume'),
            regexp_matches(concat_ws(' ', sent.ResourceId, sent.ServiceName), $storage_pattern)
        )
),

machines as (
    select
        provider,
        ResourceId,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        bool_or(workload_kind = 'training') as trains
    from accelerator_hours
    where
        ResourceId is not null
        and coalesce(workload_kind, 'training') = 'training'  -- what is known to serve or to be a notebook does not train
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId
),

received as (
    select
        provider,
        ResourceId,
        sum(sum_value) as received_bytes
    from metric_hours
    where
        metric = 'net.received_bytes'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId
),

pairs as (
    select
        stores.provider,
        stores.ResourceId,
        stores.BillingCurrency,
        machines.ResourceId as reader_id,
        machines.RegionId as reader_region_id,
        machines.SubAccountId = stores.SubAccountId as is_neighbour,
        len(stores.to_regions) > 0 as is_addressed,
        coalesce(received.received_bytes / nullif(stores.sent_bytes, 0)::double between $min_match and $max_match, false) as is_matched,
        (stores.is_labelled or not stores.is_copy) as may_be_training_data,
        stores.is_labelled,
        machines.trains
    from stores
    join machines
        on
            stores.provider = machines.provider
            and stores.RegionId <> machines.RegionId
            and (len(stores.to_regions) = 0 or list_contains(stores.to_regions, machines.RegionId))
    left join received on machines.provider = received.provider and machines.ResourceId = received.ResourceId
),

-- the best account of who reads wins: measured bytes, then the receiving region on the bill, then the label of the data
judged as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        reader_id,
        reader_region_id,
        case
            when is_matched and may_be_training_data then 1
            when is_addressed and is_neighbour and trains and may_be_training_data then 2
            when is_labelled and trains and (is_neighbour or is_addressed) then 3
        end as rank
    from pairs
),

readers as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        min(rank) as best_rank,
        list(reader_id order by rank asc, reader_id asc)[1:10] as reader_ids,
        list(reader_region_id order by rank asc, reader_id asc)[1] as reader_region_id
    from judged
    where rank is not null
    group by provider, ResourceId, BillingCurrency
)

select
    stores.provider,
    stores.ResourceId,
    stores.SubAccountId,
    stores.RegionId,
    stores.BillingCurrency,
    stores.ServiceName,
    stores.effective_cost,
    0 as committed_cost,
    stores.effective_cost as avoidable_cost,
    0 as avoidable_low,
    stores.effective_cost as avoidable_high,
    case when readers.best_rank = 3 then 'low' else 'medium' end as confidence,
    format('{:.1f} GB left {} for another region; ', (stores.sent_bytes / 1000000000)::double, stores.RegionId)
    || case readers.best_rank
        when 1 then 'accelerators in ' || readers.reader_region_id || ' received as much'
        when 2 then 'accelerators train in ' || readers.reader_region_id || ', which received it'
        else 'the data are labelled as training data and accelerators train in ' || readers.reader_region_id
    end as reason,
    readers.reader_region_id,
    readers.reader_ids,
    (stores.sent_bytes / 1000000000)::decimal(30, 3) as sent_gigabytes,
    stores.standby
from stores
join readers using (provider, ResourceId, BillingCurrency)
order by stores.effective_cost desc, stores.ResourceId asc
