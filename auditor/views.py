"""The views that rules read: their names, what one row is, and the type of every column.

The lake builds them, rules bind to them, rule tests fill them. A column that only some providers know is null elsewhere.
`network_id`, `subnet_id`, `zone` and the like bear the same name on every cloud.
"""

from auditor.focus import LAKE_CHARGE_COLUMNS, MONEY, QUANTITY

_RESOURCE: dict[str, str] = {
    "provider": "VARCHAR",
    "SubAccountId": "VARCHAR",
    "RegionId": "VARCHAR",
    "AvailabilityZone": "VARCHAR",
    "ResourceId": "VARCHAR",  # as the bill writes it where the bill has it, else as the inventory does
    "ResourceName": "VARCHAR",
    "ResourceType": "VARCHAR",
    "state": "VARCHAR",  # running, stopped, available, in_use, deleted, ... in the vendor's lower-case word
    "created_at": "TIMESTAMP",
    "observed_at": "TIMESTAMP",
    "Tags": "VARCHAR",
    "owner": "VARCHAR",
    "attributes": "VARCHAR",  # JSON object as text: the vendor's own attributes
    "related": "VARCHAR",  # JSON object as text: relation -> id or list of ids
}

VIEWS: dict[str, dict[str, str]] = {
    # one FOCUS charge of one day
    "charges": LAKE_CHARGE_COLUMNS,
    # resource x day x transfer or NAT kind
    "transfers": {
        "provider": "VARCHAR",
        "ResourceId": "VARCHAR",
        "ResourceName": "VARCHAR",
        "ResourceType": "VARCHAR",
        "SubAccountId": "VARCHAR",
        "RegionId": "VARCHAR",
        "BillingCurrency": "VARCHAR",
        "ServiceName": "VARCHAR",
        "day": "DATE",
        "usage_kind": "VARCHAR",
        "direction": "VARCHAR",  # in, out, or null where the bill does not tell
        "gigabytes": QUANTITY,  # in the unit the provider bills: AWS and Azure GB, GCP GiB
        "EffectiveCost": MONEY,
        "from_region_id": "VARCHAR",
        "to_region_id": "VARCHAR",
        "owner": "VARCHAR",
        "job": "VARCHAR",
        "standby": "BOOLEAN",
    },
    # accelerator resource x hour x device
    "accelerator_hours": {
        "provider": "VARCHAR",
        "ResourceId": "VARCHAR",
        "ResourceName": "VARCHAR",
        "SubAccountId": "VARCHAR",
        "RegionId": "VARCHAR",
        "AvailabilityZone": "VARCHAR",
        "BillingCurrency": "VARCHAR",
        "ServiceName": "VARCHAR",
        "usage_kind": "VARCHAR",
        "hour": "TIMESTAMP",
        "device": "VARCHAR",
        "machine_type": "VARCHAR",
        "accelerator_model": "VARCHAR",
        "accelerator_count": "DECIMAL(9,3)",
        "accelerator_hours": QUANTITY,  # of this device in this hour, 0 to 1
        "EffectiveCost": MONEY,
        "committed_cost": MONEY,  # the part of EffectiveCost that a commitment covers
        "purchase_option": "VARCHAR",
        "owner": "VARCHAR",
        "job": "VARCHAR",
        "workload_kind": "VARCHAR",
        "workload_signal": "VARCHAR",
        "standby": "BOOLEAN",
        "utilization_mean": "DOUBLE",  # ratio
        "utilization_max": "DOUBLE",  # ratio
        "coverage": "DOUBLE",  # samples seen / expected in the billed part of the hour
        "memory_used_ratio": "DOUBLE",
        "storage_pressure": "DOUBLE",  # highest throughput or IOPS ratio of its disks and file systems in the hour
        "input_wait": "DOUBLE",  # CPU iowait ratio
        "class": "VARCHAR",  # reserved_unused, no_telemetry, starved, idle, held, productive
    },
    # machine type x region x purchase option, as this customer pays it in the window
    "paid_rates": {
        "provider": "VARCHAR",
        "RegionId": "VARCHAR",
        "machine_type": "VARCHAR",  # lower case
        "machine_family": "VARCHAR",  # within which the vendor sells commitments: g5, a2, standard_ncads_a100_v4
        "BillingCurrency": "VARCHAR",
        "purchase_option": "VARCHAR",  # on_demand, spot, committed
        "machine_hours": "DOUBLE",
        "EffectiveCost": MONEY,
        "hourly_rate": "DOUBLE",  # of a whole machine
        "list_ratio": "DOUBLE",  # EffectiveCost / ListCost of committed charges, where the bill states both
    },
    # commitment x hour (or day, as the bill has it)
    "commitment_hours": {
        "provider": "VARCHAR",
        "CommitmentDiscountId": "VARCHAR",
        "CommitmentDiscountType": "VARCHAR",
        "BillingAccountId": "VARCHAR",
        "SubAccountId": "VARCHAR",
        "RegionId": "VARCHAR",
        "BillingCurrency": "VARCHAR",
        "hour": "TIMESTAMP",
        "used_cost": MONEY,
        "unused_cost": MONEY,
    },
    # resource x device x metric x hour
    "metric_hours": {
        "provider": "VARCHAR",
        "ResourceId": "VARCHAR",
        "device": "VARCHAR",  # '' where the series has none
        "metric": "VARCHAR",
        "hour": "TIMESTAMP",
        "samples": "BIGINT",
        "expected": "DOUBLE",  # samples an hour at the series' own median spacing
        "mean_value": "DOUBLE",
        "min_value": "DOUBLE",
        "max_value": "DOUBLE",
        "p95_value": "DOUBLE",
        "sum_value": "DOUBLE",
    },
    "resources": _RESOURCE,
    "instances": {
        **_RESOURCE,
        "machine_type": "VARCHAR",
        "accelerator_model": "VARCHAR",
        "accelerator_count": "DECIMAL(9,3)",
        "network_id": "VARCHAR",
        "subnet_id": "VARCHAR",
        "placement_group": "VARCHAR",
        "has_rdma": "BOOLEAN",
        "lifecycle": "VARCHAR",  # spot or null
        "stopped_at": "TIMESTAMP",
    },
    "volumes": {
        **_RESOURCE,
        "volume_type": "VARCHAR",
        "size_gib": "DOUBLE",
        "provisioned_iops": "DOUBLE",
        "provisioned_mibps": "DOUBLE",
        "instance_id": "VARCHAR",
    },
    "file_systems": {
        **_RESOURCE,
        "file_system_type": "VARCHAR",
        "size_gib": "DOUBLE",
        "provisioned_mibps": "DOUBLE",
    },
    "nat_gateways": {
        **_RESOURCE,
        "network_id": "VARCHAR",
        "subnet_id": "VARCHAR",
        "connectivity": "VARCHAR",  # public or private
        "availability_mode": "VARCHAR",  # zonal or regional; AWS only
        "has_s3_endpoint": "BOOLEAN",
        "has_dynamodb_endpoint": "BOOLEAN",
        "has_private_google_access": "BOOLEAN",
        "has_storage_service_endpoint": "BOOLEAN",
        "route_table_ids": "VARCHAR[]",
        "client_zones": "VARCHAR[]",
        "subnet_ids": "VARCHAR[]",  # subnets that route through it
    },
    "load_balancers": {**_RESOURCE, "network_id": "VARCHAR"},
    "addresses": {**_RESOURCE, "address": "VARCHAR", "attached_to": "VARCHAR"},
    "private_endpoints": {**_RESOURCE, "network_id": "VARCHAR", "service": "VARCHAR"},
    "reservations": {
        **_RESOURCE,
        "machine_type": "VARCHAR",
        "accelerator_count": "DECIMAL(9,3)",
        "reserved_count": "DOUBLE",
        "used_count": "DOUBLE",
        "ends_at": "TIMESTAMP",
    },
    "commitments": {
        **_RESOURCE,
        "starts_at": "TIMESTAMP",
        "ends_at": "TIMESTAMP",
    },
    "notebooks": {**_RESOURCE, "machine_type": "VARCHAR"},
    "endpoints": {**_RESOURCE, "machine_type": "VARCHAR"},
    "jobs": {
        **_RESOURCE,
        "machine_type": "VARCHAR",
        "started_at": "TIMESTAMP",
        "ended_at": "TIMESTAMP",
        "uses_spot": "BOOLEAN",
    },
    "buckets": {**_RESOURCE, "has_lifecycle": "BOOLEAN", "size_bytes": "DOUBLE"},
    # resource x day x peer
    "flows_daily": {
        "provider": "VARCHAR",
        "ResourceId": "VARCHAR",
        "day": "DATE",
        "peer_id": "VARCHAR",
        "peer_service": "VARCHAR",
        "peer_region_id": "VARCHAR",
        "peer_zone": "VARCHAR",
        "path": "VARCHAR",
        "bytes": "DECIMAL(38,0)",
    },
    # accelerator x provider: how much work a device can do at most
    "accelerator_peaks": {
        "provider": "VARCHAR",
        "accelerator_model": "VARCHAR",
        "peak_tflops": "DOUBLE",  # dense, at the lowest precision it trains in
        "precision": "VARCHAR",
        "use": "VARCHAR",  # inference, training or both: what the device is sold for
        "quality": "VARCHAR",  # ok, or unconfirmed where no source was read
        "source": "VARCHAR",
        "as_of": "VARCHAR",
    },
    # budget x provider it covers
    "budgets": {
        "provider": "VARCHAR",
        "name": "VARCHAR",
        "monthly": MONEY,
        "currency": "VARCHAR",
        "account": "VARCHAR",  # sub account or billing account; null means all
        "tag_key": "VARCHAR",  # lower case, letters and digits only; null means that tags do not matter
        "tag_value": "VARCHAR",  # lower case
        "provider_count": "BIGINT",  # how many providers the budget covers
    },
    "prices": {
        "provider": "VARCHAR",
        "RegionId": "VARCHAR",
        "machine_type": "VARCHAR",
        "accelerator_model": "VARCHAR",
        "accelerator_count": "DECIMAL(9,3)",
        "price_kind": "VARCHAR",  # on_demand, spot, commit_1y, commit_3y
        "low": MONEY,
        "high": MONEY,
        "unit": "VARCHAR",
        "currency": "VARCHAR",
        "source": "VARCHAR",
        "as_of": "VARCHAR",
    },
}

# What a rule's query must return, in the money of its own window.
RULE_RESULT: dict[str, str] = {
    "provider": "VARCHAR",
    "ResourceId": "VARCHAR",
    "SubAccountId": "VARCHAR",
    "RegionId": "VARCHAR",
    "BillingCurrency": "VARCHAR",
    "effective_cost": MONEY,
    "committed_cost": MONEY,
    "avoidable_cost": MONEY,
    "avoidable_low": MONEY,
    "avoidable_high": MONEY,
    "confidence": "VARCHAR",
    "reason": "VARCHAR",
}

# What it may return besides; anything else is evidence.
RULE_RESULT_OPTIONAL: dict[str, str] = {
    "window_start": "TIMESTAMP",
    "window_end": "TIMESTAMP",
    "subject": "VARCHAR",
    "AvailabilityZone": "VARCHAR",
    "ResourceName": "VARCHAR",
    "ResourceType": "VARCHAR",
    "ServiceName": "VARCHAR",
    "Tags": "VARCHAR",
    "owner": "VARCHAR",
}

METRICS: dict[str, str] = {
    "time": "TIMESTAMP",  # start of the sample's interval, UTC
    "provider": "VARCHAR",
    "resource_id": "VARCHAR",
    "device": "VARCHAR",  # '' where the series has none
    "metric": "VARCHAR",
    "value": "DOUBLE",
    "unit_source": "VARCHAR",  # what the source declared: 'ratio', 'percent', 'bytes', ...
}

RESOURCES: dict[str, str] = {
    "provider": "VARCHAR",
    "account_id": "VARCHAR",
    "region": "VARCHAR",
    "zone": "VARCHAR",
    "resource_id": "VARCHAR",
    "resource_type": "VARCHAR",
    "name": "VARCHAR",
    "state": "VARCHAR",
    "created_at": "TIMESTAMP",
    "observed_at": "TIMESTAMP",
    "tags": "VARCHAR",  # JSON object as text
    "attributes": "VARCHAR",  # JSON object as text
    "related": "VARCHAR",  # JSON object as text
    "aliases": "VARCHAR[]",  # every further id under which bills and telemetry may know it
}

# Prices that users give, as their lists state them.
PRICES: dict[str, str] = {
    **VIEWS["prices"],
    "AvailabilityZone": "VARCHAR",  # of spot prices
    "scope": "VARCHAR",  # whole_instance, per_chip (TPU), accelerator_only (without its host)
    "variant": "VARCHAR",  # keeps apart what one list prices under several names; of each the newest counts
}

FLOWS: dict[str, str] = {
    "provider": "VARCHAR",
    "hour": "TIMESTAMP",
    "resource_id": "VARCHAR",  # interface, gateway or machine that saw the bytes
    "source_address": "VARCHAR",
    "destination_address": "VARCHAR",
    "peer_service": "VARCHAR",
    "peer_region_id": "VARCHAR",
    "zone": "VARCHAR",
    "direction": "VARCHAR",
    "path": "VARCHAR",
    "bytes": "DECIMAL(38,0)",
}
