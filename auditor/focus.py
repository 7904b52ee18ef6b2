"""The FOCUS columns of the lake and the columns that auditor derives from them.

Names and meanings follow the FinOps Open Cost and Usage Specification 1.2, with the provider columns of 1.3 beside it.
Money is DECIMAL(30,12); quantities are DECIMAL(38,12) because GCP counts byte-seconds.
"""

MONEY = "DECIMAL(30,12)"
QUANTITY = "DECIMAL(38,12)"

COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
QUANTITIES = ("ConsumedQuantity", "PricingQuantity", "CommitmentDiscountQuantity")

# What a normaliser writes: one FOCUS row of the bill. `provider` is ours, the other lower-case column, `hourly`, asks
# for the row to be kept by the hour as well (accelerators and commitments).
CHARGE_COLUMNS: dict[str, str] = {
    "provider": "VARCHAR",
    "BillingAccountId": "VARCHAR",
    "BillingAccountName": "VARCHAR",
    "BillingAccountType": "VARCHAR",
    "BillingCurrency": "VARCHAR",
    "BillingPeriodStart": "TIMESTAMP",
    "BillingPeriodEnd": "TIMESTAMP",
    "SubAccountId": "VARCHAR",
    "SubAccountName": "VARCHAR",
    "SubAccountType": "VARCHAR",
    "ChargeCategory": "VARCHAR",
    "ChargeClass": "VARCHAR",
    "ChargeDescription": "VARCHAR",
    "ChargeFrequency": "VARCHAR",
    "ChargePeriodStart": "TIMESTAMP",
    "ChargePeriodEnd": "TIMESTAMP",
    "CommitmentDiscountCategory": "VARCHAR",
    "CommitmentDiscountId": "VARCHAR",
    "CommitmentDiscountName": "VARCHAR",
    "CommitmentDiscountStatus": "VARCHAR",
    "CommitmentDiscountType": "VARCHAR",
    "CommitmentDiscountUnit": "VARCHAR",
    "CapacityReservationId": "VARCHAR",
    "CapacityReservationStatus": "VARCHAR",
    "ConsumedUnit": "VARCHAR",
    "PricingCategory": "VARCHAR",
    "PricingCurrency": "VARCHAR",
    "PricingUnit": "VARCHAR",
    "ListUnitPrice": MONEY,
    "ContractedUnitPrice": MONEY,
    "InvoiceId": "VARCHAR",
    "InvoiceIssuerName": "VARCHAR",
    "ProviderName": "VARCHAR",
    "PublisherName": "VARCHAR",
    "ServiceProviderName": "VARCHAR",
    "HostProviderName": "VARCHAR",
    "RegionId": "VARCHAR",
    "RegionName": "VARCHAR",
    "AvailabilityZone": "VARCHAR",
    "ResourceId": "VARCHAR",
    "ResourceName": "VARCHAR",
    "ResourceType": "VARCHAR",
    "ServiceCategory": "VARCHAR",
    "ServiceSubcategory": "VARCHAR",
    "ServiceName": "VARCHAR",
    "SkuId": "VARCHAR",
    "SkuMeter": "VARCHAR",
    "SkuPriceId": "VARCHAR",
    "Tags": "VARCHAR",  # JSON object as text, or null
    # The providers' own keys, which classification and rules read.
    "x_ServiceCode": "VARCHAR",  # AWS product code, GCP service id, Azure consumed service
    "x_UsageType": "VARCHAR",  # AWS usage type
    "x_Operation": "VARCHAR",  # AWS operation
    "x_LineItemType": "VARCHAR",  # AWS line item type, GCP cost type, Azure charge type
    "x_SkuDescription": "VARCHAR",  # GCP SKU description, Azure product name
    "x_SkuMeterCategory": "VARCHAR",  # Azure meter category
    "x_SkuMeterSubcategory": "VARCHAR",  # Azure meter sub-category
    "x_SkuMeterName": "VARCHAR",  # Azure meter name
    "x_InstanceType": "VARCHAR",  # machine type as the provider writes it (ml.p4d.24xlarge, a3-highgpu-8g, Standard_ND96isr_H100_v5)
    "x_FromLocation": "VARCHAR",  # sending region, as written
    "x_ToLocation": "VARCHAR",  # receiving region, as written
    "x_TransferType": "VARCHAR",  # AWS product transfer type
    "x_CommitmentDiscountEnd": "TIMESTAMP",  # AWS end time of the savings plan or reservation
    "x_SubscriptionId": "VARCHAR",  # GCP subscription.instance_id
    "x_CostBasis": "VARCHAR",  # Azure: actual, amortized, or null where one row bears both costs
    "BilledCost": MONEY,
    "EffectiveCost": MONEY,
    "ListCost": MONEY,
    "ContractedCost": MONEY,
    "ConsumedQuantity": QUANTITY,
    "PricingQuantity": QUANTITY,
    "CommitmentDiscountQuantity": QUANTITY,
}

MEASURES = (*COSTS, *QUANTITIES)

# The distinct values of these decide what a charge is (config/classification/*.csv).
CLASSIFICATION_KEYS = (
    "provider",
    "ServiceName",
    "x_ServiceCode",
    "x_UsageType",
    "x_Operation",
    "x_SkuDescription",
    "x_SkuMeterCategory",
    "x_SkuMeterSubcategory",
    "x_SkuMeterName",
    "x_InstanceType",
    "x_TransferType",
    "ResourceType",
    "ChargeCategory",
    "PricingCategory",
    "CommitmentDiscountStatus",
    "CapacityReservationStatus",
)

# What auditor adds to every charge of the lake.
DERIVED_COLUMNS: dict[str, str] = {
    "day": "DATE",
    "usage_kind": "VARCHAR",
    "machine_type": "VARCHAR",
    "accelerator_model": "VARCHAR",
    "accelerator_count": "DECIMAL(9,3)",  # devices of one machine; slices are fractions
    "purchase_option": "VARCHAR",  # on_demand, spot, committed, reserved_capacity
    "workload_kind": "VARCHAR",  # training, inference, notebook, or null
    "workload_signal": "VARCHAR",  # what decided the kind: service, tag:<key>, name
    "owner": "VARCHAR",
    "job": "VARCHAR",
    "standby": "BOOLEAN",
    "source_rows": "BIGINT",
    "delivery_id": "VARCHAR",
    "bill_day": "DATE",  # day the bill's line begins, for GCP the day of its export: what overlapping deliveries share
}

LAKE_CHARGE_COLUMNS: dict[str, str] = {**CHARGE_COLUMNS, **DERIVED_COLUMNS}

# What differs between the charges of one key: the rest of a charge is the same from day to day.
CHARGE_FACTS: dict[str, str] = {
    name: LAKE_CHARGE_COLUMNS[name] for name in ("day", "bill_day", *MEASURES, "source_rows")
}
CHARGE_KEY_COLUMNS: dict[str, str] = {
    name: kind
    for name, kind in LAKE_CHARGE_COLUMNS.items()
    if name not in CHARGE_FACTS and name not in ("ChargePeriodStart", "ChargePeriodEnd")
}
