"""Identities: under which names bills, inventories and telemetry know the same resource.

Only exact keys join: the whole id in any case, the tail of an ARN whose shape AWS makes unique (`i-…`, `vol-…`), the
number of a Google resource with its kind, a self link, the name that Google's bill gives a numbered machine, and the
further ids that the inventory states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# One spelling for the ways to write one id. Google's self link, its asset name and the project-relative name differ in
# the front only; a bucket's ARN and its name, `gs://` and the asset name mean the same bucket.
_PLAIN_ID = r"""
create or replace temp macro plain_id(id) as
    regexp_replace(
        regexp_replace(
            regexp_replace(
                regexp_replace(
                    regexp_replace(
                        rtrim(lower(trim(id)), '/'),
                        '^https?://(?:www|compute)\.googleapis\.com/(?:compute/)?(?:v1|beta|alpha)/',
                        '//compute.googleapis.com/'
                    ),
                    '^https?://([a-z]+)\.googleapis\.com/(?:v[0-9a-z]+/)?projects/',
                    '//\1.googleapis.com/projects/'
                ),
                '^projects/([^/]+)/(zones|regions|global)/',
                '//compute.googleapis.com/projects/\1/\2/'
            ),
            '^(?:gs://|//storage\.googleapis\.com/(?:projects/_/buckets/)?)',
            '//storage.googleapis.com/'
        ),
        '^arn:aws[a-z-]*:s3:::',
        ''
    )
"""

# What stays the same between two spellings of one resource: AWS gives such ids once in a partition, Google numbers its
# resources uniquely while the project appears by name or by number.
_KIN = r"""
create or replace temp macro kin(provider, plain) as
    case
        when provider = 'aws' then coalesce(
            nullif(regexp_extract(
                plain,
                '(?:^|[/:])((?:i|vol|nat|vpce|eni|eipalloc|fs|fsvol|cr|cb|snap|tgw|igw|subnet|vpc|rtb)-[0-9a-f]{8}(?:[0-9a-f]{9})?)$',
                1
            ), ''),
            plain
        )
        when provider = 'gcp' then coalesce(
            nullif(regexp_replace(
                regexp_extract(plain, '^//[a-z]+\.googleapis\.com/projects/[^/]+/.*/[a-z]+/[0-9]{10,}$'),
                '^//([a-z]+)\.googleapis\.com/.*/([a-z]+/[0-9]+)$',
                '\1/\2'
            ), ''),
            plain
        )
        else plain
    end
"""

# A bill may write one resource in several ways (Azure changes the case, AWS writes ids and ARNs); the spelling of its
# accelerator charges wins, then the most frequent.
_BILL = """
create or replace temp table bill_identities as
with written as (
    select
        provider,
        ResourceId,
        count(*) filter (where usage_kind like 'accelerator.%') as accelerator_rows,
        count(*) as charge_rows
    from charges
    where ResourceId is not null and ResourceId <> ''
    group by provider, ResourceId
),

plainly as (
    select *, plain_id(ResourceId) as plain from written
),

related as (
    select *, kin(provider, plain) as kin from plainly
)

select
    provider,
    ResourceId as written_id,
    plain,
    kin,
    first_value(ResourceId) over (
        partition by provider, kin
        order by accelerator_rows desc, charge_rows desc, ResourceId asc
    ) as ResourceId
from related
"""

_INVENTORY_NAMES = """
create or replace temp table inventory_names as
with named as (
    select provider, resource_id, resource_id as name, true as is_own from resources_seen
    union
    select provider, resource_id, unnest(aliases), false from resources_seen
),

plainly as (
    select *, plain_id(name) as plain from named where resource_id <> '' and name <> ''
)

select *, kin(provider, plain) as kin from plainly
"""

# Aliases that name a part of a resource (its interface, its address) still find it, but do not make it the same thing
# as the bill's line for that part.
_INVENTORY_LINKS = """
create or replace temp table inventory_links as
with seen as (
    select provider, resource_id, kin from inventory_names where is_own
),

neighbours as (
    select seen.provider, seen.kin, named.kin as other
    from seen
    join inventory_names as named on named.provider = seen.provider and named.resource_id = seen.resource_id
    where not named.is_own
        and (named.plain like '%/%' or named.plain like '%:%' or named.kin <> named.plain)
        and not regexp_matches(named.kin, '^(eni|eipalloc|subnet|vpc|vol|snap|rtb)-')
),

reach as (
    select provider, kin, kin as other from seen
    union
    select provider, kin, other from neighbours
    union
    select provider, other as kin, kin as other from neighbours
),

billed as (
    select reach.provider, reach.kin, count(distinct bill.ResourceId) as bill_ids, min(bill.ResourceId) as bill_id
    from reach
    join bill_identities as bill on bill.provider = reach.provider and bill.kin = reach.other
    group by reach.provider, reach.kin
),

own as (
    select provider, kin, any_value(ResourceId) as bill_id from bill_identities group by provider, kin
),

first_seen as (
    select reach.provider, reach.kin, min(seen.resource_id) as seen_id
    from reach
    join seen on seen.provider = reach.provider and seen.kin = reach.other
    group by reach.provider, reach.kin
)

select
    seen.provider,
    seen.resource_id,
    coalesce(own.bill_id, case when billed.bill_ids = 1 then billed.bill_id end, first_seen.seen_id) as ResourceId
from seen
left join own on own.provider = seen.provider and own.kin = seen.kin
left join billed on billed.provider = seen.provider and billed.kin = seen.kin
left join first_seen on first_seen.provider = seen.provider and first_seen.kin = seen.kin
"""

# A name that is a resource's own id outranks the same name among another's aliases.
_CANDIDATES = r"""
create or replace temp table alias_candidates as
with named as (
    select provider, lower(trim(written_id)) as name, plain, kin, ResourceId, 0 as rank from bill_identities
    union all
    select links.provider, lower(trim(names.name)), names.plain, names.kin, links.ResourceId, case when names.is_own then 0 else 1 end
    from inventory_names as names
    join inventory_links as links on links.provider = names.provider and links.resource_id = names.resource_id
),

bill_names as (
    select distinct
        bill.provider,
        bill.ResourceId,
        lower(charges.ResourceName) as name,
        regexp_replace(bill.plain, '[0-9]{10,}$', lower(charges.ResourceName)) as link,
        regexp_replace(link, '^(//[^/]+/projects/)[^/]+', '\1' || lower(charges.SubAccountId)) as project_link
    from charges
    join bill_identities as bill on bill.provider = charges.provider and bill.written_id = charges.ResourceId
    where charges.provider = 'gcp' and regexp_matches(bill.plain, '/instances/[0-9]{10,}$')
        and regexp_full_match(charges.ResourceName, '(?i)[a-z][-a-z0-9.]*')
),

spelled as (
    select provider, name as alias, ResourceId, rank from named
    union
    select provider, plain, ResourceId, rank from named
    union
    select provider, kin, ResourceId, rank from named
    union
    -- agents report a Google machine by its bare number
    select provider, regexp_extract(plain, '/instances/([0-9]{10,})$', 1), ResourceId, 1 from named where provider = 'gcp'
    union
    -- its bill numbers a machine and names it; clusters and agents report it by the name
    select provider, unnest([name, link, project_link]), ResourceId, 1 from bill_names
),

best as (
    select provider, alias, min(rank) as rank from spelled where alias <> '' group by provider, alias
)

select spelled.provider, spelled.alias, min(spelled.ResourceId) as ResourceId, count(distinct spelled.ResourceId) as resources
from spelled
join best on best.provider is not distinct from spelled.provider and best.alias = spelled.alias and best.rank = spelled.rank
group by spelled.provider, spelled.alias
"""

_AMBIGUOUS = """
create or replace table ambiguous_aliases as
select provider, alias, resources from alias_candidates where resources > 1
"""

# The samples are read once for their names; every further question goes to the few series.
_REPORTED = """
create or replace temp table reported_series as
select provider, resource_id, device, metric, count(*) as samples
from metrics
where time is not null and value is not null
group by provider, resource_id, device, metric
"""

# Telemetry that does not know its cloud (a bare host name) may be any cloud's, as long as one resource answers to it.
_METRIC_IDS = """
create or replace temp table metric_identities as
with known as (
    select provider, alias, ResourceId from alias_candidates where resources = 1
),

anywhere as (
    select alias, min(provider) as provider, min(ResourceId) as ResourceId
    from known
    group by alias
    having count(distinct ResourceId) = 1
),

reported as (
    select *, plain_id(resource_id) as plain
    from (
        select distinct provider, resource_id from reported_series
        union
        select distinct provider, resource_id from flows_seen
    )
    where resource_id is not null
),

resolved as (
    select
        reported.provider as reported_provider,
        reported.resource_id as reported_id,
        coalesce(reported.provider, anywhere.provider) as provider,
        coalesce(exact.ResourceId, near.ResourceId, anywhere.ResourceId) as ResourceId,
        coalesce(lower(coalesce(exact.ResourceId, near.ResourceId, anywhere.ResourceId)), reported.plain) as plain
    from reported
    left join known as exact on exact.provider = reported.provider and exact.alias = reported.plain
    left join known as near on near.provider = reported.provider and near.alias = kin(reported.provider, reported.plain)
    left join anywhere on reported.provider is null and anywhere.alias = reported.plain
),

-- Azure bills a scale set as one resource, while its members report one by one
members as (
    select
        resolved.*,
        whole.ResourceId as scale_set,
        regexp_extract(resolved.plain, '/virtualmachines/([^/]+)$', 1) as member
    from resolved
    left join bill_identities as itself on itself.provider = resolved.provider and itself.plain = resolved.plain
    left join (select provider, plain, any_value(ResourceId) as ResourceId from bill_identities group by provider, plain) as whole
        on itself.plain is null and whole.provider = resolved.provider
        and whole.plain = nullif(regexp_extract(resolved.plain, '^(.*/virtualmachinescalesets/[^/]+)/virtualmachines/[^/]+$', 1), '')
)

select distinct
    reported_provider,
    reported_id,
    provider,
    coalesce(scale_set, ResourceId, reported_id) as ResourceId,
    case when scale_set is not null then member end as member,
    coalesce(scale_set, ResourceId) is not null as resolved
from members
"""

_IDENTITIES = """
create or replace table identities as
select provider, alias, ResourceId from alias_candidates where resources = 1
union
select provider, lower(trim(reported_id)) as alias, ResourceId
from metric_identities
where resolved and lower(trim(reported_id)) not in (select alias from ambiguous_aliases)
"""


def build(con: DuckDBPyConnection) -> None:
    """Create `identities` and `ambiguous_aliases`.

    `identities` has one row per provider and lower-case alias, with the ResourceId as the bill writes it, else as the
    inventory does. For the marts that follow it leaves `reported_series`, `metric_identities` and
    `inventory_links`.
    """
    for statement in (
        _PLAIN_ID,
        _KIN,
        _BILL,
        _INVENTORY_NAMES,
        _INVENTORY_LINKS,
        _CANDIDATES,
        _AMBIGUOUS,
        _REPORTED,
        _METRIC_IDS,
        _IDENTITIES,
    ):
        con.execute(statement)
