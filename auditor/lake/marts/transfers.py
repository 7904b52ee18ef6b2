"""Transfers: the bill's transfer and NAT charges by resource and day, in one unit and with a direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor import assets

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Bills name locations by display name ("EU (Ireland)") or by id; their own rows tell which id a name means.
_LOCATIONS = """
create or replace temp table locations as
select provider, lower(RegionName) as location, min(RegionId) as RegionId
from charges
where RegionName is not null and RegionId is not null
group by provider, lower(RegionName)
having count(distinct RegionId) = 1
union
select distinct provider, lower(RegionId) as location, RegionId from charges where RegionId is not null
"""

# `APE1-USE1-AWS-In-Bytes` is billed in Hong Kong for bytes from Virginia: the first code is the biller's, the other the peer's.
_CODES = """
create or replace temp table region_codes as
select code, RegionId from read_csv($path, header = true, all_varchar = true)
"""

# Google bills GiB, AWS and Azure GB; byte counts are brought to the provider's own unit. Quantities that are no bytes
# (a gateway's hours) have none.
_TRANSFERS = r"""
create or replace table transfers as
with moved as (
    select
        *,
        case
            when usage_kind like '%.hours' then null
            when regexp_matches(ConsumedUnit, '(?i)^bytes?$') and provider = 'gcp'
                then ConsumedQuantity * 0.000000000931322574615478515625::decimal(30, 30)::double
            when regexp_matches(ConsumedUnit, '(?i)^bytes?$') then ConsumedQuantity::double / 1e9
            when regexp_matches(ConsumedUnit, '(?i)\b(tb|terabytes?)\b') then ConsumedQuantity::double * 1000
            when regexp_matches(ConsumedUnit, '(?i)\b(mb|megabytes?)\b') then ConsumedQuantity::double / 1000
            when regexp_matches(ConsumedUnit, '(?i)\b(mib|mebibytes?)\b') then ConsumedQuantity::double / 1024
            when ConsumedUnit is null or regexp_matches(ConsumedUnit, '(?i)(gb|gib|gigabytes?|gibibytes?)\b')
                then ConsumedQuantity::double
        end as gigabytes,
        case
            when regexp_matches(x_Operation, '(?i)[-_]in$') then 'in'
            when regexp_matches(x_Operation, '(?i)[-_]out$') then 'out'
            when regexp_matches(x_UsageType, '(?i)(^|-)in(-[a-z]*bytes)?$') then 'in'
            when regexp_matches(x_UsageType, '(?i)(^|-)out(-[a-z]*bytes)?$') then 'out'
            when regexp_matches(x_TransferType, '(?i)inbound') then 'in'
            when regexp_matches(x_TransferType, '(?i)outbound') then 'out'
            when regexp_matches(concat_ws(' ', x_SkuMeterName, x_SkuDescription), '(?i)\b(data transfer in|ingress|transfer in)\b') then 'in'
            when regexp_matches(concat_ws(' ', x_SkuMeterName, x_SkuDescription), '(?i)\b(data transfer out|egress|transfer out|out)\b') then 'out'
        end as direction,
        case when provider = 'aws' then regexp_extract(x_UsageType, '^([A-Z0-9]+)-([A-Z0-9]+)-AWS-(In|Out)-', ['own', 'peer', 'way']) end as route
    from charges
    where usage_kind like 'transfer.%' or usage_kind like 'nat.%'
)

select
    moved.provider,
    coalesce(bill.ResourceId, moved.ResourceId) as ResourceId,
    max(moved.ResourceName) as ResourceName,
    max(moved.ResourceType) as ResourceType,
    moved.SubAccountId,
    moved.RegionId,
    moved.BillingCurrency,
    moved.ServiceName,
    moved.day,
    moved.usage_kind,
    moved.direction,
    sum(moved.gigabytes::decimal(38, 12)) as gigabytes,
    sum(moved.EffectiveCost)::decimal(30, 12) as EffectiveCost,
    coalesce(senders.RegionId, case moved.route.way when 'Out' then own.RegionId when 'In' then peer.RegionId end) as from_region_id,
    coalesce(receivers.RegionId, case moved.route.way when 'Out' then peer.RegionId when 'In' then own.RegionId end) as to_region_id,
    max(moved.owner) as owner,
    max(moved.job) as job,
    bool_or(moved.standby) as standby
from moved
left join bill_identities as bill on bill.provider = moved.provider and bill.written_id = moved.ResourceId
left join locations as senders on senders.provider = moved.provider and senders.location = lower(moved.x_FromLocation)
left join locations as receivers on receivers.provider = moved.provider and receivers.location = lower(moved.x_ToLocation)
left join region_codes as own on own.code = moved.route.own
left join region_codes as peer on peer.code = moved.route.peer
group by
    moved.provider, coalesce(bill.ResourceId, moved.ResourceId), moved.SubAccountId, moved.RegionId, moved.BillingCurrency, moved.ServiceName,
    moved.day, moved.usage_kind, moved.direction, from_region_id, to_region_id
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `transfers`, one row per ResourceId, day and transfer or NAT kind (and direction, ends, currency).

    Locations become regions by the bill's own rows, on AWS else by the codes in the usage type; what neither knows is null.
    """
    con.execute(_LOCATIONS)
    con.execute(_CODES, {"path": str(assets.room("config") / "aws_region_codes.csv")})
    con.execute(_TRANSFERS)
