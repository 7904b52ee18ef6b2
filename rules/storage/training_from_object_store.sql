/* rule
id     = "storage.training_from_object_store"
title  = "Training reads straight from an object store"
status = "stable"
stage  = "fix_starvation"
clouds = ["aws", "gcp", "azure"]

why = """
An object store answers each read after tens of milliseconds and bills each request. Training that reads many terabytes
from it every month, over and over, waits at every shuffle; a cache on local NVMe or a parallel file system ends that."""

savings  = "EffectiveCost of the accelerator hours x the measured share of waiting for input; without it a range from nothing to slowdown"
blind_to = "caches inside the machine, which make the reads rarer but not zero; bytes from elsewhere, where neither flow logs nor a stated bucket tell; data sets that are read once only"

references = [
    "https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html",
    "https://cloud.google.com/storage/docs/cloud-storage-fuse/file-caching",
    "https://learn.microsoft.com/azure/machine-learning/concept-data-access",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "machine_type", "accelerator_model",
    "EffectiveCost", "committed_cost", "job", "workload_kind", "workload_signal", "input_wait", "class", "standby",
]
charges      = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "EffectiveCost", "usage_kind", "purchase_option", "day", "job"]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[needs.optional]
flows_daily  = ["provider", "ResourceId", "day", "peer_service", "bytes"]
instances    = ["provider", "ResourceId", "related", "attributes", "Tags"]
buckets      = ["provider", "ResourceId", "ResourceName"]
file_systems = ["provider", "ResourceId", "related"]

[parameters]
min_bytes     = { default = 10_000_000_000_000, unit = "bytes per month of 730 hours", about = "less is read once and no pattern" }
slowdown      = { default = 0.12, unit = "ratio of accelerator cost", about = "upper end of the range where no input wait is measured" }
min_input_wait = { default = 0.05, unit = "ratio of CPU time", about = "a measured wait below it says that the input keeps up" }
object_stores = { default = ["s3", "cloud storage", "gcs", "storage.googleapis.com", "storage", "azurestorage", "azure storage", "microsoft.storage"], unit = "peer services in lower case", about = "object stores, as flow logs name them" }

[remedy.aws]
summary  = "Copy the data set to the instance's NVMe before the run, or put FSx for Lustre linked to the bucket (or Mountpoint with a cache) in between"
commands = ["aws ec2 describe-instance-types --region {region_id} --instance-types {machine_type} --query 'InstanceTypes[].InstanceStorageInfo'"]
terraform = '''
resource "aws_fsx_lustre_file_system" "{resource_label}_cache" {
  deployment_type  = "SCRATCH_2"
  storage_capacity = var.data_set_gib_in_steps_of_1200
  subnet_ids       = [var.subnet_id_of_the_machines]
}

resource "aws_fsx_data_repository_association" "{resource_label}_cache" {
  file_system_id       = aws_fsx_lustre_file_system.{resource_label}_cache.id
  file_system_path     = "/data"
  data_repository_path = var.s3_path_of_the_data_set
}
'''
risk     = "A file system costs money of its own; NVMe is empty after a stop."
effort   = "days"

[remedy.gcp]
summary  = "Turn on the file cache of Cloud Storage FUSE on local SSD, or put Managed Lustre in between"
commands = ["gcloud compute instances describe {resource_short_id} --project {sub_account_id} --zone {zone} --format='value(disks)'"]
terraform = '''
resource "google_lustre_instance" "{resource_label}_cache" {
  project                     = {sub_account_id}
  location                    = {zone}
  instance_id                 = "training-cache"
  filesystem                  = "data"
  capacity_gib                = var.data_set_gib
  network                     = var.network_of_the_machines
  per_unit_storage_throughput = 250
}
'''
risk     = "A file system costs money of its own; local SSD is empty after a stop."
effort   = "days"

[remedy.azure]
summary  = "Turn on the file cache of BlobFuse on the local NVMe, or put Managed Lustre in between"
commands = ["az vm show --ids {resource_id} --query storageProfile"]
terraform = '''
resource "azurerm_managed_lustre_file_system" "{resource_label}_cache" {
  name                   = "training-cache"
  location               = {region_id}
  resource_group_name    = var.resource_group_name
  sku_name               = "AMLFS-Durable-Premium-250"
  storage_capacity_in_tb = var.data_set_tb
  subnet_id              = var.subnet_id_of_the_machines
  zones                  = [var.zone]

  maintenance_window {
    day_of_week        = "Sunday"
    time_of_day_in_utc = "03:00"
  }

  hsm_setting {
    container_id         = var.container_of_the_data_set
    logging_container_id = var.container_of_the_logs
  }
}
'''
risk     = "A file system costs money of its own; the local disk is empty after a deallocation."
effort   = "days"
*/
with training as (
    select
        provider,
        ResourceId,
        BillingCurrency,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        max(workload_signal) as workload_signal,
        count(distinct hour) as training_hours,
        sum(EffectiveCost - coalesce(committed_cost, 0)) as training_cost,
        avg(case when class not in ('idle', 'held') then input_wait end) as input_wait,
        bool_or(coalesce(standby, false)) as standby
    from accelerator_hours
    where
        workload_kind = 'training'
        and ResourceId is not null
        and usage_kind is distinct from 'accelerator.reserved_unused'
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency
),

-- machines of one job that run at once also send gradients to each other: their bytes say nothing about storage
crowds as (
    select
        provider,
        job,
        hour
    from accelerator_hours
    where job is not null and ResourceId is not null and hour >= $window_start and hour < $window_end
    group by provider, job, hour
    having count(distinct ResourceId) > 1
),

clustered as (
    select distinct
        accelerator_hours.provider,
        accelerator_hours.ResourceId
    from accelerator_hours
    inner join crowds using (provider, job, hour)
),

received as (
    select
        provider,
        ResourceId,
        sum(sum_value) as bytes
    from metric_hours
    where metric = 'net.received_bytes' and hour >= $window_start and hour < $window_end
    group by provider, ResourceId
),

-- logs of a few days tell the share, those of the whole window the bytes
logged as (
    select
        provider,
        ResourceId,
        sum(bytes)::double as bytes,
        sum(case when list_contains($object_stores, lower(peer_service)) then bytes else 0 end)::double as store_bytes
    from flows_daily
    where day >= $window_start and day < $window_end
    group by provider, ResourceId
    having sum(bytes) > 0
),

described as (
    select
        instances.provider,
        instances.ResourceId,
        instances.related,
        instances.attributes,
        instances.Tags
    from instances
    where instances.ResourceId in (select training.ResourceId from training)
),

-- what a machine says of its data: a relation, an attribute, a tag that is a bucket's name
words as (
    select
        described.provider,
        described.ResourceId,
        lower(json_extract_string(leaf.atom, '$')) as word
    from described, json_tree(described.related::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select
        described.provider,
        described.ResourceId,
        lower(json_extract_string(leaf.atom, '$')) as word
    from described, json_tree(described.attributes::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select
        described.provider,
        described.ResourceId,
        lower(json_extract_string(leaf.atom, '$')) as word
    from described, json_tree(described.Tags::json) as leaf
    where leaf.type = 'VARCHAR'
),

named_buckets as (
    select
        words.provider,
        words.ResourceId,
        min(buckets.ResourceId) as bucket_id
    from words
    inner join buckets
        on
            words.provider = buckets.provider
            and regexp_extract(regexp_replace(words.word, '^(s3|gs|az|abfss?|https?)://', ''), '^[^/]+$|[^/:]+$')
            in (lower(regexp_extract(buckets.ResourceId, '[^/:]+$')), lower(buckets.ResourceName))
    group by words.provider, words.ResourceId
),

reads as (
    select
        provider,
        ResourceId,
        sum(sum_value) as bytes
    from metric_hours
    where metric = 'bucket.read_bytes' and hour >= $window_start and hour < $window_end
    group by provider, ResourceId
),

-- what was read from a bucket, in equal parts for the machines that name it
bucket_reads as (
    select
        named_buckets.provider,
        named_buckets.ResourceId,
        reads.bytes / count(*) over (partition by named_buckets.provider, named_buckets.bucket_id) as bytes
    from named_buckets
    inner join reads
        on
            named_buckets.provider = reads.provider
            and named_buckets.bucket_id = reads.ResourceId
),

-- buckets that somebody reads from in the machine's account and region
read_buckets as (
    select
        provider,
        SubAccountId,
        RegionId,
        min(ResourceId) as bucket_id
    from charges
    where usage_kind in ('object.requests', 'object.retrieval') and ResourceId is not null and day >= $window_start and day < $window_end
    group by provider, SubAccountId, RegionId
),

job_machines as (
    select distinct
        provider,
        ResourceId,
        job
    from accelerator_hours
    where job is not null and ResourceId is not null
),

job_file_systems as (
    select distinct
        provider,
        job
    from charges
    where starts_with(usage_kind, 'file_system.') and job is not null
),

mounted as (
    select distinct
        file_systems.provider,
        lower(json_extract_string(leaf.atom, '$')) as machine_id
    from file_systems, json_tree(file_systems.related::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select
        words.provider,
        lower(words.ResourceId) as machine_id
    from words
    inner join file_systems
        on
            words.provider = file_systems.provider
            and words.word in (lower(file_systems.ResourceId), lower(regexp_extract(file_systems.ResourceId, '[^/:]+$')))
    union
    -- a file system that bears the job's label serves the job
    select
        job_machines.provider,
        lower(job_machines.ResourceId) as machine_id
    from job_machines
    inner join job_file_systems using (provider, job)
),

fed as (
    select
        training.provider,
        training.ResourceId,
        training.BillingCurrency,
        coalesce(named_buckets.bucket_id, read_buckets.bucket_id) as bucket_id,
        coalesce(
            case
                when logged.bytes is not null then greatest(logged.store_bytes, logged.store_bytes / logged.bytes * coalesce(received.bytes, 0))
            end,
            least(received.bytes, bucket_reads.bytes)  -- of what is measured; the machine receives more than it reads, the bucket serves others too
        ) as store_bytes,
        case
            when logged.bytes is not null then 'flow logs'
            when bucket_reads.bytes is not null then 'bytes read from the bucket that the machine names'
            when named_buckets.bucket_id is not null then 'received bytes, and the machine names the bucket'
            else 'received bytes, and a bucket is read in its account and region'
        end as bytes_source,
        logged.bytes is not null or named_buckets.bucket_id is not null as knows_its_store
    from training
    left join received using (provider, ResourceId)
    left join logged using (provider, ResourceId)
    left join named_buckets using (provider, ResourceId)
    left join bucket_reads using (provider, ResourceId)
    left join read_buckets using (provider, SubAccountId, RegionId)
    left join clustered using (provider, ResourceId)
    left join mounted
        on
            training.provider = mounted.provider
            and mounted.machine_id in (lower(training.ResourceId), lower(regexp_extract(training.ResourceId, '[^/:]+$')))
    where
        mounted.machine_id is null
        and (
            logged.bytes is not null
            or bucket_reads.bytes is not null
            or (clustered.ResourceId is null and coalesce(named_buckets.bucket_id, read_buckets.bucket_id) is not null)
        )
    qualify row_number() over (partition by training.provider, training.ResourceId, training.BillingCurrency order by named_buckets.bucket_id asc nulls last) = 1
),

costs as (
    select
        charges.provider,
        charges.ResourceId,
        charges.BillingCurrency,
        sum(charges.EffectiveCost) as effective_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost
    from charges
    inner join fed using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by charges.provider, charges.ResourceId, charges.BillingCurrency
),

valued as (
    select
        training.provider,
        training.ResourceId,
        training.SubAccountId,
        training.RegionId,
        training.BillingCurrency,
        training.zone,
        training.machine_type,
        training.accelerator_model,
        training.job,
        training.workload_signal,
        training.training_hours,
        training.input_wait,
        training.standby,
        fed.bucket_id,
        fed.store_bytes,
        fed.bytes_source,
        fed.knows_its_store,
        costs.effective_cost,
        costs.committed_cost,
        greatest(least(training.training_cost, costs.effective_cost - costs.committed_cost), 0) as training_cost,
        case when training.input_wait is not null then least(training.input_wait, 1)::decimal(9, 8) end as wait_share
    from training
    inner join fed using (provider, ResourceId, BillingCurrency)
    inner join costs using (provider, ResourceId, BillingCurrency)
    where
        fed.store_bytes * 730 >= $min_bytes * $window_hours::double
        and coalesce(training.input_wait, 1) >= $min_input_wait
)

select
    provider,
    ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    training_cost * coalesce(wait_share, $slowdown * 0.5) as avoidable_cost,
    training_cost * case when wait_share is null then 0 else wait_share * 0.5 end as avoidable_low,
    training_cost * coalesce(wait_share, $slowdown) as avoidable_high,
    case when wait_share is null or not knows_its_store then 'low' else 'medium' end as confidence,
    format('{:.1f} TB from an object store in the window, no file system in between ({}); ', store_bytes / 1e12, bytes_source)
    || case
        when wait_share is null then format('no input wait is measured, so a range up to {:.1f} %', 100 * $slowdown::double)
        else format('{:.1f} % of CPU time waits for input', 100 * input_wait)
    end as reason,
    zone,
    machine_type,
    accelerator_model,
    bucket_id,
    bytes_source,
    round(store_bytes, 0) as store_bytes,
    round(input_wait, 4) as input_wait,
    training_hours,
    training_cost,
    job,
    workload_signal,
    standby
from valued
order by avoidable_cost desc, ResourceId asc
