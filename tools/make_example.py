"""Writes `examples/estate/`: two months of bills, a month of telemetry and the inventory of a company that does not exist.

Run from the root of the repository: `python tools/make_example.py`. The same seed gives the same content. Every amount
is a Decimal while it is made, so `expected.json` beside it holds totals that no importer had a hand in.
"""

import shutil
import sys
from pathlib import Path

from acme.aws import BY_NAME, IDLE_ADDRESS, UNATTACHED, make_cur2, nat_arn
from acme.aws_legacy import RI_ARN, make_legacy_cur
from acme.azure import AZURE_VM, BENEFIT, azure_nat, make_azure
from acme.files import write_json, write_text
from acme.gcp import FLEX_CUD, ROUTER, VM, make_gcp
from acme.inventory import make_inventory
from acme.monitoring import make_monitoring
from acme.truth import PAYER, Truth


def plant(truth: Truth) -> None:
    nightly, warm = BY_NAME["nightly-eval"].id, BY_NAME["serve-pick"].id
    address = f"arn:aws:ec2:us-east-1:{PAYER}:elastic-ip/{IDLE_ADDRESS}"
    for rule_id, provider, resource_id in (
        ("gpu.idle_instance", "aws", BY_NAME["sim-batch-01"].id),
        ("gpu.idle_instance", "aws", BY_NAME["lena-notebook"].id),
        ("gpu.idle_instance", "gcp", VM["dev-marco"].global_name),
        ("gpu.idle_instance", "azure", AZURE_VM["vm-sim-01"].id),
        ("gpu.no_telemetry", "aws", BY_NAME["render-sim-01"].id),
        ("gpu.no_telemetry", "azure", AZURE_VM["vm-annotate"].id),
        ("purchase.on_demand_training", "aws", BY_NAME["train-llm-01"].id),
        ("purchase.on_demand_training", "gcp", VM["train-nav-01"].global_name),
        ("purchase.on_demand_training", "azure", AZURE_VM["vm-policy-train"].id),
        ("purchase.unused_commitment", "aws", RI_ARN),
        ("purchase.unused_commitment", "gcp", FLEX_CUD),
        ("purchase.unused_commitment", "azure", BENEFIT),
        ("network.nat_idle", "aws", nat_arn("sandbox")),
        ("network.nat_idle", "azure", azure_nat("nat-legacy")),
        ("network.nat_processing", "aws", nat_arn("train")),
        ("network.nat_missing_gateway_endpoint", "aws", nat_arn("train")),
        *(("network.cross_zone_transfer", "aws", BY_NAME[f"kafka-{n}"].id) for n in (1, 2, 3)),
        *(("network.cross_zone_transfer", "gcp", VM[f"stream-{n}"].global_name) for n in (1, 2, 3)),
        ("network.idle_public_ip", "aws", address),
        ("storage.unattached_volume", "aws", UNATTACHED),
        ("spend.untagged_accelerators", "azure", AZURE_VM["vm-annotate"].id),
    ):
        truth.plant(rule_id, provider, resource_id)
    for rule_id, provider, resource_id, why in (
        ("gpu.idle_instance", "aws", BY_NAME["train-llm-01"].id, "its GPUs are busy"),
        ("gpu.idle_instance", "aws", nightly, "works every night"),
        ("gpu.underused_instance", "aws", nightly, "works hard every night"),
        ("gpu.idle_instance", "aws", warm, "an endpoint with little, but real load"),
        ("gpu.idle_instance", "aws", BY_NAME["encode-video"].id, "the CPU is idle, the GPU is not"),
        ("gpu.idle_instance", "aws", BY_NAME["scratch-new"].id, "started two days ago"),
        ("gpu.idle_instance", "aws", BY_NAME["render-sim-01"].id, "nothing is known of its use"),
        ("purchase.on_demand_training", "aws", BY_NAME["train-grasp-01"].id, "covered by a savings plan"),
        ("purchase.on_demand_training", "aws", BY_NAME["sweep-77"].id, "runs on spot"),
        ("network.nat_idle", "aws", nat_arn("serve"), "little traffic, but used"),
        ("network.nat_processing", "aws", nat_arn("serve"), "too little money"),
        ("network.nat_missing_gateway_endpoint", "aws", nat_arn("serve"), "both endpoints are there"),
        ("network.cross_zone_transfer", "aws", BY_NAME["api-01"].id, "too little money"),
        ("network.nat_idle", "gcp", ROUTER, "little traffic, but used"),
        ("network.nat_idle", "azure", azure_nat("nat-egress"), "little traffic, but used"),
        ("gpu.idle_instance", "gcp", VM["serve-map-01"].global_name, "an endpoint with little, but real load"),
        ("gpu.idle_instance", "azure", AZURE_VM["vm-serve-01"].id, "an endpoint with little, but real load"),
        ("purchase.on_demand_training", "azure", AZURE_VM["vm-serve-01"].id, "reserved, and no training"),
    ):
        truth.keep_silent(rule_id, provider, resource_id, why)


def make_estate(root: Path) -> None:
    """Writes the whole estate into `root`, replacing the estate that may be there, and its truth beside it."""
    expected = root.parent / "expected.json"
    if root.exists() and not expected.exists():
        raise SystemExit(f"{root} exists and is no example estate; name a folder that may be replaced")
    if root.exists():
        shutil.rmtree(root)
    truth = Truth()
    make_cur2(root, truth)
    make_legacy_cur(root, truth)
    make_gcp(root, truth)
    make_azure(root, truth)
    make_monitoring(root)
    make_inventory(root)
    plant(truth)
    # Something that lies in every shared folder and is no business of an audit.
    write_text(
        root / "office" / "parking-rota.csv", "week,bay,who\n36,A1,facilities\n37,A1,visitors\n38,A2,facilities\n"
    )
    write_json(expected, truth.document())


if __name__ == "__main__":
    make_estate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples") / "estate")
