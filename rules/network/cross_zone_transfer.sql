/* rule
id     = "network.cross_zone_transfer"
title  = "Traffic between zones of a region is billed by the gigabyte"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]
cost_line = ["transfer.inter_zone"]

why = """
Bytes that cross a zone are billed although both ends sit in one region: on AWS at each end, on GCP at the sender. Chatty
pairs (shuffles, brokers and their consumers, caches) can often share a zone or prefer the replica in their own."""

savings  = "with flow logs EffectiveCost of the inter-zone lines x share of the bytes that cross between machines which can share a zone; without them x avoidable_share, range from nothing to all of it: the bill does not name the peers"
blind_to = "which pairs talk, where there are no flow logs; why two machines stand in two zones: those of one name are taken for replicas that have to, unless they work on one job"

references = [
    "https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer_within_the_same_AWS_Region",
    "https://cloud.google.com/vpc/network-pricing",
    "https://azure.microsoft.com/pricing/details/bandwidth/",
]

[needs]
transfers = ["provider", "ResourceId", "SubAccountId", "RegionId", "BillingCurrency", "ServiceName", "day", "usage_kind", "gigabytes", "EffectiveCost", "job", "standby"]

[needs.optional]
flows_daily = ["provider", "ResourceId", "day", "peer_id", "peer_zone", "path", "bytes"]
resources   = ["provider", "ResourceId", "ResourceName", "ResourceType", "RegionId", "AvailabilityZone"]

[parameters]
min_monthly_cost = { default = 50, unit = "BillingCurrency per month of 730 hours", about = "less is not worth a ticket" }
avoidable_share  = { default = 0.5, unit = "ratio of EffectiveCost", about = "share that placement is taken to avoid while the pairs are unknown" }

[remedy.aws]
summary  = "Keep chatty pairs in one Availability Zone: zone-aware clients, follower fetching, one zone for a training job and its data"
commands = ["aws ec2 describe-instances --region {region_id} --instance-ids {resource_short_id} --query 'Reservations[].Instances[].[InstanceId,Placement.AvailabilityZone]'"]
terraform = '''
# In the block that `terraform state list -id={resource_short_id}` names; its other arguments stay as they are.
resource "aws_instance" "{resource_label}" {
  availability_zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"

[remedy.aws.variants.nat_gateway]
when     = 'natgateway|^nat-'
summary  = "Give each zone with busy clients a gateway of its own, or take a regional one"
commands = [
    "aws ec2 describe-nat-gateways --region {region_id} --nat-gateway-ids {resource_short_id}",
    "aws ec2 describe-route-tables --region {region_id} --filters Name=route.nat-gateway-id,Values={resource_short_id}",
]

[remedy.aws.variants.load_balancer]
when     = 'loadbalancer'
summary  = "Let the balancer send within a zone, with targets enough in each"
commands = ["aws elbv2 modify-load-balancer-attributes --region {region_id} --load-balancer-arn {resource_id} --attributes Key=load_balancing.cross_zone.enabled,Value=false"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "aws_lb" "{resource_label}" {
  enable_cross_zone_load_balancing = false
}
'''
risk     = "Zones with few targets get more load each."

[remedy.gcp]
summary  = "Keep chatty pairs in one zone: topology-aware routing, zonal clusters for batch work, rack-aware consumers"
commands = ["gcloud compute instances list --project {sub_account_id} --filter=\"zone ~ {region_id}\""]
terraform = '''
# In the block of the machine {resource_short_id}; its other arguments stay as they are.
resource "google_compute_instance" "{resource_label}" {
  zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"

[remedy.azure]
summary  = "Keep chatty pairs in one availability zone with zonal deployments or a proximity placement group"
commands = ["az vm list --subscription {sub_account_id} --output table"]
terraform = '''
# In the block that `terraform state list -id={resource_id}` names; its other arguments stay as they are.
resource "azurerm_linux_virtual_machine" "{resource_label}" {
  zone = var.zone_of_its_peers # makes the machine anew
}
'''
risk     = "A service in one zone does not survive the loss of that zone; keep replicas that guard data where they are."
effort   = "days"
*/
with charged as (
    select
        provider,
        ResourceId,
        SubAccountId,
        RegionId,
        BillingCurrency,
        ServiceName,
        gigabytes,
        EffectiveCost,
        standby,
        case when ResourceId is null then coalesce(RegionId, '') || '/' || coalesce(ServiceName, '') end as scope
    from transfers
    where
        usage_kind = 'transfer.inter_zone'
        and EffectiveCost > 0  -- free lines move most of the bytes in many accounts and would hide the charged ones
        and day >= $window_start and day < $window_end
),

talkers as (
    select
        provider,
        ResourceId,
        SubAccountId,
        BillingCurrency,
        scope,
        max(RegionId) as RegionId,
        max(ServiceName) as ServiceName,
        sum(EffectiveCost) as effective_cost,
        sum(gigabytes) as gigabytes,
        bool_or(standby) as standby
    from charged
    group by provider, ResourceId, SubAccountId, BillingCurrency, scope
),

-- each byte stands once in the logs, at one of its ends; here it stands at both
legs as (
    select
        provider,
        ResourceId,
        peer_id,
        bytes
    from flows_daily
    where
        path is distinct from 'nat'  -- the gateway's copy of what its clients log
        and peer_zone is not null
        and day >= $window_start and day < $window_end
    union all
    select
        provider,
        peer_id as ResourceId,
        ResourceId as peer_id,
        bytes
    from flows_daily
    where
        path is distinct from 'nat'
        and peer_zone is not null
        and day >= $window_start and day < $window_end
),

pairs as (
    select
        provider,
        ResourceId,
        peer_id,
        sum(bytes) as pair_bytes
    from legs
    group by provider, ResourceId, peer_id
),

-- replicas bear one name and a number, or the letter of their zone
places as (
    select
        provider,
        ResourceId,
        ResourceName,
        ResourceType,
        RegionId,
        AvailabilityZone,
        regexp_replace(lower(coalesce(ResourceName, ResourceId)), '[-_.]*([0-9]+[a-z]?|[a-f])$', '') as stem
    from resources
    where AvailabilityZone is not null
),

jobs as (
    select
        provider,
        ResourceId,
        max(job) as job
    from transfers
    where job is not null
    group by provider, ResourceId
),

crossing as (
    select
        pairs.provider,
        pairs.ResourceId,
        pairs.peer_id,
        pairs.pair_bytes,
        there.AvailabilityZone as peer_zone,
        coalesce(
            here.ResourceType = 'instance' and there.ResourceType = 'instance'
            and (here.stem <> there.stem or coalesce(here_jobs.job = there_jobs.job, false)),
            false
        ) as is_movable
    from pairs
    join places as here on pairs.provider = here.provider and pairs.ResourceId = here.ResourceId
    join places as there on pairs.provider = there.provider and pairs.peer_id = there.ResourceId
    left join jobs as here_jobs on pairs.provider = here_jobs.provider and pairs.ResourceId = here_jobs.ResourceId
    left join jobs as there_jobs on pairs.provider = there_jobs.provider and pairs.peer_id = there_jobs.ResourceId
    where here.RegionId = there.RegionId and here.AvailabilityZone <> there.AvailabilityZone
),

measured as (
    select
        provider,
        ResourceId,
        (sum(case when is_movable then pair_bytes else 0 end) / nullif(sum(pair_bytes), 0))::decimal(9, 8) as movable_share,
        sum(pair_bytes) as crossing_bytes,
        list({ 'peer': peer_id, 'zone': peer_zone, 'bytes': pair_bytes, 'can_share_a_zone': is_movable } order by pair_bytes desc, peer_id asc)[1:5] as pairs
    from crossing
    group by provider, ResourceId
)

select
    talkers.provider,
    talkers.ResourceId,
    talkers.SubAccountId,
    talkers.RegionId,
    talkers.BillingCurrency,
    talkers.ServiceName,
    talkers.effective_cost,
    0 as committed_cost,
    talkers.effective_cost * coalesce(measured.movable_share, $avoidable_share) as avoidable_cost,
    talkers.effective_cost * coalesce(measured.movable_share, 0) as avoidable_low,
    talkers.effective_cost * coalesce(measured.movable_share, 1) as avoidable_high,
    case when measured.movable_share is null then 'low' else 'medium' end as confidence,
    coalesce(format('{:.1f} GB', talkers.gigabytes::double), 'traffic of a volume the bill does not state')
    || ' crossed a zone of ' || coalesce(talkers.RegionId, 'its region') || ' at a charge; '
    || case
        when measured.movable_share is null then 'which pairs could share a zone is not known from the bill'
        else format(
            'flow logs show {} to other zones, {:.1f} % of it between machines that could share one',
            formatreadabledecimalsize(measured.crossing_bytes::bigint), 100 * measured.movable_share::double
        )
    end as reason,
    talkers.gigabytes,
    measured.movable_share,
    measured.pairs,
    case when measured.movable_share is null then 'bill' else 'bill, inventory and flow logs' end as known_from,
    talkers.standby
from talkers
left join measured on talkers.provider = measured.provider and talkers.ResourceId = measured.ResourceId
where talkers.effective_cost * 730 >= $min_monthly_cost * $window_hours
order by talkers.effective_cost desc, talkers.ResourceId asc
