"""Resources: the newest state of everything the inventory saw, and one view for each kind that rules ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Several files may describe a resource at one time (a tool's own listing, an asset search, a table by hand): what the
# fuller one says is kept where the others are silent. Older sightings do not complete newer ones: a machine that runs
# again must not keep the day on which it was stopped.
_SIGHTINGS = """
create or replace temp table sightings as
with resolved as (
    select seen.*, links.ResourceId
    from resources_seen as seen
    join inventory_links as links on links.provider = seen.provider and links.resource_id = seen.resource_id
),

newest as (
    select provider, ResourceId, max(observed_at) as observed_at from resolved group by provider, ResourceId
)

select
    resolved.provider,
    resolved.ResourceId,
    resolved.account_id,
    resolved.region,
    resolved.zone,
    nullif(resolved.resource_type, 'other') as resource_type,
    resolved.name,
    lower(resolved.state) as state,
    resolved.created_at,
    resolved.observed_at,
    nullif(resolved.tags, '{}') as tags,
    case when json_valid(resolved.attributes) then resolved.attributes::json end as attributes,
    case when json_valid(resolved.related) and json_type(resolved.related) in ('OBJECT', 'ARRAY') then resolved.related::json end as related,
    row_number() over (
        partition by resolved.provider, resolved.ResourceId
        order by
            resolved.observed_at asc nulls first, length(coalesce(resolved.attributes, '')) asc, resolved.resource_id asc,
            resolved.resource_type asc nulls first, resolved.attributes asc nulls first, resolved.name asc nulls first
    ) as place
from resolved
join newest on newest.provider = resolved.provider and newest.ResourceId = resolved.ResourceId
where resolved.observed_at is null or resolved.observed_at > newest.observed_at - interval 1 day
"""

_RESOURCES = """
create or replace table resources as
with merged as (
    select
        provider,
        ResourceId,
        last(account_id order by place) filter (where account_id is not null) as account_id,
        last(region order by place) filter (where region is not null) as region,
        last(zone order by place) filter (where zone is not null) as zone,
        last(resource_type order by place) filter (where resource_type is not null) as resource_type,
        last(name order by place) filter (where name is not null) as name,
        last(state order by place) filter (where state is not null) as state,
        min(created_at) as created_at,
        max(observed_at) as observed_at,
        last(tags order by place) filter (where tags is not null) as tags,
        list(attributes order by place) filter (where json_type(attributes) = 'OBJECT') as attributes,
        list(related order by place) filter (where related is not null) as related
    from sightings
    group by provider, ResourceId
),

billed as (
    select
        bill.provider,
        bill.ResourceId,
        arg_max(charges.SubAccountId, charges.day) as SubAccountId,
        arg_max(charges.RegionId, charges.day) as RegionId,
        arg_max(charges.AvailabilityZone, charges.day) as AvailabilityZone,
        arg_max(charges.ResourceName, charges.day) as ResourceName,
        arg_max(charges.Tags, charges.day) as Tags,
        arg_max(charges.owner, charges.day) as owner
    from charges
    join bill_identities as bill on bill.provider = charges.provider and bill.written_id = charges.ResourceId
    join merged on merged.provider = bill.provider and merged.ResourceId = bill.ResourceId
    group by bill.provider, bill.ResourceId
)

select
    merged.provider,
    coalesce(billed.SubAccountId, merged.account_id) as SubAccountId,
    coalesce(billed.RegionId, merged.region) as RegionId,
    coalesce(merged.zone, billed.AvailabilityZone) as AvailabilityZone,
    merged.ResourceId,
    coalesce(merged.name, billed.ResourceName) as ResourceName,
    coalesce(merged.resource_type, 'other') as ResourceType,
    merged.state,
    merged.created_at,
    merged.observed_at,
    coalesce(merged.tags, billed.Tags) as Tags,
    billed.owner,
    coalesce(list_reduce(merged.attributes, lambda kept, newer: json_merge_patch(kept, newer))::varchar, '{}') as attributes,
    case
        when len(merged.related) = 1 then merged.related[1]::varchar
        when merged.related is not null then to_json(merged.related)::varchar
        else '{}'
    end as related
from merged
left join billed on billed.provider = merged.provider and billed.ResourceId = merged.ResourceId
"""

# Whatever shape a relation has (an id, a list, objects with a type), its ids are its texts; a text that is nobody's
# alias falls away. Relations hold both ways: a machine names its disks, or a disk names its machine.
_RELATIONS = """
create or replace temp table relations as
with stated as (
    select resources.provider, resources.ResourceId, json_extract_string(leaf.atom, '$') as name
    from resources, json_tree(resources.related::json) as leaf
    where leaf.type = 'VARCHAR'
    union
    select provider, ResourceId, json_extract_string(attributes, '$.instance_id') from resources
    union
    select provider, ResourceId, json_extract_string(attributes, '$.attached_to') from resources
),

spelled as (
    select provider, ResourceId, lower(name) as alias from stated where name <> ''
    union
    select provider, ResourceId, plain_id(name) from stated where name <> ''
),

found as (
    select distinct spelled.provider, spelled.ResourceId, identities.ResourceId as other
    from spelled
    join identities on identities.provider = spelled.provider and identities.alias = spelled.alias
    where identities.ResourceId <> spelled.ResourceId
)

select provider, ResourceId, other from found
union
select provider, other, ResourceId from found
"""

_TEXT = "json_extract_string(attributes, '$.{0}')"
_FIRST_TEXT = "coalesce(json_extract_string(attributes, '$.{0}'), json_extract_string(attributes, '$.{1}'))"
_NUMBER = "try_cast(json_extract_string(attributes, '$.{0}') as double)"
_COUNT = "try_cast(json_extract_string(attributes, '$.{0}') as decimal(9, 3))"
_FLAG = "try_cast(json_extract_string(attributes, '$.{0}') as boolean)"
# A text with an offset is an instant; without one it is UTC. A plain cast to timestamp would drop the offset.
_TIME = (
    "case when regexp_matches(json_extract_string(attributes, '$.{0}'), '(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$') "
    "then make_timestamp(epoch_us(try_cast(json_extract_string(attributes, '$.{0}') as timestamptz))) "
    "else try_cast(json_extract_string(attributes, '$.{0}') as timestamp) end"
)
# Networks and subnets are named by id here and by self link there; one spelling lets them join.
_ID = (
    "coalesce((select any_value(identities.ResourceId) from identities where identities.provider = resources.provider "
    "and identities.alias = plain_id(json_extract_string(attributes, '$.{0}'))), json_extract_string(attributes, '$.{0}'))"
)

_BUCKET_BYTES = """coalesce(
    (
        select arg_max(metric_hours.mean_value, metric_hours.hour)
        from metric_hours
        where metric_hours.metric = 'bucket.size_bytes'
            and metric_hours.provider = resources.provider and metric_hours.ResourceId = resources.ResourceId
    ),
    try_cast(json_extract_string(attributes, '$.size_bytes') as double)
)"""

# view -> the resource types it holds, and the expression of each column that `resources` has not
_TYPED: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "instances": (
        ("instance", "tpu_node"),
        {
            "machine_type": _TEXT.format("machine_type"),
            "accelerator_model": _TEXT.format("accelerator_model"),
            "accelerator_count": _COUNT.format("accelerator_count"),
            "network_id": _ID.format("network_id"),
            "subnet_id": _ID.format("subnet_id"),
            "placement_group": _TEXT.format("placement_group"),
            "has_rdma": _FLAG.format("has_rdma"),
            "lifecycle": _TEXT.format("lifecycle"),
            "stopped_at": _TIME.format("stopped_at"),
        },
    ),
    "volumes": (
        ("volume",),
        {
            "volume_type": _TEXT.format("volume_type"),
            "size_gib": _NUMBER.format("size_gib"),
            "provisioned_iops": _NUMBER.format("provisioned_iops"),
            "provisioned_mibps": _NUMBER.format("provisioned_mibps"),
            "instance_id": _ID.format("instance_id"),
        },
    ),
    "file_systems": (
        ("file_system",),
        {
            "file_system_type": _TEXT.format("file_system_type"),
            "size_gib": _NUMBER.format("size_gib"),
            "provisioned_mibps": _NUMBER.format("provisioned_mibps"),
        },
    ),
    "load_balancers": (("load_balancer",), {"network_id": _ID.format("network_id")}),
    "addresses": (("address",), {"address": _TEXT.format("address"), "attached_to": _TEXT.format("attached_to")}),
    "private_endpoints": (
        ("private_endpoint",),
        {"network_id": _ID.format("network_id"), "service": _TEXT.format("service")},
    ),
    "reservations": (
        ("capacity_reservation",),
        {
            "machine_type": _TEXT.format("machine_type"),
            "accelerator_count": _COUNT.format("accelerator_count"),
            "reserved_count": _NUMBER.format("reserved_count"),
            "used_count": _NUMBER.format("used_count"),
            "ends_at": _TIME.format("ends_at"),
        },
    ),
    "commitments": (("commitment",), {"starts_at": _TIME.format("starts_at"), "ends_at": _TIME.format("ends_at")}),
    "notebooks": (("notebook", "ml_compute"), {"machine_type": _TEXT.format("machine_type")}),
    "endpoints": (("endpoint",), {"machine_type": _TEXT.format("machine_type")}),
    "jobs": (
        ("training_job",),
        {
            "machine_type": _TEXT.format("machine_type"),
            "started_at": _TIME.format("started_at"),
            "ended_at": _TIME.format("ended_at"),
            "uses_spot": _FLAG.format("uses_spot"),
        },
    ),
    "buckets": (("bucket",), {"has_lifecycle": _FLAG.format("has_lifecycle"), "size_bytes": _BUCKET_BYTES}),
}


def build(con: DuckDBPyConnection) -> None:
    """Create `resources` and its typed views (all but `nat_gateways`), one row a resource.

    Leaves the temporary table `relations` (resource to resource, both ways) for the marts that follow.
    """
    con.execute(_SIGHTINGS)
    con.execute(_RESOURCES)
    con.execute(_RELATIONS)
    for view, (types, expressions) in _TYPED.items():
        columns = ", ".join(
            f'({expressions[name]})::{kind} as "{name}"' if name in expressions else f'resources."{name}"'
            for name, kind in VIEWS[view].items()
        )
        accepted = ", ".join(f"'{name}'" for name in types)
        con.execute(
            f"create or replace table {view} as select {columns} from resources where ResourceType in ({accepted})"
        )
