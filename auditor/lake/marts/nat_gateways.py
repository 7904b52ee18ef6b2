"""NAT gateways: who sends through them, and whether a free way to object storage exists beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Ids inside attributes are spelled as the tool spelled them; here every one becomes its resource's own id.
_SPELLED = """
create or replace temp macro resource_named(cloud, name) as
    coalesce(
        (select any_value(identities.ResourceId) from identities where identities.provider = cloud and identities.alias = plain_id(name)),
        name
    )
"""

_SUBNETS = """
create or replace temp table subnets as
select
    provider,
    SubAccountId,
    RegionId,
    AvailabilityZone,
    ResourceId,
    resource_named(provider, json_extract_string(attributes, '$.network_id')) as network_id,
    try_cast(json_extract_string(attributes, '$.private_google_access') as boolean) as private_google_access,
    lower(coalesce(json_extract_string(attributes, '$.service_endpoints'), '')) like '%microsoft.storage%' as has_storage_endpoint
from resources
where ResourceType = 'subnet'
"""

_ROUTE_TABLES = """
create or replace temp table route_tables as
select
    provider,
    ResourceId,
    resource_named(provider, json_extract_string(attributes, '$.network_id')) as network_id,
    coalesce(try_cast(json_extract_string(attributes, '$.is_main') as boolean), false) as is_main
from resources
where ResourceType = 'route_table'
"""

_ROUTES = """
create or replace temp table routes as
with targets as (
    select
        resources.provider,
        resources.ResourceId as route_table_id,
        json_extract_string(route.value, '$.target') as target
    from resources, json_each(resources.attributes::json, '$.routes') as route
    where resources.ResourceType = 'route_table'
)

select provider, route_table_id, resource_named(provider, target) as target_id from targets where target is not null
"""

# An association is a subnet's id, or an object that holds one.
_ASSOCIATIONS = """
create or replace temp table route_table_subnets as
with named as (
    select
        resources.provider,
        resources.ResourceId as route_table_id,
        coalesce(json_extract_string(entry.value, '$.subnet_id'), json_extract_string(entry.value, '$.SubnetId'), json_extract_string(entry.value, '$'))
            as subnet_name
    from resources, json_each(resources.attributes::json, '$.associations') as entry
    where resources.ResourceType = 'route_table'
),

stated as (
    select named.provider, named.route_table_id, resource_named(named.provider, named.subnet_name) as subnet_id from named
    union
    select relations.provider, relations.other as route_table_id, subnets.ResourceId as subnet_id
    from relations
    join subnets on subnets.provider = relations.provider and subnets.ResourceId = relations.ResourceId
    join route_tables on route_tables.provider = relations.provider and route_tables.ResourceId = relations.other
),

known as (
    select stated.provider, stated.route_table_id, stated.subnet_id
    from stated
    where stated.subnet_id not like '{%'
)

select provider, route_table_id, subnet_id from known
union
-- the main table serves every subnet of its network that has none of its own
select route_tables.provider, route_tables.ResourceId, subnets.ResourceId
from route_tables
join subnets on subnets.provider = route_tables.provider and subnets.network_id = route_tables.network_id
left join known on known.provider = subnets.provider and known.subnet_id = subnets.ResourceId
where route_tables.is_main and known.subnet_id is null
"""

_GATEWAYS = """
create or replace temp table gateways as
select
    provider,
    SubAccountId,
    RegionId,
    ResourceId,
    coalesce(
        resource_named(provider, json_extract_string(attributes, '$.network_id')),
        (
            select any_value(subnets.network_id)
            from subnets
            where subnets.provider = resources.provider
                and subnets.ResourceId = resource_named(resources.provider, json_extract_string(resources.attributes, '$.subnet_id'))
        )
    ) as network_id,
    resource_named(provider, json_extract_string(attributes, '$.subnet_id')) as subnet_id,
    lower(coalesce(json_extract_string(attributes, '$.connectivity'), 'public')) as connectivity,
    lower(json_extract_string(attributes, '$.availability_mode')) as availability_mode
from resources
where ResourceType = 'nat_gateway'
"""

# AWS routes to a gateway by table; Google and Azure name the subnets, and a Google gateway without a list serves every
# subnet of its network in its region.
_CLIENTS = """
create or replace temp table gateway_subnets as
with routed as (
    select gateways.provider, gateways.ResourceId, route_table_subnets.subnet_id
    from gateways
    join routes on routes.provider = gateways.provider and routes.target_id = gateways.ResourceId
    join route_table_subnets
        on route_table_subnets.provider = routes.provider and route_table_subnets.route_table_id = routes.route_table_id
),

named as (
    select gateways.provider, gateways.ResourceId, subnets.ResourceId as subnet_id
    from gateways
    join relations on relations.provider = gateways.provider and relations.ResourceId = gateways.ResourceId
    join subnets on subnets.provider = relations.provider and subnets.ResourceId = relations.other
    where gateways.provider <> 'aws'  -- there the related subnet is the one the gateway stands in
)

select provider, ResourceId, subnet_id from routed
union
select provider, ResourceId, subnet_id from named
union
select gateways.provider, gateways.ResourceId, subnets.ResourceId
from gateways
join subnets
    on subnets.provider = gateways.provider and subnets.network_id = gateways.network_id and subnets.RegionId = gateways.RegionId
left join named on named.provider = gateways.provider and named.ResourceId = gateways.ResourceId
where gateways.provider = 'gcp' and named.subnet_id is null
"""

# A route table is covered by a service where a gateway endpoint of the service names it, or where it routes to one.
_COVERED = """
create or replace temp table covered_route_tables as
with gateway_endpoints as (
    select
        provider,
        ResourceId,
        attributes,
        regexp_extract(lower(json_extract_string(attributes, '$.service')), '([a-z0-9]+)$', 1) as service
    from resources
    where ResourceType = 'private_endpoint' and lower(json_extract_string(attributes, '$.endpoint_type')) = 'gateway'
        and coalesce(state, 'available') not in ('deleted', 'deleting', 'failed', 'rejected', 'expired')
),

named as (
    select gateway_endpoints.provider, gateway_endpoints.service, json_extract_string(entry.value, '$') as route_table_name
    from gateway_endpoints, json_each(gateway_endpoints.attributes::json, '$.route_table_ids') as entry
)

select provider, service, resource_named(provider, route_table_name) as route_table_id from named
union
select gateway_endpoints.provider, gateway_endpoints.service, routes.route_table_id
from gateway_endpoints
join routes on routes.provider = gateway_endpoints.provider and routes.target_id = gateway_endpoints.ResourceId
union
select gateway_endpoints.provider, gateway_endpoints.service, route_tables.ResourceId
from gateway_endpoints
join relations on relations.provider = gateway_endpoints.provider and relations.ResourceId = gateway_endpoints.ResourceId
join route_tables on route_tables.provider = relations.provider and route_tables.ResourceId = relations.other
"""

# Without route tables the network decides; without any endpoint or route table of the account nothing is known.
_FACTS = """
create or replace temp table gateway_facts as
with tables_of as (
    select gateways.provider, gateways.ResourceId, routes.route_table_id
    from gateways
    join routes on routes.provider = gateways.provider and routes.target_id = gateways.ResourceId
),

by_table as (
    select
        tables_of.provider,
        tables_of.ResourceId,
        list(distinct tables_of.route_table_id order by tables_of.route_table_id) as route_table_ids,
        bool_and(coalesce(s3.route_table_id is not null, false)) as has_s3_endpoint,
        bool_and(coalesce(dynamodb.route_table_id is not null, false)) as has_dynamodb_endpoint
    from tables_of
    left join (select distinct provider, route_table_id from covered_route_tables where service = 's3') as s3
        on s3.provider = tables_of.provider and s3.route_table_id = tables_of.route_table_id
    left join (select distinct provider, route_table_id from covered_route_tables where service = 'dynamodb') as dynamodb
        on dynamodb.provider = tables_of.provider and dynamodb.route_table_id = tables_of.route_table_id
    group by tables_of.provider, tables_of.ResourceId
),

by_network as (
    select
        gateways.provider,
        gateways.ResourceId,
        coalesce(bool_or(json_extract_string(endpoints_seen.attributes, '$.service') like '%.s3'), false) as has_s3_endpoint,
        coalesce(bool_or(json_extract_string(endpoints_seen.attributes, '$.service') like '%.dynamodb'), false) as has_dynamodb_endpoint
    from gateways
    left join resources as endpoints_seen
        on endpoints_seen.provider = gateways.provider and endpoints_seen.ResourceType = 'private_endpoint'
        and lower(json_extract_string(endpoints_seen.attributes, '$.endpoint_type')) = 'gateway'
        and resource_named(endpoints_seen.provider, json_extract_string(endpoints_seen.attributes, '$.network_id')) = gateways.network_id
    where exists (
        select 1
        from resources as listed
        where listed.provider = gateways.provider and listed.SubAccountId is not distinct from gateways.SubAccountId
            and listed.ResourceType in ('private_endpoint', 'route_table')
    )
    group by gateways.provider, gateways.ResourceId
),

by_subnet as (
    select
        gateway_subnets.provider,
        gateway_subnets.ResourceId,
        list(distinct gateway_subnets.subnet_id order by gateway_subnets.subnet_id) as subnet_ids,
        list(distinct subnets.AvailabilityZone order by subnets.AvailabilityZone) filter (where subnets.AvailabilityZone is not null) as client_zones,
        bool_and(subnets.private_google_access) as has_private_google_access,
        bool_and(subnets.has_storage_endpoint) as has_storage_service_endpoint
    from gateway_subnets
    left join subnets on subnets.provider = gateway_subnets.provider and subnets.ResourceId = gateway_subnets.subnet_id
    group by gateway_subnets.provider, gateway_subnets.ResourceId
)

select
    gateways.provider,
    gateways.ResourceId,
    gateways.network_id,
    gateways.subnet_id,
    gateways.connectivity,
    gateways.availability_mode,
    case when gateways.provider = 'aws' then coalesce(by_table.has_s3_endpoint, by_network.has_s3_endpoint) end as has_s3_endpoint,
    case when gateways.provider = 'aws' then coalesce(by_table.has_dynamodb_endpoint, by_network.has_dynamodb_endpoint) end as has_dynamodb_endpoint,
    case when gateways.provider = 'gcp' then by_subnet.has_private_google_access end as has_private_google_access,
    case when gateways.provider = 'azure' then by_subnet.has_storage_service_endpoint end as has_storage_service_endpoint,
    coalesce(by_table.route_table_ids, []) as route_table_ids,
    coalesce(by_subnet.client_zones, []) as client_zones,
    coalesce(by_subnet.subnet_ids, []) as subnet_ids
from gateways
left join by_table on by_table.provider = gateways.provider and by_table.ResourceId = gateways.ResourceId
left join by_network on by_network.provider = gateways.provider and by_network.ResourceId = gateways.ResourceId
left join by_subnet on by_subnet.provider = gateways.provider and by_subnet.ResourceId = gateways.ResourceId
"""

_STEPS = (_SPELLED, _SUBNETS, _ROUTE_TABLES, _ROUTES, _ASSOCIATIONS, _GATEWAYS, _CLIENTS, _COVERED, _FACTS)


def build(con: DuckDBPyConnection) -> None:
    """Create `nat_gateways`, one row a gateway.

    A service counts as reached without the gateway only where every route table (subnet) that leads to the gateway has its
    endpoint; null where the inventory lists neither route tables, endpoints nor subnets.
    """
    for statement in _STEPS:
        con.execute(statement)
    columns = ", ".join(
        f'resources."{name}"' if name in VIEWS["resources"] else f'gateway_facts."{name}"::{kind} as "{name}"'
        for name, kind in VIEWS["nat_gateways"].items()
    )
    con.execute(
        f"create or replace table nat_gateways as select {columns} from resources "
        "join gateway_facts on gateway_facts.provider = resources.provider and gateway_facts.ResourceId = resources.ResourceId "
        "where resources.ResourceType = 'nat_gateway'"
    )
