"""Makes charges conform to a version of FOCUS: its columns, its allowed values, its rules about nulls.

What a bill does not tell stays null. Names that FOCUS wants and bills lack (service categories, display names of regions,
types of resources and accounts) come from the tables in `config/focus`, looked up once for each distinct key.
"""

import csv
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from auditor.assets import room

if TYPE_CHECKING:
    import duckdb

VERSIONS = ("1.0", "1.1", "1.2")
_NOT_TAX = "case when ChargeCategory <> 'Tax' then {} end"
# A quantity must have a unit. AWS meters what it calls bytes in GB; "Units" is its own word where it says no more.
_UNTOLD_UNIT = "case when provider = 'aws' and regexp_matches(x_UsageType, '(?i)bytes$') then 'GB' else 'Units' end"
_COMMITTED = "case when CommitmentDiscountId is not null then {} end"

# FOCUS column -> (the version that brought it, SQL over `filled`), in the specification's own order, which is alphabetical.
_COLUMNS: Mapping[str, tuple[str, str]] = {
    "AvailabilityZone": ("1.0", "AvailabilityZone"),
    "BilledCost": ("1.0", "BilledCost"),
    "BillingAccountId": ("1.0", "BillingAccountId"),
    "BillingAccountName": ("1.0", "BillingAccountName"),
    "BillingAccountType": (
        "1.2",
        "case when BillingAccountId is not null then coalesce(BillingAccountType, own_account_type) end",
    ),
    "BillingCurrency": ("1.0", "BillingCurrency"),
    "BillingPeriodEnd": ("1.0", "BillingPeriodEnd at time zone 'UTC'"),
    "BillingPeriodStart": ("1.0", "BillingPeriodStart at time zone 'UTC'"),
    "CapacityReservationId": ("1.1", "CapacityReservationId"),
    "CapacityReservationStatus": (
        "1.1",
        "case when CapacityReservationId is not null and ChargeCategory = 'Usage' then coalesce(CapacityReservationStatus, 'Used') end",
    ),
    "ChargeCategory": ("1.0", "ChargeCategory"),
    "ChargeClass": ("1.0", "ChargeClass"),
    "ChargeDescription": ("1.0", "ChargeDescription"),
    "ChargeFrequency": (
        "1.0",
        "case when ChargeCategory = 'Purchase' and coalesce(ChargeFrequency, 'Usage-Based') = 'Usage-Based' then 'One-Time' "
        "else coalesce(ChargeFrequency, case when ChargeCategory = 'Usage' then 'Usage-Based' else 'One-Time' end) end",
    ),
    "ChargePeriodEnd": ("1.0", "ChargePeriodEnd at time zone 'UTC'"),
    "ChargePeriodStart": ("1.0", "ChargePeriodStart at time zone 'UTC'"),
    "CommitmentDiscountCategory": ("1.0", _COMMITTED.format("CommitmentDiscountCategory")),
    "CommitmentDiscountId": ("1.0", "CommitmentDiscountId"),
    "CommitmentDiscountName": ("1.0", _COMMITTED.format("CommitmentDiscountName")),
    "CommitmentDiscountQuantity": ("1.1", "commitment_quantity"),
    "CommitmentDiscountStatus": (
        "1.0",
        "case when CommitmentDiscountId is not null and ChargeCategory = 'Usage' then CommitmentDiscountStatus end",
    ),
    "CommitmentDiscountType": ("1.0", _COMMITTED.format("CommitmentDiscountType")),
    "CommitmentDiscountUnit": ("1.1", "case when commitment_quantity is not null then commitment_unit end"),
    "ConsumedQuantity": ("1.0", "consumed_quantity"),
    "ConsumedUnit": ("1.0", f"case when consumed_quantity is not null then coalesce(ConsumedUnit, {_UNTOLD_UNIT}) end"),
    "ContractedCost": ("1.0", "ContractedCost"),
    "ContractedUnitPrice": ("1.0", "contracted_unit_price"),
    "EffectiveCost": ("1.0", "EffectiveCost"),
    "InvoiceId": ("1.2", "InvoiceId"),
    "InvoiceIssuerName": ("1.0", "coalesce(InvoiceIssuerName, own_issuer)"),
    "ListCost": ("1.0", "ListCost"),
    "ListUnitPrice": ("1.0", "list_unit_price"),
    "PricingCategory": ("1.0", _NOT_TAX.format("PricingCategory")),
    "PricingCurrency": ("1.2", "pricing_currency"),
    "PricingCurrencyContractedUnitPrice": (
        "1.2",
        "case when pricing_currency = BillingCurrency then contracted_unit_price end",
    ),
    "PricingCurrencyEffectiveCost": ("1.2", "case when pricing_currency = BillingCurrency then EffectiveCost end"),
    "PricingCurrencyListUnitPrice": ("1.2", "case when pricing_currency = BillingCurrency then list_unit_price end"),
    "PricingQuantity": ("1.0", "pricing_quantity"),
    "PricingUnit": ("1.0", f"case when pricing_quantity is not null then coalesce(PricingUnit, {_UNTOLD_UNIT}) end"),
    # Who made a marketplace product is its publisher; whoever sells it stays the provider.
    "ProviderName": (
        "1.0",
        "case when regexp_matches(ProviderName, '(?i)^(aws|amazon|gcp|google|azure|microsoft)') then ProviderName else coalesce(own_provider, ProviderName) end",
    ),
    "PublisherName": ("1.0", "coalesce(PublisherName, own_provider, ProviderName)"),
    "RegionId": ("1.0", "RegionId"),
    "RegionName": ("1.0", "case when RegionId is not null then coalesce(RegionName, own_region, RegionId) end"),
    "ResourceId": ("1.0", "resource_id"),
    "ResourceName": ("1.0", "case when resource_id is not null then ResourceName end"),
    "ResourceType": (
        "1.0",
        "case when resource_id is null then null when ResourceId is null then CommitmentDiscountType else coalesce(ResourceType, own_resource_type) end",
    ),
    "ServiceCategory": ("1.0", "service_category"),
    "ServiceName": ("1.0", "service_name"),
    "ServiceSubcategory": ("1.1", "service_subcategory"),
    "SkuId": ("1.0", _NOT_TAX.format("SkuId")),
    # Exports of FOCUS 1.0 by AWS have no meter; it is the usage type, as in later ones.
    "SkuMeter": (
        "1.1",
        "case when ChargeCategory <> 'Tax' and SkuId is not null then coalesce(SkuMeter, x_UsageType) end",
    ),
    "SkuPriceDetails": (
        "1.1",
        "case when sku_price_id is not null and x_InstanceType is not null then json_object('InstanceType', x_InstanceType)::varchar end",
    ),
    "SkuPriceId": ("1.0", "sku_price_id"),
    "SubAccountId": ("1.0", "SubAccountId"),
    "SubAccountName": ("1.0", "case when SubAccountId is not null then coalesce(SubAccountName, SubAccountId) end"),
    "SubAccountType": (
        "1.2",
        "case when SubAccountId is not null then coalesce(SubAccountType, own_sub_account_type) end",
    ),
    "Tags": ("1.0", "case when has_tags then Tags end"),
}
_OWN = (
    "x_ServiceCode",
    "x_UsageType",
    "x_Operation",
    "x_LineItemType",
    "x_SkuDescription",
    "x_SkuMeterCategory",
    "x_SkuMeterSubcategory",
    "x_SkuMeterName",
    "x_InstanceType",
    "x_FromLocation",
    "x_ToLocation",
    "x_TransferType",
    "x_CommitmentDiscountEnd",
    "x_SubscriptionId",
    "x_CostBasis",
)


def columns(version: str) -> list[str]:
    """The version's own columns in their order."""
    return [name for name, (since, _) in _COLUMNS.items() if since <= version]


def prepare(con: "duckdb.DuckDBPyConnection") -> None:
    """Tables of what the loaded `charges` lack, by their distinct services and resources."""
    _load(con, "providers")
    _load(con, "regions")
    _load(con, "subcategories")
    _name_services(con)
    _type_resources(con)


def select(relation: str, version: str) -> str:
    """SQL of the relation's charges as rows of FOCUS, our own columns behind, named `x_…`."""
    wanted = ", ".join(f"{_COLUMNS[name][1]} as {name}" for name in columns(version))
    own = ", ".join(_OWN)
    raw_tags = "case when not has_tags then Tags end as x_Tags"
    return f"select {wanted}, {own}, {raw_tags} from ({_filled(relation)})"


def _filled(relation: str) -> str:
    """The charges with what the columns of FOCUS are made of; a price is the cost over the quantity that it is for."""

    def price(cost: str) -> str:
        # Credits, refunds and what has no quantity have no price; a unit price is never negative.
        return (
            f"case when ChargeCategory <> 'Tax' and pricing_quantity > 0 and {cost} >= 0 "
            f"then try_cast({cost}::double / pricing_quantity::double as decimal(38,15)) end"
        )

    spent = "CommitmentDiscountCategory = 'Spend' and provider in ('aws', 'azure')"
    return f"""
        select
            *, {price("ListCost")} as list_unit_price, {price("ContractedCost")} as contracted_unit_price,
            -- A commitment to spend is counted in money, one to use in what is used.
            case
                when CommitmentDiscountId is null or ChargeCategory <> 'Usage' then CommitmentDiscountQuantity
                when CommitmentDiscountQuantity is not null then CommitmentDiscountQuantity
                when {spent} then EffectiveCost
                when CommitmentDiscountStatus = 'Used' and ConsumedUnit is not null then consumed_quantity
            end as commitment_quantity,
            case
                when CommitmentDiscountQuantity is not null then CommitmentDiscountUnit
                when {spent} then BillingCurrency
                else ConsumedUnit
            end as commitment_unit
        from (
            select
                c.*,
                p.ProviderName as own_provider, p.InvoiceIssuerName as own_issuer, p.BillingAccountType as own_account_type,
                p.SubAccountType as own_sub_account_type, r.RegionName as own_region, t.ResourceType as own_resource_type,
                -- A tax or a rounding belongs to no service, but FOCUS wants one: the provider's own.
                coalesce(c.ServiceName, c.x_ServiceCode, p.ProviderName, c.ProviderName) as service_name,
                coalesce(s.ServiceCategory, 'Other') as service_category,
                coalesce(s.ServiceSubcategory, 'Other (Other)') as service_subcategory,
                case when c.ChargeCategory in ('Usage', 'Purchase') or (c.ChargeCategory <> 'Tax' and c.PricingUnit is not null) then c.PricingQuantity end as pricing_quantity,
                case when c.ChargeCategory = 'Usage' and c.CommitmentDiscountStatus is distinct from 'Unused' then c.ConsumedQuantity end as consumed_quantity,
                -- Google's price list knows its prices by the SKU.
                case when c.ChargeCategory <> 'Tax' then coalesce(c.SkuPriceId, case when c.provider = 'gcp' then c.SkuId end) end as sku_price_id,
                coalesce(c.PricingCurrency, c.BillingCurrency) as pricing_currency,
                json_valid(c.Tags) as has_tags,
                -- A commitment's purchase and what of it was not used are charges of the commitment.
                coalesce(c.ResourceId, case when c.ChargeCategory = 'Purchase' or c.CommitmentDiscountStatus = 'Unused' then c.CommitmentDiscountId end) as resource_id
            from {relation} as c
            left join focus_providers as p on p.provider = c.provider
            left join focus_regions as r on r.provider = c.provider and r.RegionId = c.RegionId
            left join focus_services as s on s.provider = c.provider and s.ServiceName = coalesce(c.ServiceName, c.x_ServiceCode)
            left join focus_resources as t on t.provider = c.provider and t.ResourceId = c.ResourceId
        )
    """


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of one table of `config/focus`."""
    with (room("config") / "focus" / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _load(con: "duckdb.DuckDBPyConnection", name: str) -> None:
    _create(con, f"focus_{name}", read_table(name))


def _create(con: "duckdb.DuckDBPyConnection", table: str, rows: list[dict[str, Any]], *names: str) -> None:
    import json

    fields = names or tuple(rows[0])
    shape = json.dumps([dict.fromkeys(fields, "VARCHAR")])
    con.execute(
        f"create or replace temp table {table} as select unnest(from_json(?, '{shape}'), recursive := true)",
        [json.dumps(rows)],
    )


def _name_services(con: "duckdb.DuckDBPyConnection") -> None:
    """Table focus_services: one category and subcategory for each service's name, as FOCUS wants it.

    What the bill itself says comes first, unless it says no more than "Other"; else the first pattern that fits the name
    or the provider's code.
    """
    patterns = [(row["provider"], re.compile(row["pattern"], re.IGNORECASE), row) for row in read_table("services")]
    parents = {row["ServiceSubcategory"]: row["ServiceCategory"] for row in read_table("subcategories")}
    rows = con.execute("""
        select provider, coalesce(ServiceName, x_ServiceCode), list(distinct coalesce(x_ServiceCode, '')), max(ServiceCategory), max(ServiceSubcategory)
        from charges where coalesce(ServiceName, x_ServiceCode) is not null group by all
    """).fetchall()
    named = []
    for provider, name, codes, told, told_below in rows:
        texts = [name, *sorted(codes)]
        found = next((row for of, pattern, row in patterns if of == provider and any(map(pattern.search, texts))), None)
        known = found["ServiceSubcategory"] if found else None
        category = told if told in parents.values() and told != "Other" else None
        below = told_below if told_below in parents and told_below != "Other (Other)" else None
        if below is None or (category and parents[below] != category):
            below = known if known and category in (None, parents[known]) else f"Other ({category or 'Other'})"
        key = {"provider": provider, "ServiceName": name}
        named.append({**key, "ServiceCategory": parents[below], "ServiceSubcategory": below})
    _create(con, "focus_services", named, "provider", "ServiceName", "ServiceCategory", "ServiceSubcategory")


def _type_resources(con: "duckdb.DuckDBPyConnection") -> None:
    """Table focus_resources: the type of a resource whose bill does not tell it, by the form of its id."""
    cases = []
    for row in read_table("resource_types"):
        pattern = row["pattern"].replace("'", "''")
        made = (
            f"'{row['ResourceType']}'"
            if row["ResourceType"]
            else f"regexp_extract(ResourceId, '{pattern}', 1) || '/' || regexp_extract(ResourceId, '{pattern}', 2)"
        )
        of = f"provider = '{row['provider']}' and regexp_matches(service, '{row['service']}')"
        cases.append(f"when {of} and regexp_matches(ResourceId, '{pattern}') then {made}")
    con.execute(f"""
        create or replace temp table focus_resources as
        select provider, ResourceId, case {" ".join(cases)} end as ResourceType
        from (
            select provider, ResourceId, coalesce(min(x_ServiceCode), '') as service
            from charges
            where ResourceId is not null
            group by provider, ResourceId
        )
    """)
