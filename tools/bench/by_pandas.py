"""What a careful analyst would write instead: a CUR 2.0 read with pandas, mapped to FOCUS, written, and summed by resource and day.

    python by_pandas.py FOLDER TARGET

Needs pandas and pyarrow, which are no dependencies of this project: the benchmark runs it in an environment of its own. Costs are
binary floating point here, there is no check against the bill, and no tag becomes an owner.
"""

import sys
from pathlib import Path

import pandas as pd

NAMES = {
    "bill_payer_account_id": "BillingAccountId",
    "line_item_usage_account_id": "SubAccountId",
    "line_item_usage_start_date": "ChargePeriodStart",
    "line_item_usage_end_date": "ChargePeriodEnd",
    "line_item_currency_code": "BillingCurrency",
    "line_item_line_item_description": "ChargeDescription",
    "line_item_usage_amount": "ConsumedQuantity",
    "pricing_unit": "ConsumedUnit",
    "pricing_public_on_demand_cost": "ListCost",
    "product_region_code": "RegionId",
    "line_item_resource_id": "ResourceId",
    "product_sku": "SkuId",
    "product_product_family": "ServiceCategory",
    "line_item_product_code": "x_ServiceCode",
    "line_item_usage_type": "x_UsageType",
    "line_item_operation": "x_Operation",
    "resource_tags": "Tags",
}
MONEY = ["line_item_unblended_cost", "reservation_effective_cost", "savings_plan_savings_plan_effective_cost"]
CATEGORIES = {
    "DiscountedUsage": "Usage",
    "SavingsPlanCoveredUsage": "Usage",
    "Usage": "Usage",
    "Tax": "Tax",
    "Credit": "Credit",
}
KEYS = [
    "SubAccountId",
    "ResourceId",
    "RegionId",
    "x_ServiceCode",
    "x_UsageType",
    "x_Operation",
    "ChargeCategory",
    "day",
]


def main() -> None:
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    sums = []
    for number, path in enumerate(sorted(folder.glob("*.parquet"))):
        bill = pd.read_parquet(path, columns=[*NAMES, *MONEY, "line_item_line_item_type"]).rename(columns=NAMES)
        kind = bill.pop("line_item_line_item_type")
        bill = bill[kind != "SavingsPlanNegation"]
        kind = kind[kind != "SavingsPlanNegation"]
        unblended, reserved, planned = (bill.pop(name) for name in MONEY)
        bill["ChargeCategory"] = kind.map(CATEGORIES).fillna("Adjustment")
        bill["BilledCost"] = unblended.mask(kind == "SavingsPlanCoveredUsage", 0)
        bill["EffectiveCost"] = unblended.mask(kind == "DiscountedUsage", reserved).mask(
            kind == "SavingsPlanCoveredUsage", planned
        )
        bill["day"] = bill["ChargePeriodStart"].dt.floor("D")
        bill.to_parquet(target / f"rows-{number}.parquet", compression="zstd")
        sums.append(
            bill.groupby(KEYS, dropna=False, observed=True)[["BilledCost", "EffectiveCost", "ConsumedQuantity"]].sum()
        )
    pd.concat(sums).groupby(level=KEYS, dropna=False).sum().reset_index().to_parquet(target / "days.parquet")


if __name__ == "__main__":
    main()
