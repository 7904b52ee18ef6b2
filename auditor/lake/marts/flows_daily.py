"""Flows by day: how many bytes each resource exchanged with which peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The peer is the far end as the observer saw it. Private addresses recur between networks, so an address that more than
# one resource holds stays an address.
_FLOWS_DAILY = """
create or replace table flows_daily as
with seen as (
    select
        provider,
        resource_id,
        hour::date as day,
        case when lower(direction) in ('in', 'ingress') then source_address else destination_address end as peer_address,
        peer_service,
        peer_region_id,
        path,
        sum(bytes) as bytes
    from flows_seen
    group by all
)

select
    coalesce(ids.provider, seen.provider) as provider,
    coalesce(ids.ResourceId, seen.resource_id) as ResourceId,
    seen.day,
    coalesce(peers.ResourceId, seen.peer_address) as peer_id,
    seen.peer_service,
    coalesce(seen.peer_region_id, resources.RegionId) as peer_region_id,
    resources.AvailabilityZone as peer_zone,
    seen.path,
    sum(seen.bytes)::decimal(38, 0) as bytes
from seen
left join metric_identities as ids
    on ids.reported_provider is not distinct from seen.provider and ids.reported_id = seen.resource_id
left join identities as peers on peers.provider = seen.provider and peers.alias = lower(seen.peer_address)
left join resources on resources.provider = peers.provider and resources.ResourceId = peers.ResourceId
group by all
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `flows_daily`, one row per ResourceId, day, peer, service and path; bytes as the flow logs count them."""
    con.execute(_FLOWS_DAILY)
