"""What a charge is, told from its keys alone, in the spellings that bills use."""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from auditor.focus import CLASSIFICATION_KEYS
from auditor.normalise.classify import (
    CLASSIFIER_VERSION,
    classify,
    find_machines,
    other_share,
    settled,
    usage_kinds,
    with_parts,
)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def key(provider: str, **values: str) -> dict[str, str]:
    return {"provider": provider, "ChargeCategory": "Usage", **values}


def aws(usage_type: str, service: str = "AmazonEC2", operation: str = "", **values: str) -> dict[str, str]:
    return key("aws", x_UsageType=usage_type, x_ServiceCode=service, x_Operation=operation, **values)


def gcp(sku: str, service: str = "Compute Engine", machine: str = "", **values: str) -> dict[str, str]:
    return key("gcp", x_SkuDescription=sku, ServiceName=service, x_InstanceType=machine, **values)


def azure(category: str, sub: str, meter: str, size: str = "", **values: str) -> dict[str, str]:
    return key(
        "azure",
        x_SkuMeterCategory=category,
        x_SkuMeterSubcategory=sub,
        x_SkuMeterName=meter,
        x_InstanceType=size,
        **values,
    )


def text(provider: str, service: str, description: str, **values: str) -> dict[str, str]:
    """A FOCUS row of which only the description tells what it is."""
    return key(provider, ServiceName=service, x_SkuDescription=description, **values)


def classified(con: duckdb.DuckDBPyConnection, keys: list[dict[str, str]]) -> list[dict[str, object]]:
    """The classifier's answers in the order of the keys."""
    shape = json.dumps([{"place": "INTEGER", **dict.fromkeys(CLASSIFICATION_KEYS, "VARCHAR")}])
    con.execute(
        f"create or replace table keys as select unnest(from_json($keys::json, '{shape}'), recursive := true)",
        {"keys": json.dumps([{"place": place, **row} for place, row in enumerate(keys)])},
    )
    classify(con, "keys", "kinds")
    same = " and ".join(f"kinds.{name} is not distinct from keys.{name}" for name in CLASSIFICATION_KEYS)
    rows = con.execute(f"""
    select distinct on (place) usage_kind, machine_type, accelerator_model, accelerator_count, purchase_option,
        service_workload_kind
    from keys join kinds on {same} order by place
    """).fetchall()
    fields = ("usage_kind", "machine_type", "model", "count", "purchase_option", "workload")
    return [dict(zip(fields, row, strict=True)) for row in rows]


KINDS: list[tuple[dict[str, str], str]] = [
    # every provider
    (key("aws", ChargeCategory="Tax", x_ServiceCode="AmazonEC2"), "tax"),
    (aws("BoxUsage:p5.48xlarge", ChargeCategory="Credit"), "credit"),
    (key("aws", ChargeCategory="Adjustment", x_ServiceCode="AmazonEC2"), "adjustment"),
    # AWS transfer
    (aws("DataTransfer-Regional-Bytes", operation="InterZone-In"), "transfer.inter_zone"),
    (aws("APN1-DataTransfer-Regional-Bytes", operation="InterZone-Out"), "transfer.inter_zone"),
    (aws("EUC1-DataTransfer-Regional-Bytes"), "transfer.inter_zone"),
    (aws("DataTransfer-Regional-Bytes", "AWSELB", "LoadBalancing"), "transfer.inter_zone"),
    (aws("USE2-DataTransfer-xAZ-Out-Bytes", "AmazonRDS"), "transfer.inter_zone"),
    (aws("USE2-DataTransfer-Regional-Bytes", operation="VPCPeering-In"), "transfer.peering"),
    (aws("DataTransfer-Regional-Bytes", operation="PublicIP-Out"), "transfer.public_ip_same_region"),
    (aws("DataTransfer-Regional-Bytes", operation="LoadBalancing-PublicIP-In"), "transfer.public_ip_same_region"),
    (aws("USE1-EUC1-AWS-Out-Bytes", operation="PublicIP-Out"), "transfer.inter_region"),
    (aws("EUC1-USE1-AWS-In-Bytes"), "transfer.inter_region"),
    (aws("USE1-APS3-AWS-Out-ABytes", "AmazonS3"), "transfer.inter_region"),
    (aws("SAE1-DataTransfer-Out-Bytes"), "transfer.internet"),
    (aws("DataTransfer-Out-Bytes", "AmazonRDS"), "transfer.internet"),
    (aws("DataTransfer-In-Bytes"), "transfer.internet_in"),
    (aws("USE1-CloudFront-Out-Bytes", "AmazonS3"), "transfer.cdn"),
    (aws("EU-DataTransfer-Out-Bytes", "AmazonCloudFront"), "transfer.cdn"),
    (aws("USE1-VPN-Usage-Hours:ipsec.1", "AmazonVPC"), "transfer.vpn"),
    (aws("EqDC2-DataXfer-Out:dc.3", "AWSDirectConnect"), "transfer.direct_connect"),
    (aws("USE2-TransitGateway-Bytes", "AmazonVPC", "TransitGatewayVPC"), "transfer.transit_gateway"),
    # AWS network
    (aws("NatGateway-Hours", operation="NatGateway"), "nat.hours"),
    (aws("APS1-NatGateway-Bytes", operation="NatGateway"), "nat.bytes"),
    (aws("USE1-NatGateway-Prvd-Bytes", operation="NatGateway"), "nat.bytes"),
    (aws("USE1-VpcEndpoint-Hours", "AmazonVPC"), "private_endpoint.hours"),
    (aws("VpcEndpoint-GWLBE-Bytes", "AmazonVPC"), "private_endpoint.bytes"),
    (aws("LoadBalancerUsage", "AWSELB", "LoadBalancing:Network"), "load_balancer.hours"),
    (aws("CAN1-LCUUsage", "AWSELB", "LoadBalancing:Application"), "load_balancer.usage"),
    (aws("USW1-DataProcessing-Bytes", "AmazonEC2", "LoadBalancing"), "load_balancer.usage"),
    (aws("USE1-PublicIPv4:InUseAddress", "AmazonVPC"), "address.in_use"),
    (aws("PublicIPv4:IdleAddress", "AmazonVPC"), "address.idle"),
    (aws("EU-ElasticIP:IdleAddress"), "address.idle"),
    # AWS machines
    (aws("BoxUsage:p5.48xlarge", operation="RunInstances:0002"), "accelerator.hours"),
    (aws("EUN1-SpotUsage:g6e.12xlarge"), "accelerator.hours"),
    (aws("USE2-HeavyUsage:p4d.24xlarge"), "accelerator.hours"),
    (aws("USW2-BoxUsage:m7i.4xlarge"), "compute.hours"),
    (aws("BoxUsage"), "compute.hours"),
    (aws("USW2-UnusedBox:p5en.48xlarge"), "accelerator.reserved_unused"),
    (aws("USW2-UnusedBox:m5.large"), "compute.reserved_unused"),
    (aws("Reservation:p5.48xlarge"), "compute.reservation"),
    (aws("HeavyUsage:p4d.24xlarge", CommitmentDiscountStatus="Unused"), "accelerator.reserved_unused"),
    (aws("HeavyUsage:c6i.large", CommitmentDiscountStatus="Unused"), "commitment.unused"),
    (aws("HeavyUsage:p4d.24xlarge", ChargeCategory="Purchase"), "commitment.fee"),
    (aws("ComputeSP:3yrAllUpfront", "ComputeSavingsPlans", ChargeCategory="Purchase"), "commitment.fee"),
    (aws("ComputeSP:1yrNoUpfront", "ComputeSavingsPlans", CommitmentDiscountStatus="Unused"), "commitment.unused"),
    (aws("USE1-Train:ml.p4d.24xlarge", "AmazonSageMaker"), "accelerator.training_job"),
    (aws("Host:ml.g5.2xlarge", "AmazonSageMaker"), "accelerator.endpoint"),
    (aws("EU-AsyncInf:ml.inf2.xlarge", "AmazonSageMaker"), "accelerator.endpoint"),
    (aws("USE1-Notebk:ml.g4dn.xlarge", "AmazonSageMaker"), "accelerator.notebook"),
    (aws("USE1-Studio:KernelGateway-ml.g5.xlarge", "AmazonSageMaker"), "accelerator.notebook"),
    (aws("USE1-Tsform:ml.p3.2xlarge", "AmazonSageMaker"), "accelerator.batch"),
    (aws("USW2-Cluster:ml.p5.48xlarge", "AmazonSageMaker"), "accelerator.hours"),
    (aws("USE1-Train:ml.m5.xlarge", "AmazonSageMaker"), "compute.hours"),
    (aws("USW2-Cluster:VolumeUsage.gp2", "AmazonSageMaker"), "storage.capacity"),
    (aws("USE1-AmazonEKS-Hours:perCluster", "AmazonEKS"), "kubernetes.cluster"),
    (aws("BoxUsage:g5.xlarge", "ElasticMapReduce"), "compute.license"),
    (aws("EBSOptimized:p3.8xlarge"), "compute.other"),
    # AWS storage
    (aws("EBS:VolumeUsage.gp3"), "storage.capacity"),
    (aws("EU-EBS:VolumeUsage"), "storage.capacity"),
    (aws("EBS:VolumeP-IOPS.io2.tier2"), "storage.iops"),
    (aws("USE2-EBS:VolumeP-Throughput.gp3"), "storage.throughput"),
    (aws("EBS:SnapshotUsage"), "storage.snapshot"),
    (aws("USE1-Storage.SSD.250", "AmazonFSx", "CreateFileSystem:Lustre"), "file_system.capacity"),
    (aws("ThroughputCapacity.SAZ_2N", "AmazonFSx"), "file_system.throughput"),
    (aws("USE1-IATimedStorage-ByteHrs", "AmazonEFS"), "file_system.capacity"),
    (aws("ProvisionedTP-MiBpsHrs", "AmazonEFS"), "file_system.throughput"),
    (aws("EUC1-TimedStorage-SIA-ByteHrs", "AmazonS3"), "object.capacity"),
    (aws("Requests-Tier1", "AmazonS3", "PutObject"), "object.requests"),
    (aws("USE1-Retrieval-SIA", "AmazonS3"), "object.retrieval"),
    (aws("USW2-InstanceUsage:db.r6g.large", "AmazonRDS"), "database"),
    (key("aws", x_ServiceCode="OCBPremiumSupport", x_UsageType="Dollar", ChargeCategory="Purchase"), "support"),
    (aws("Hourly:g5.xlarge", "4w7x9k2m1p8q6r5t3v0y2z4a6"), "marketplace"),
    (aws("USE1-APIRequest", "AWSCostExplorer"), "other"),
    # GCP network
    (gcp("Network Inter Zone Data Transfer Out"), "transfer.inter_zone"),
    (gcp("Network Inter Zone Egress"), "transfer.inter_zone"),
    (gcp("Network Inter Region Data Transfer Out from Belgium to Iowa"), "transfer.inter_region"),
    (gcp("Network Inter Region Egress from Americas to EMEA"), "transfer.inter_region"),
    (gcp("Network Data Transfer GCP Inter Region within Europe", "Cloud Storage"), "transfer.inter_region"),
    (gcp("Artifact Registry Network Inter Region Egress", "Artifact Registry"), "transfer.inter_region"),
    (gcp("Network Internet Data Transfer Out from Iowa to Americas"), "transfer.internet"),
    (gcp("Network Internet Standard Tier Egress from Iowa"), "transfer.internet"),
    (gcp("Download Worldwide Destinations (excluding Asia & Australia)", "Cloud Storage"), "transfer.internet"),
    (gcp("Network Internet Ingress from EMEA to Iowa"), "transfer.internet_in"),
    (gcp("Network Vpn Internet Data Transfer Out from Iowa"), "transfer.vpn"),
    (gcp("Interconnect Data Transfer Out - North America", "Networking"), "transfer.direct_connect"),
    (gcp("Networking Cloud CDN Traffic Cache Egress to North America", "Networking"), "transfer.cdn"),
    (gcp("Network Data Transfer to Google Services from Iowa"), "transfer.other"),
    (gcp("NAT Gateway: Uptime charge in Iowa"), "nat.hours"),
    (gcp("NAT Gateway: Data processing charge in Iowa"), "nat.bytes"),
    (gcp("Networking Cloud Nat Data Processing", "Networking"), "nat.bytes"),
    (gcp("Networking Cloud Nat Gateway Uptime", "Networking"), "nat.hours"),
    (gcp("Network Private Service Connect Consumer Endpoint in Iowa"), "private_endpoint.hours"),
    (gcp("Network Private Service Connect Consumer Data Processing"), "private_endpoint.bytes"),
    (gcp("Network Load Balancing: Forwarding Rule Minimum Service Charge in Iowa"), "load_balancer.hours"),
    (gcp("Network Internal Load Balancing: Data Processing Charge in Iowa"), "load_balancer.usage"),
    (gcp("External IP Charge on a Spot Preemptible VM"), "address.in_use"),
    (gcp("Static Ip Charge in Iowa"), "address.idle"),
    # GCP machines
    (gcp("Nvidia Tesla A100 80GB GPU running in Iowa", machine="a2-ultragpu-4g"), "accelerator.hours"),
    (gcp("Nvidia H100 80GB Gpu attached to Spot Preemptible VMs running in Iowa"), "accelerator.hours"),
    (gcp("A4 Nvidia B200 (1 gpu slice) running in Iowa", machine="a4-highgpu-8g"), "accelerator.hours"),
    (gcp("DWS Calendar Mode Nvidia H100 80GB Mega GPU in Iowa"), "accelerator.hours"),
    (gcp("Autopilot NVIDIA L4 GPU Pod (us-central1)", "Kubernetes Engine"), "accelerator.hours"),
    (gcp("A3 Instance Core running in Iowa", machine="a3-highgpu-8g"), "accelerator.core"),
    (gcp("Spot Preemptible A3Plus Instance Ram running in Iowa"), "accelerator.ram"),
    (gcp("SSD backed Local Storage", machine="a3-highgpu-8g"), "accelerator.local_ssd"),
    (gcp("SSD backed Local Storage in Iowa", machine="n2-standard-8"), "compute.local_ssd"),
    (gcp("N2 Instance Core running in Iowa", machine="n2-standard-8"), "compute.core"),
    (gcp("N1 Predefined Instance Ram running in Iowa", machine="n1-standard-8"), "compute.ram"),
    (gcp("Reserved Nvidia L4 GPU in Iowa"), "accelerator.reserved_unused"),
    (gcp("Reserved G2 Instance Core in Iowa"), "accelerator.reserved_unused"),
    (gcp("A2 Instance Ram in Iowa", CapacityReservationStatus="Unused"), "accelerator.reserved_unused"),
    (gcp("TpuV6e chip running in Iowa"), "accelerator.tpu"),
    (gcp("Cloud TPU v4 Pod slice, Preemptible", "Cloud TPU"), "accelerator.tpu"),
    (gcp("Vertex AI: Training/Pipelines on Nvidia Tesla A100 GPU running in Iowa", "Vertex AI"), "accelerator.training_job"),
    (gcp("Vertex AI: Online/Batch Prediction Nvidia L4 GPU running in Iowa", "Vertex AI"), "accelerator.endpoint"),
    (gcp("Vertex AI: Online/Batch Prediction G2 Instance Core running in Iowa", "Vertex AI"), "accelerator.core"),
    (gcp("Commitment v1: Nvidia L4 GPU running in Iowa for 1 Year", ChargeCategory="Purchase"), "commitment.fee"),
    (gcp("Commitment - dollar based v1: GCE for 3 years"), "commitment.fee"),
    (gcp("Commitment v1: A2 Cpu in Iowa", CommitmentDiscountStatus="Unused"), "commitment.unused"),
    # GCP storage
    (gcp("Balanced PD Capacity in Iowa"), "storage.capacity"),
    (gcp("Hyperdisk Throughput Capacity in Iowa"), "storage.capacity"),
    (gcp("Hyperdisk ML Throughput in Iowa"), "storage.throughput"),
    (gcp("Hyperdisk Extreme IOPS in Iowa"), "storage.iops"),
    (gcp("Storage PD Snapshot in Iowa"), "storage.snapshot"),
    (gcp("Filestore Capacity High Scale SSD Iowa", "Cloud Filestore"), "file_system.capacity"),
    (gcp("Managed Lustre Capacity 500-Perf Iowa", "Managed Lustre"), "file_system.capacity"),
    (gcp("Standard Storage US Regional", "Cloud Storage"), "object.capacity"),
    (gcp("Regional Standard Class A Operations", "Cloud Storage"), "object.requests"),
    (gcp("Nearline Data Retrieval", "Cloud Storage"), "object.retrieval"),
    (gcp("Cloud SQL for MySQL: Zonal - vCPU in Iowa", "Cloud SQL"), "database"),
    (gcp("Standard Support", "Support"), "support"),
    # Azure network
    (azure("Bandwidth", "", "Standard Data Transfer Out"), "transfer.internet"),
    (azure("Bandwidth", "Rtn Preference: Internet", "Standard Data Transfer Out"), "transfer.internet"),
    (azure("Bandwidth", "Inter-Region", "Inter Continent Data Transfer Out"), "transfer.inter_region"),
    (azure("Bandwidth", "", "Standard Data Transfer In"), "transfer.internet_in"),
    (azure("Bandwidth", "", "Inter Availability Zone Data Transfer Out"), "transfer.inter_zone"),
    (azure("Virtual Network", "Peering", "Intra-Region Ingress"), "transfer.peering"),
    (azure("Virtual Network", "Global Peering", "Inter-Region Egress"), "transfer.peering"),
    (azure("VPN Gateway", "VPN Gateway", "VpnGw2"), "transfer.vpn"),
    (azure("ExpressRoute", "", "Metered Data - Data Transfer Out"), "transfer.direct_connect"),
    (azure("NAT Gateway", "NAT Gateway", "Standard Gateway"), "nat.hours"),
    (azure("Virtual Network", "NAT Gateway", "Standard Data Processed"), "nat.bytes"),
    (azure("NAT Gateway", "NAT Gateway", "StandardV2 Data Processed"), "nat.bytes"),
    (azure("Virtual Network", "Private Link", "Standard Private Endpoint"), "private_endpoint.hours"),
    (azure("Virtual Network", "Private Link", "Standard Data Processed - Egress"), "private_endpoint.bytes"),
    (azure("Load Balancer", "Standard", "Standard Overage LB Rules and Outbound Rules"), "load_balancer.hours"),
    (azure("Load Balancer", "Standard", "Standard Data Processed"), "load_balancer.usage"),
    (azure("Virtual Network", "IP Addresses", "Basic IPv4 Dynamic Public IP"), "address.in_use"),
    # Azure machines
    (azure("Virtual Machines", "NDsr H100 v5", "ND96isr H100 v5", "Standard_ND96isr_H100_v5"), "accelerator.hours"),
    (azure("Virtual Machines", "NCasv3_T4 Series", "NC4as T4 v3 Low Priority"), "accelerator.hours"),
    (azure("Virtual Machines", "Dsv5 Series", "D8s v5", "Standard_D8s_v5"), "compute.hours"),
    (azure("Virtual Machines Licenses", "Windows Server", "8 vCPU VM License"), "compute.license"),
    (
        azure("Virtual Machines", "", "NC24ads A100 v4", ResourceType="microsoft.compute/capacityReservationGroups/capacityReservations"),
        "accelerator.reserved_unused",
    ),
    (azure("Virtual Machines", "", "NC24ads A100 v4", CommitmentDiscountStatus="Unused"), "accelerator.reserved_unused"),
    (azure("Virtual Machines", "", "E4s v5", CommitmentDiscountStatus="Unused"), "commitment.unused"),
    (azure("Virtual Machines", "", "NC24ads A100 v4", ChargeCategory="Purchase"), "commitment.fee"),
    (
        azure("Virtual Machines", "", "NC4as T4 v3", ResourceType="microsoft.machinelearningservices/workspaces/onlineEndpoints"),
        "accelerator.endpoint",
    ),
    (azure("Virtual Machines", "", "NC4as T4 v3", ResourceType="Compute Instance"), "accelerator.notebook"),
    (azure("Azure Kubernetes Service", "", "Uptime SLA"), "kubernetes.cluster"),
    # Azure storage
    (azure("Storage", "Premium SSD Managed Disks", "P30 LRS Disk"), "storage.capacity"),
    (azure("Storage", "Azure Premium SSD v2", "Premium LRS Provisioned Throughput (MBps)"), "storage.throughput"),
    (azure("Storage", "Ultra Disks", "Ultra LRS Provisioned IOPS"), "storage.iops"),
    (azure("Storage", "Ultra Disks", "Ultra LRS Provisioned Capacity"), "storage.capacity"),
    (azure("Storage", "Standard SSD Managed Disks", "Disk Operations"), "storage.iops"),
    (azure("Azure NetApp Files", "", "Ultra Capacity"), "file_system.capacity"),
    (azure("Azure NetApp Files", "", "Flexible Service Level Throughput MiBps"), "file_system.throughput"),
    (azure("Azure Managed Lustre", "", "AMLFS-Durable-Premium-250 Capacity"), "file_system.capacity"),
    (azure("Storage", "Tiered Block Blob", "Hot LRS Write Operations"), "object.requests"),
    (azure("Storage", "Tiered Block Blob", "Cool Data Retrieval"), "object.retrieval"),
    (azure("Storage", "Tiered Block Blob", "Hot LRS Data Stored"), "object.capacity"),
    (azure("SaaS", "Acme Plan", "Acme Plan", ChargeCategory="Purchase"), "marketplace"),
    # FOCUS without the provider's own keys
    (text("aws", "Amazon Elastic Compute Cloud", "$0.045 per GB Data Processed by NAT Gateways"), "nat.bytes"),
    (text("aws", "Amazon Elastic Compute Cloud", "$0.045 per NAT Gateway Hour"), "nat.hours"),
    (text("aws", "Amazon Elastic Compute Cloud", "$12.3 per On Demand Linux p5.48xlarge Instance Hour"), "accelerator.hours"),
    (text("aws", "Amazon Elastic Compute Cloud", "$0.01 per GB - regional data transfer", x_Operation="InterZone-In"), "transfer.inter_zone"),
    (text("azure", "Virtual Machines", "Virtual Machines NDsr H100 v5 Series - ND96isr H100 v5 Spot - US East"), "accelerator.hours"),
    (text("oracle", "COMPUTE", "NAT gateway data processed"), "nat.bytes"),
]  # fmt: skip


def test_every_kind_of_charge_is_told_from_its_keys(con: duckdb.DuckDBPyConnection) -> None:
    found = classified(con, [keys for keys, _ in KINDS])
    wrong = [
        (keys, kind, got["usage_kind"])
        for (keys, kind), got in zip(KINDS, found, strict=True)
        if got["usage_kind"] != kind
    ]
    assert wrong == []
    assert {kind for _, kind in KINDS} <= set(usage_kinds())


MACHINES: list[tuple[dict[str, str], str, str | None, float | Decimal | None]] = [
    (aws("APS1-BoxUsage:p6-b200.48xlarge"), "p6-b200.48xlarge", "B200", 8),
    (aws("Train:ml.g5.12xlarge", "AmazonSageMaker"), "ml.g5.12xlarge", "A10G", 4),
    (aws("Host:x", "AmazonSageMaker", x_InstanceType="ml.g5.xlarge-Hosting"), "ml.g5.xlarge", "A10G", 1),
    (aws("BoxUsage:g6f.large"), "g6f.large", "L4", Decimal("0.125")),
    (aws("BoxUsage:p9x.96xlarge"), "p9x.96xlarge", None, None),
    (gcp("Nvidia L4 GPU running in Iowa", machine="g2-standard-96"), "g2-standard-96", "L4", 8),
    (gcp("Nvidia Tesla T4 GPU running in Iowa", machine="n1-standard-8"), "n1-standard-8", "T4", None),
    (gcp("TPU v5p chip hour", machine="ct5p-hightpu-4t"), "ct5p-hightpu-4t", "TPU v5p", 4),
    (azure("Virtual Machines", "", "ND96isr H200 v5 Spot"), "Standard_ND96isr_H200_v5", "H200", 8),
    (azure("Virtual Machines", "", "ND96amsr A100 v4", "standard_nd96amsr_a100_v4"), "standard_nd96amsr_a100_v4", "A100 80GB", 8),
    (azure("Virtual Machines", "", "ND96asr A100 v4"), "Standard_ND96asr_A100_v4", "A100 40GB", 8),
]  # fmt: skip


def test_the_machine_tells_its_accelerators_in_every_spelling(con: duckdb.DuckDBPyConnection) -> None:
    found = classified(con, [case[0] for case in MACHINES])
    assert [(row["machine_type"], row["model"], row["count"]) for row in found] == [case[1:] for case in MACHINES]
    assert all(str(row["usage_kind"]).startswith("accelerator.") for row in found)


OPTIONS: list[tuple[dict[str, str], str | None]] = [
    (aws("SpotUsage:p5.48xlarge"), "spot"),
    (aws("BoxUsage:p5.48xlarge"), "on_demand"),
    (aws("BoxUsage:p5.48xlarge", PricingCategory="Committed"), "committed"),
    (aws("UnusedBox:p5.48xlarge"), "reserved_capacity"),
    (aws("BoxUsage:p5.48xlarge", CapacityReservationStatus="Used"), "reserved_capacity"),
    (gcp("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa"), "spot"),
    (gcp("Preemptible TPU v5e chip"), "spot"),
    (gcp("DWS Defined Duration Nvidia L4 GPU in Iowa"), "on_demand"),
    (azure("Virtual Machines", "", "NC24ads A100 v4 Spot"), "spot"),
    (azure("Virtual Machines", "", "NC4as T4 v3 Low Priority"), "spot"),
    (azure("Virtual Machines", "", "NC4as T4 v3", PricingCategory="Dynamic"), "spot"),
    (aws("EBS:VolumeUsage.gp3"), None),
    (aws("NatGateway-Hours"), None),
]


def test_purchase_option_comes_from_price_and_spelling(con: duckdb.DuckDBPyConnection) -> None:
    found = classified(con, [keys for keys, _ in OPTIONS])
    assert [row["purchase_option"] for row in found] == [option for _, option in OPTIONS]


def test_the_service_says_what_its_machines_are_for(con: duckdb.DuckDBPyConnection) -> None:
    found = classified(
        con,
        [
            aws("Train:ml.p4d.24xlarge", "AmazonSageMaker"),
            aws("Notebk:ml.g5.xlarge", "AmazonSageMaker"),
            gcp("Vertex AI: Online/Batch Prediction Nvidia L4 GPU running in Iowa", "Vertex AI"),
            azure("Virtual Machines", "", "NC4as T4 v3", ResourceType="Compute Instance"),
            aws("BoxUsage:p5.48xlarge"),
        ],
    )
    assert [row["workload"] for row in found] == ["training", "notebook", "inference", "notebook", None]


def test_five_thousand_keys_take_less_than_a_second_of_cpu(con: duckdb.DuckDBPyConnection) -> None:
    classified(con, [keys for keys, _ in KINDS])
    con.execute("""
    create table many as
    select keys.* replace (coalesce(x_Operation, '') || n as x_Operation) from keys, range(40) as t(n)
    """)
    con.execute("delete from many where rowid >= 5000")
    started = time.process_time()
    classify(con, "many", "kinds")
    assert time.process_time() - started < 1
    assert con.execute("select count(*), count(usage_kind) from kinds").fetchone() == (5000, 5000)


def test_the_version_changes_only_with_the_files() -> None:
    assert len(CLASSIFIER_VERSION) == 16


CHARGES = """
create table charges (provider varchar, ResourceId varchar, BillingCurrency varchar, x_LineItemType varchar, Tags varchar,
    usage_kind varchar, machine_type varchar, accelerator_model varchar, accelerator_count decimal(9, 3),
    purchase_option varchar, service_workload_kind varchar, EffectiveCost decimal(30, 12))
"""


def settle(con: duckdb.DuckDBPyConnection) -> str:
    """SQL of the charges with services and machines' parts settled."""
    find_machines(con, settled("charges"), "machines")
    return with_parts(settled("charges"), "machines")


def test_core_and_ram_lines_follow_the_devices_of_their_machine(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(CHARGES)
    con.execute("""
    insert into charges by name
    select * from (values
        ('gcp', 'vm-gpu', 'accelerator.hours', 'n1-standard-8', 'T4'),
        ('gcp', 'vm-gpu', 'compute.core', null, null),
        ('gcp', 'vm-gpu', 'compute.ram', 'n1-standard-8', null),
        ('gcp', 'vm-gpu', 'storage.capacity', null, null),
        ('gcp', 'vm-gpu', 'transfer.internet', null, null),
        ('gcp', 'vm-gpu', 'credit', null, null),
        ('gcp', 'vm-cpu', 'compute.core', 'n2-standard-8', null),
        ('gcp', null, 'compute.core', null, null),
        ('gcp', 'held', 'accelerator.reserved_unused', null, 'T4'),
        ('gcp', 'held', 'compute.reserved_unused', null, null)
    ) as t(provider, ResourceId, usage_kind, machine_type, accelerator_model)
    """)
    rows = con.execute(f"select ResourceId, usage_kind, machine_type, accelerator_model from {settle(con)}")
    assert sorted(rows.fetchall(), key=str) == sorted(
        [
            ("vm-gpu", "accelerator.hours", "n1-standard-8", "T4"),
            ("vm-gpu", "accelerator.core", "n1-standard-8", "T4"),
            ("vm-gpu", "accelerator.ram", "n1-standard-8", "T4"),
            ("vm-gpu", "storage.capacity", None, None),
            ("vm-gpu", "transfer.internet", None, None),
            ("vm-gpu", "credit", None, None),
            ("vm-cpu", "compute.core", "n2-standard-8", None),
            (None, "compute.core", None, None),
            ("held", "accelerator.reserved_unused", None, "T4"),
            ("held", "accelerator.reserved_unused", None, "T4"),
        ],
        key=str,
    )


def test_line_type_label_and_resource_id_settle_what_meters_do_not_tell(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(CHARGES)
    workspace = "/subscriptions/x/resourceGroups/y/providers/Microsoft.MachineLearningServices/workspaces/w"
    con.execute(
        """
    insert into charges by name
    select 'aws' as provider, 'i-0a' as ResourceId, 'Refund' as x_LineItemType, 'accelerator.hours' as usage_kind
    union all by name
    select 'gcp' as provider, 'nb' as ResourceId, '{"goog-caip-notebook":""}' as Tags, 'accelerator.hours' as usage_kind
    union all by name
    select 'azure' as provider, $workspace || id as ResourceId, 'accelerator.hours' as usage_kind
    from (values ('/onlineEndpoints/ep'), ('/computes/ci')) as t(id)
    """,
        {"workspace": workspace},
    )
    found = con.execute(f"select ResourceId, usage_kind, service_workload_kind from {settle(con)}").fetchall()
    assert {(str(resource).rsplit("/", 1)[-1], *rest) for resource, *rest in found} == {
        ("i-0a", "refund", None),
        ("nb", "accelerator.notebook", "notebook"),
        ("ep", "accelerator.endpoint", "inference"),
        ("ci", "accelerator.notebook", "notebook"),
    }


def test_cost_that_no_pattern_knows_is_counted_by_currency(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(CHARGES)
    con.execute("""
    insert into charges by name
    select * from (values ('USD', 'other', 2), ('USD', 'nat.hours', 8), ('EUR', 'tax', 5)) as t(BillingCurrency, usage_kind, EffectiveCost)
    """)
    assert other_share(con, "charges") == {"USD": (Decimal(2), Decimal(10)), "EUR": (Decimal(0), Decimal(5))}


SHARED = Path(__file__).parents[3] / "shared" / "samples" / "focus" / "focus-sample-data-1.0" / "focus_sample.csv"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the sample files are not here")
def test_descriptions_of_a_real_focus_file_leave_little_unknown(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """
    create table rows as
    select case ProviderName when 'Microsoft' then 'azure' else lower(ProviderName) end as provider, ServiceName,
        ChargeDescription as x_SkuDescription, ChargeCategory, BilledCost::decimal(30, 12) as EffectiveCost
    from read_csv($path, all_varchar = true, nullstr = 'NULL')
    where ProviderName in ('AWS', 'Microsoft')
    """,
        {"path": str(SHARED)},
    )
    names = ("provider", "ServiceName", "x_SkuDescription", "ChargeCategory")
    others = ", ".join(f"null::varchar as {name}" for name in CLASSIFICATION_KEYS if name not in names)
    con.execute(f"create table keys as select distinct {', '.join(names)}, {others} from rows")
    classify(con, "keys", "kinds")
    same = " and ".join(f"rows.{name} is not distinct from kinds.{name}" for name in names)
    con.execute(
        f"create table charges as select rows.*, 'USD' as BillingCurrency, usage_kind from rows join kinds on {same}"
    )
    other, total = other_share(con, "charges")["USD"]
    assert other < total / 50
