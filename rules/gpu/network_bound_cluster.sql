/* rule
id     = "gpu.network_bound_cluster"
title  = "Training cluster without a fast path between its nodes"
status = "stable"
stage  = "fix_path"
clouds = ["aws", "gcp", "azure"]

why = """
Nodes that train together exchange gradients in every step. Without an RDMA fabric, without compact placement or over two
zones the devices wait for the network, and look busy while they wait. The fabric works inside one zone only and costs nothing extra."""

savings  = "EffectiveCost of the training hours x the efficiency loss; the default is an assumption (range from nothing to three times it), as busy counters hide waiting"
blind_to = "how much of a step is communication: small models and pipelines with little traffic lose next to nothing; nodes that share a cluster but train alone"

references = [
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html",
    "https://cloud.google.com/compute/docs/instances/use-compact-placement-policies",
    "https://learn.microsoft.com/azure/virtual-machines/extensions/enable-infiniband",
]

[needs]
accelerator_hours = [
    "provider", "ResourceId", "SubAccountId", "RegionId", "AvailabilityZone", "BillingCurrency", "usage_kind", "hour", "machine_type",
    "accelerator_model", "accelerator_hours", "EffectiveCost", "committed_cost", "purchase_option", "job", "workload_kind", "class", "standby",
]
charges   = ["provider", "ResourceId", "BillingCurrency", "EffectiveCost", "purchase_option", "day", "accelerator_model", "Tags"]
instances = ["provider", "ResourceId", "AvailabilityZone", "has_rdma", "placement_group", "attributes", "Tags"]

[needs.optional]
metric_hours = ["provider", "ResourceId", "metric", "hour", "sum_value"]

[parameters]
min_nodes       = { default = 2, unit = "nodes", about = "nodes that train in the same hour" }
min_hours       = { default = 24, unit = "hours", about = "hours with that many nodes: shorter runs are trials" }
min_exchange    = { default = 1_000_000_000, unit = "bytes sent per node and hour", about = "nodes without a fabric that all send less work side by side, not together" }
trials          = { default = "sweep|hpo|hyper-?param|grid-?search|trial", unit = "regular expression on the job or cluster label", about = "runs of a search share a label and nothing else" }
efficiency_loss = { default = 0.10, unit = "ratio of accelerator cost", about = "taken where nothing is measured" }

[remedy.aws]
summary  = "Run the nodes in one zone, in one cluster placement group, with EFA interfaces (all-reduce tests show the difference at once)"
commands = [
    "aws ec2 create-placement-group --region {region_id} --group-name {cluster}-compact --strategy cluster",
    "aws ec2 describe-instance-types --region {region_id} --instance-types {machine_type} --query 'InstanceTypes[].NetworkInfo.EfaSupported'",
]
terraform = '''
resource "aws_placement_group" "compact" {
  name     = "{cluster}-compact"
  strategy = "cluster"
}

resource "aws_launch_template" "compact" {
  instance_type = {machine_type}

  placement {
    group_name = aws_placement_group.compact.name
  }

  network_interfaces {
    interface_type = "efa"
  }
}
'''
risk     = "A cluster placement group in one zone needs that many machines there at once; without a reservation the start may fail."
effort   = "hours"

[remedy.gcp]
summary  = "Run the nodes in one zone under a compact placement policy, on a machine type with GPUDirect or RDMA interfaces"
commands = ["gcloud compute resource-policies create group-placement {cluster}-compact --project {sub_account_id} --region {region_id} --collocation collocated"]
terraform = '''
resource "google_compute_resource_policy" "compact" {
  project = {sub_account_id}
  region  = {region_id}
  name    = "{cluster}-compact"

  group_placement_policy {
    collocation = "COLLOCATED"
  }
}
'''
risk     = "Compact placement needs that many machines in one place at once; without a reservation the start may fail."
effort   = "hours"

[remedy.azure]
summary  = "Run the nodes in one zone and one scale set, on a size with InfiniBand (an r in its name)"
commands = ["az vm list-skus --location {region_id} --size Standard_ND --query \"[?capabilities[?name=='RdmaEnabled' && value=='True']].name\" --output table"]
terraform = '''
resource "azurerm_linux_virtual_machine_scale_set" "compact" {
  name                        = "{cluster}-compact"
  location                    = {region_id}
  resource_group_name         = var.resource_group_name
  sku                         = var.size_with_infiniband
  instances                   = {nodes}
  zones                       = [var.zone]
  single_placement_group      = true
  platform_fault_domain_count = 1
}
'''
risk     = "One scale set in one zone needs that many machines there at once; without a reservation the start may fail."
effort   = "hours"
*/
with node_hours as materialized (
    select
        provider,
        ResourceId,
        BillingCurrency,
        hour,
        max(SubAccountId) as SubAccountId,
        max(RegionId) as RegionId,
        max(AvailabilityZone) as billed_zone,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        max(job) as job,
        avg(accelerator_hours)::double as running,
        sum(EffectiveCost) as accelerator_cost,
        sum(coalesce(committed_cost, 0)) as committed_cost,
        bool_or(coalesce(purchase_option = 'reserved_capacity', false)) as is_reserved,
        bool_or(coalesce(standby, false)) as standby
    from accelerator_hours
    where
        workload_kind = 'training'
        and ResourceId is not null
        and usage_kind = 'accelerator.hours'
        and not coalesce(starts_with(accelerator_model, 'TPU'), false)  -- the chips of a slice have their own fabric
        and hour >= $window_start and hour < $window_end
    group by provider, ResourceId, BillingCurrency, hour
    having bool_or(class not in ('idle', 'held', 'reserved_unused'))
),

nodes as (
    select distinct
        provider,
        ResourceId
    from node_hours
),

billed_tags as (
    select
        charges.provider,
        charges.ResourceId,
        arg_max(charges.Tags, (charges.day, charges.Tags::varchar)) as Tags
    from charges
    inner join nodes using (provider, ResourceId)
    where charges.accelerator_model is not null and charges.Tags is not null
    group by charges.provider, charges.ResourceId
),

tag_texts as (
    select
        provider,
        ResourceId,
        Tags
    from billed_tags
    union
    select
        instances.provider,
        instances.ResourceId,
        instances.Tags
    from instances
    inner join nodes using (provider, ResourceId)
    where instances.Tags is not null
),

tags as (
    select
        tag_texts.provider,
        tag_texts.ResourceId,
        regexp_replace(lower(entry.key), '[^a-z0-9]', '', 'g') as tag_key,
        json_extract_string(entry.atom, '$') as tag_value
    from tag_texts, json_each(tag_texts.Tags::json) as entry
),

-- what holds nodes together beside a job, the most telling first: the cluster, the group that starts them, the placement
labels as (
    select
        provider,
        ResourceId,
        tag_value as label,
        'cluster label' as label_kind,
        1 as place
    from tags
    where regexp_matches(tag_key, 'cluster(name|id)?$') and tag_value <> '' and lower(tag_value) not in ('owned', 'shared', 'true', 'false')
    union
    select
        instances.provider,
        instances.ResourceId,
        json_extract_string(instances.attributes, '$.cluster') as label,
        'cluster' as label_kind,
        2 as place
    from instances
    where json_extract_string(instances.attributes, '$.cluster') is not null
    union
    select
        provider,
        ResourceId,
        tag_value as label,
        'group label' as label_kind,
        3 as place
    from tags
    where regexp_matches(tag_key, '(autoscalinggroup(name)?|scaleset(name)?|nodegroup(name)?|nodepool(name)?|fleetid|instancegroup(name)?)$') and tag_value <> ''
    union
    select
        provider,
        ResourceId,
        placement_group as label,
        'placement group' as label_kind,
        4 as place
    from instances
    where placement_group is not null
),

best_labels as (
    select
        provider,
        ResourceId,
        arg_min(label, (place, label)) as label,
        arg_min(label_kind, (place, label)) as label_kind
    from labels
    group by provider, ResourceId
),

member_hours as (
    select
        node_hours.provider,
        node_hours.SubAccountId,
        node_hours.RegionId,
        node_hours.BillingCurrency,
        -- a machine works for one job now and for another then
        coalesce(node_hours.job, best_labels.label) as label,
        case when node_hours.job is not null then 'job' else best_labels.label_kind end as label_kind,
        node_hours.hour,
        node_hours.ResourceId,
        node_hours.machine_type,
        node_hours.accelerator_model,
        node_hours.running,
        node_hours.accelerator_cost,
        node_hours.committed_cost,
        node_hours.is_reserved,
        node_hours.standby,
        coalesce(node_hours.billed_zone, instances.AvailabilityZone) as zone,
        instances.ResourceId is not null as is_listed,
        instances.has_rdma,
        instances.placement_group
    from node_hours
    left join best_labels using (provider, ResourceId)
    left join instances using (provider, ResourceId)
    where coalesce(node_hours.job, best_labels.label) is not null
),

joint_hours as (
    select
        provider,
        SubAccountId,
        RegionId,
        BillingCurrency,
        label,
        max(label_kind) as label_kind,
        hour,
        count(distinct ResourceId) as nodes,
        count(distinct zone) as zones,
        count(distinct placement_group) as placement_groups,
        count(case when is_listed and placement_group is null then 1 end) as unplaced_nodes,
        count(case when has_rdma then 1 end) as rdma_nodes,
        count(case when not has_rdma then 1 end) as plain_nodes,
        sum(accelerator_cost) as accelerator_cost,
        sum(committed_cost) as committed_cost,
        bool_or(is_reserved) as is_reserved,
        bool_or(standby) as standby
    from member_hours
    group by provider, SubAccountId, RegionId, BillingCurrency, label, hour
    -- a node that replaces another in the same hour is not beside it
    having count(distinct ResourceId) >= $min_nodes and sum(running) >= $min_nodes - 0.5
),

clusters as (
    select
        provider,
        SubAccountId,
        RegionId,
        BillingCurrency,
        label,
        max(label_kind) as label_kind,
        count(*) as joint_hours,
        max(nodes) as nodes,
        max(zones) as zones,
        count(case when zones > 1 then 1 end) as spread_hours,
        -- InfiniBand is what a size has, and a reserved block is placed together as it is
        count(case when plain_nodes > 0 then 1 end) as plain_hours,
        count(case when (unplaced_nodes > 0 or placement_groups > 1) and not is_reserved and (provider <> 'azure' or rdma_nodes = 0) then 1 end) as unplaced_hours,
        sum(accelerator_cost) as accelerator_cost,
        sum(committed_cost) as committed_cost,
        bool_or(standby) as standby
    from joint_hours
    group by provider, SubAccountId, RegionId, BillingCurrency, label
    having count(*) >= $min_hours
),

members as materialized (
    select
        member_hours.provider,
        member_hours.SubAccountId,
        member_hours.RegionId,
        member_hours.BillingCurrency,
        member_hours.label,
        member_hours.ResourceId,
        max(member_hours.zone) as zone,
        max(member_hours.machine_type) as machine_type,
        max(member_hours.accelerator_model) as accelerator_model
    from member_hours
    inner join joint_hours
        on
            member_hours.provider = joint_hours.provider
            and member_hours.SubAccountId is not distinct from joint_hours.SubAccountId
            and member_hours.RegionId is not distinct from joint_hours.RegionId
            and member_hours.BillingCurrency = joint_hours.BillingCurrency
            and member_hours.label = joint_hours.label
            and member_hours.hour = joint_hours.hour
    group by
        member_hours.provider, member_hours.SubAccountId, member_hours.RegionId, member_hours.BillingCurrency, member_hours.label, member_hours.ResourceId
),

member_costs as (
    select
        members.provider,
        members.SubAccountId,
        members.RegionId,
        members.BillingCurrency,
        members.label,
        members.ResourceId,
        members.zone,
        members.machine_type,
        members.accelerator_model,
        sum(charges.EffectiveCost) as effective_cost,
        sum(case when charges.purchase_option in ('committed', 'reserved_capacity') then charges.EffectiveCost else 0 end) as committed_cost
    from members
    inner join charges using (provider, ResourceId, BillingCurrency)
    where charges.day >= $window_start and charges.day < $window_end
    group by
        members.provider, members.SubAccountId, members.RegionId, members.BillingCurrency, members.label, members.ResourceId, members.zone, members.machine_type,
        members.accelerator_model
),

totals as (
    select
        provider,
        SubAccountId,
        RegionId,
        BillingCurrency,
        label,
        sum(effective_cost) as effective_cost,
        sum(committed_cost) as committed_cost,
        max(machine_type) as machine_type,
        max(accelerator_model) as accelerator_model,
        list(distinct zone order by zone) as zone_list,
        list(ResourceId order by ResourceId) as members
    from member_costs
    group by provider, SubAccountId, RegionId, BillingCurrency, label
),

sent as (
    select
        metric_hours.provider,
        metric_hours.ResourceId,
        avg(metric_hours.sum_value) as hourly_bytes
    from metric_hours
    inner join node_hours using (provider, ResourceId, hour)
    where metric_hours.metric = 'net.sent_bytes'
    group by metric_hours.provider, metric_hours.ResourceId
),

-- a fabric's bytes are not in the machine's network metric, so of nodes with one it tells nothing
exchanges as (
    select
        members.provider,
        members.SubAccountId,
        members.RegionId,
        members.BillingCurrency,
        members.label,
        bool_and(coalesce(sent.hourly_bytes < $min_exchange and not coalesce(instances.has_rdma, false), false)) as is_quiet
    from members
    left join sent on members.provider = sent.provider and members.ResourceId = sent.ResourceId
    left join instances on members.provider = instances.provider and members.ResourceId = instances.ResourceId
    group by members.provider, members.SubAccountId, members.RegionId, members.BillingCurrency, members.label
),

judged as (
    select
        clusters.provider,
        clusters.SubAccountId,
        clusters.RegionId,
        clusters.BillingCurrency,
        clusters.label,
        clusters.label_kind,
        clusters.joint_hours,
        clusters.nodes,
        clusters.spread_hours,
        clusters.plain_hours,
        clusters.unplaced_hours,
        clusters.standby,
        totals.effective_cost,
        totals.committed_cost,
        totals.machine_type,
        totals.accelerator_model,
        totals.zone_list,
        totals.members,
        -- half of the hours together: a node that joins late makes no cluster slow for good
        clusters.spread_hours * 2 >= clusters.joint_hours as is_spread,
        clusters.plain_hours * 2 >= clusters.joint_hours as lacks_fabric,
        clusters.unplaced_hours * 2 >= clusters.joint_hours as lacks_placement,
        greatest(least(clusters.accelerator_cost - clusters.committed_cost, totals.effective_cost - totals.committed_cost), 0) as training_cost
    from clusters
    inner join totals
        on
            clusters.provider = totals.provider
            and clusters.SubAccountId is not distinct from totals.SubAccountId
            and clusters.RegionId is not distinct from totals.RegionId
            and clusters.BillingCurrency = totals.BillingCurrency
            and clusters.label = totals.label
    inner join exchanges
        on
            clusters.provider = exchanges.provider
            and clusters.SubAccountId is not distinct from exchanges.SubAccountId
            and clusters.RegionId is not distinct from exchanges.RegionId
            and clusters.BillingCurrency = exchanges.BillingCurrency
            and clusters.label = exchanges.label
    where not exchanges.is_quiet and not regexp_matches(lower(clusters.label), $trials)
)

select
    provider,
    label as ResourceId,
    SubAccountId,
    RegionId,
    BillingCurrency,
    effective_cost,
    committed_cost,
    training_cost * $efficiency_loss as avoidable_cost,
    0 as avoidable_low,
    training_cost * least(3 * $efficiency_loss, 1) as avoidable_high,
    'low' as confidence,
    format('{} nodes ({}) train together for {} hours, ', nodes, machine_type, joint_hours)
    || array_to_string(
        list_filter(
            [
                case when is_spread then 'spread over ' || array_to_string(zone_list, ' and ') end,
                case when lacks_fabric then 'without an RDMA fabric' end,
                case when lacks_placement then 'without one compact placement' end
            ],
            lambda each: each is not null
        ),
        ', '
    )
    || format('; a loss of {:.1f} % is assumed, nothing measures it', 100 * $efficiency_loss::double) as reason,
    -- clusters of one name in two regions are two problems
    label
    || case when row_number() over (partition by provider, SubAccountId, label, BillingCurrency order by training_cost desc, RegionId asc) > 1 then ' ' || RegionId else '' end
        as subject,
    label as cluster,
    label_kind as cluster_signal,
    members,
    nodes,
    zone_list as zones,
    machine_type,
    accelerator_model,
    joint_hours,
    spread_hours,
    plain_hours as hours_without_rdma,
    unplaced_hours,
    standby
from judged
where is_spread or lacks_fabric or lacks_placement
order by avoidable_cost desc, label asc
