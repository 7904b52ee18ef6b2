"""An invented company's audit: three clouds, fourteen findings, and names as nasty as anyone who tags can make them."""

import hashlib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from auditor.render import (
    Classification,
    DailyCost,
    DayTotal,
    Extras,
    GpuSlice,
    MachineDay,
    Mute,
    NoTelemetry,
    PreviousRun,
    Realised,
    RuleText,
    Samples,
    Setting,
    SourceNote,
    TransferEdge,
    TransferPayer,
    Unjoined,
    WeekHour,
)

WINDOW = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-31T00:00:00Z"}  # 720 hours
IDLE_FROM = datetime(2026, 3, 1)  # as the lake has times: UTC without saying so
HOSTILE = "</script><script>alert(1)</script>"
FORMULA = '=HYPERLINK("http://evil.example","x")'
BIDI = "pay\u202eroll\u200b\x1b[31m"
SUBSCRIPTION = "0a1b2c3d-1111-2222-3333-444455556666"

DEFAULTS: dict[str, Any] = {
    "severity": "high",
    "confidence": "high",
    "status": "new",
    "provider": "aws",
    "account_id": "111122223333",
    "region": "us-east-1",
    "zone": None,
    "resource_id": None,
    "resource_name": None,
    "resource_type": None,
    "service": None,
    "tags": {},
    "owner": None,
    "window": WINDOW,
    "freed_commitment": "0",
    "currency": "USD",
    "evidence": {},
    "remediation": {"summary": "", "commands": [], "risk": "", "effort": ""},
    "references": [],
}


def finding(rule_id: str, title: str, cost: str, gross: str, net: str, reason: str, **more: Any) -> dict[str, Any]:
    """A finding as findings.json has it."""
    subject = more.get("resource_id") or more.get("service") or rule_id
    made = DEFAULTS | {
        "id": hashlib.sha256(f"{rule_id}{subject}{title}".encode()).hexdigest()[:16],
        "rule_id": rule_id,
        "title": title,
        "monthly_cost": cost,
        "monthly_savings": gross,
        "monthly_savings_range": more.pop("span", [gross, gross]),
        "monthly_savings_net": net,
        "reason": reason,
    }
    return made | more


def findings() -> list[dict[str, Any]]:
    """Net of high and medium confidence and open: 61,302.90. Low: 4,120.00. Muted: 900."""
    machine = "arn:aws:ec2:us-east-1:111122223333:instance/i-0aaa1111bbbb2222c"
    return [
        finding(
            "gpu.idle_instance",
            "GPU instance runs idle",
            "32444.444444444444",
            "29200",
            "29200",
            "every device stayed below 5 % for the last 14 days, memory empty",
            resource_id=machine,
            resource_name="train-llm-07",
            resource_type="p4d.24xlarge",
            zone="us-east-1b",
            service="Amazon Elastic Compute Cloud",
            owner="research",
            severity="critical",
            tags={"team": "research", "job": "sweep-12"},
            freed_commitment="3244.44",
            window={"start": "2026-03-17T00:00:00Z", "end": "2026-03-31T00:00:00Z"},
            evidence={
                "idle_days": 14,
                "max_utilization": 0.0213,
                "p95_utilization": "0.01100000",
                "coverage": 0.997,
                "devices": 8,
                "accelerator_model": "A100",
                "effective_cost": "14933.333333333333",
                "first_idle_hour": "2026-03-17T00:00:00Z",
            },
            remediation={
                "summary": "Stop the machine, or let it stop itself when its job ends",
                "commands": ["aws ec2 stop-instances --region us-east-1 --instance-ids i-0aaa1111bbbb2222c"],
                "risk": "Data on instance store is lost when the machine stops.",
                "effort": "minutes",
            },
            references=["https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Stop_Start.html", "javascript:alert(1)"],
        ),
        finding(
            "purchase.on_demand_training",
            "Training pays the on-demand price",
            "18250",
            "11315",
            "11315",
            "training by label workload=pretrain, 31 restarts tolerated",
            provider="gcp",
            account_id="acme-ml",
            region="us-central1",
            zone="us-central1-a",
            resource_id="//compute.googleapis.com/projects/acme-ml/zones/us-central1-a/instances/987654321",
            resource_name="pretrain-a3-0",
            resource_type="a3-highgpu-8g",
            service="Compute Engine",
            owner="research",
            severity="critical",
            confidence="medium",
            evidence={
                "spot_ratio": 0.345,
                "overhead": 0.1,
                "signal": "label workload",
                "members": [f"pretrain-a3-{n}" for n in range(40)],
            },
            remediation={
                "summary": "Run the job on spot machines with checkpoints",
                "commands": [
                    "gcloud compute instances create pretrain-a3-0-spot \\\n  --provisioning-model=SPOT \\\n  --zone=us-central1-a"
                ],
                "risk": "Work since the last checkpoint is lost at each preemption.",
                "effort": "days",
            },
            references=["https://cloud.google.com/compute/docs/instances/spot"],
        ),
        finding(
            "gpu.network_bound_cluster",
            "Cluster trains without RDMA fabric",
            "41200.5",
            "4120.05",
            "4120.05",
            "4 nodes in two zones, no placement policy",
            provider="azure",
            account_id=SUBSCRIPTION,
            region="westeurope",
            resource_id=None,
            service="Virtual Machines",
            owner="vision",
            confidence="medium",
            evidence={
                "members": ["vm-nd-1", "vm-nd-2", "vm-nd-3", "vm-nd-4"],
                "zones": ["1", "2"],
                "efficiency_loss": "0.10",
            },
        ),
        finding(
            "network.cross_zone_transfer",
            "Traffic crosses zones",
            "8240",
            "4120",
            "4120",
            "no flow logs: half of it is taken as avoidable",
            span=["0", "8240"],
            confidence="low",
            service="Amazon Elastic Compute Cloud",
            owner="platform",
            severity="high",
            resource_id="arn:aws:ec2:us-east-1:111122223333:instance/i-0ddd",
            evidence={"bytes": 412000000000000, "avoidable_share": 0.5},
        ),
        finding(
            "network.nat_processing",
            "NAT gateway processes what need not pass it",
            "6570",
            "5913",
            "5913",
            "90 % of its bytes go to S3",
            resource_id="arn:aws:ec2:us-east-1:111122223333:natgateway/nat-0abc",
            owner="platform",
            service="Amazon Virtual Private Cloud",
            evidence={"bytes": 146000000000000, "s3_share": "0.90000000"},
        ),
        finding(
            "network.internet_egress",
            "Internet egress without a CDN",
            "5110.1",
            "2555.05",
            "2555.05",
            "one bucket serves the public",
            provider="gcp",
            account_id="acme-web",
            region="europe-west1",
            resource_id="//storage.googleapis.com/acme-downloads",
            resource_name="acme-downloads",
            service="Cloud Storage",
            owner=HOSTILE,
        ),
        finding(
            "storage.unattached_volume",
            "Volume is attached to nothing",
            "730",
            "730",
            "730",
            "no machine used it in the window",
            provider="azure",
            account_id=SUBSCRIPTION,
            region="westeurope",
            resource_id=f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.Compute/disks/old",
            resource_name=FORMULA,
            severity="medium",
        ),
        finding(
            "storage.checkpoint_bloat",
            "Checkpoints are never deleted",
            "3650.8",
            "2190.48",
            "2190.48",
            "grows 31 % a month, no lifecycle rule",
            resource_id="arn:aws:s3:::acme-ckpt",
            resource_name="acme-ckpt",
            service="Amazon Simple Storage Service",
            owner="research",
            confidence="medium",
        ),
        finding(
            "gpu.idle_notebook",
            "Notebook runs without anyone",
            "2737.5",
            "2737.5",
            "2737.5",
            "no activity for 19 days",
            resource_id="arn:aws:sagemaker:us-east-1:111122223333:notebook-instance/" + BIDI,
            resource_name=BIDI,
            service="Amazon SageMaker",
            owner="vision",
            status="reopened",
        ),
        finding(
            "gpu.underused_instance",
            "GPU instance is larger than its work",
            "9125",
            "4562.5",
            "2381.82",
            "p95 of the busiest device is 18 %",
            resource_id=machine + "9",
            resource_name="serve-embed",
            resource_type="g5.12xlarge",
            owner="search",
            status="open",
        ),
        finding(
            "gpu.idle_endpoint",
            "Endpoint without invocations",
            "160",
            "160",
            "160",
            "no invocation for 30 days",
            provider="gcp",
            account_id="acme-ml",
            region="us-central1",
            resource_id="//aiplatform.googleapis.com/projects/acme-ml/locations/us-central1/endpoints/5",
            severity="medium",
            owner="search",
            status="acknowledged",
        ),
        finding(
            "gpu.no_telemetry",
            "Accelerators nobody measures",
            "12045",
            "0",
            "0",
            "no sample covers them",
            provider="azure",
            account_id=SUBSCRIPTION,
            region="westeurope",
            resource_id="vm-quiet",
            resource_name="@cmd|' /C calc'!A0",
            severity="medium",
            owner="vision",
        ),
        finding(
            "spend.anomaly",
            "A day far off its history",
            "0",
            "0",
            "0",
            "+412 % on 12 March",
            service="Amazon Simple Storage Service",
            owner="",
            severity="low",
        ),
        finding(
            "network.idle_public_ip",
            "Public address unused",
            "900",
            "900",
            "900",
            "attached to nothing",
            resource_id="eipalloc-1",
            status="muted",
            severity="medium",
        ),
    ]


def document() -> dict[str, Any]:
    """findings.json of the invented company."""
    return {
        "schema_version": "1.0",
        "run": {
            "id": "2026-03-31T06-00-00Z-4f2a",
            "as_of": "2026-03-31",
            "windows": {"aws": WINDOW, "gcp": WINDOW, "azure": WINDOW},
            "newest_charge": {
                "aws": "2026-03-30T23:00:00Z",
                "gcp": "2026-03-30T23:00:00Z",
                "azure": "2026-03-31T00:00:00Z",
            },
            "status": "partial",
            "currency": "USD",
            "gaps": [{"provider": "gcp", "account_id": "acme-ml", "days": ["2026-03-08", "2026-03-09"]}],
        },
        "sources": [
            {
                "provider": "aws",
                "kind": "billing",
                "format": "cur2-parquet",
                "paths": ["billing/aws/data"],
                "files": 3,
                "rows": 812345,
                "billing_periods": ["2026-03"],
                "status": "ok",
                "message": None,
            },
            {
                "provider": "gcp",
                "kind": "billing",
                "format": "gcp-detailed-jsonl",
                "paths": ["billing/gcp.jsonl.gz"],
                "files": 1,
                "rows": 94001,
                "billing_periods": ["2026-03"],
                "status": "ok",
                "message": None,
            },
            {
                "provider": "azure",
                "kind": "billing",
                "format": "azure-amortized-csv",
                "paths": ["billing/azure/part_0_0001.csv"],
                "files": 1,
                "rows": 40210,
                "billing_periods": ["2026-03"],
                "status": "failed",
                "message": "line 40212: the file ends inside a quoted field; 40,210 rows before it count",
            },
            {
                "provider": "aws",
                "kind": "telemetry",
                "format": "metrics-csv",
                "paths": ["metrics.csv"],
                "files": 1,
                "rows": 302400,
                "billing_periods": [],
                "status": "ok",
                "message": "12 ratios above 1 were capped",
            },
            {
                "provider": None,
                "kind": None,
                "format": None,
                "paths": ["notes/<img src=x onerror=alert(1)>.txt"],
                "files": 1,
                "rows": None,
                "billing_periods": [],
                "status": "skipped",
                "message": "no known header",
            },
        ],
        "reconciliation": [
            {
                "provider": "aws",
                "billing_account_id": "999988887777",
                "billing_period": "2026-03",
                "source_billed_cost": "231004.120000000000",
                "lake_billed_cost": "231004.120000000000",
                "difference": "0",
                "currency": "USD",
            },
            {
                "provider": "gcp",
                "billing_account_id": "0A1B2C-3D4E5F-607182",
                "billing_period": "2026-03",
                "source_billed_cost": "88420.330000000000",
                "lake_billed_cost": "88420.330000000000",
                "difference": "0",
                "currency": "USD",
            },
            {
                "provider": "azure",
                "billing_account_id": "1234567",
                "billing_period": "2026-03",
                "source_billed_cost": "61250.100000000000",
                "lake_billed_cost": "61250.100000000000",
                "difference": "0.000000000000",
                "currency": "USD",
            },
        ],
        "coverage": {
            "rules": [
                {"rule_id": "gpu.idle_instance", "status": "ran", "reason": None},
                {"rule_id": "gpu.underused_instance", "status": "ran", "reason": None},
                {
                    "rule_id": "network.cross_zone_transfer",
                    "status": "degraded",
                    "reason": "no flow logs: the savings are a range",
                },
                {
                    "rule_id": "storage.gpu_starved_by_disk",
                    "status": "skipped",
                    "reason": "no disk metrics for any provider",
                },
                {
                    "rule_id": "spend.forecast_over_budget",
                    "status": "skipped",
                    "reason": "no [[budgets]] entry in the configuration",
                },
            ],
            "gpu": {
                "resources": 40,
                "with_telemetry": 37,
                "effective_cost": "182000.00",
                "effective_cost_with_telemetry": "170120.00",
            },
        },
        "gpu_ledger": [
            {"provider": p, "class": c, "accelerator_hours": h, "effective_cost": m, "currency": "USD"}
            for p, c, h, m in (
                ("aws", "productive", "9216.5", "52310.25"),
                ("aws", "idle", "3900", "30410.5"),
                ("aws", "held", "1020", "8102.75"),
                ("aws", "starved", "1400", "9900.5"),
                ("gcp", "productive", "6200", "30320"),
                ("gcp", "idle", "800", "6210"),
                ("gcp", "reserved_unused", "1440", "12100"),
                ("azure", "productive", "2100", "16446"),
                ("azure", "held", "600", "4320"),
                ("azure", "no_telemetry", "2160", "11880"),
            )
        ],
        "totals": {
            "currency": "USD",
            "billed_cost": "380674.55",
            "effective_cost": "371220.413377",
            "monthly_savings": "63483.58",
            "monthly_savings_net": "61302.90",
            "monthly_savings_net_low_confidence": "4120",
            "other_currencies": [
                {
                    "currency": "EUR",
                    "billed_cost": "1200.5",
                    "effective_cost": "1180.25",
                    "monthly_savings": "0",
                    "monthly_savings_net": "0",
                    "monthly_savings_net_low_confidence": "0",
                }
            ],
        },
        "findings": findings(),
    }


def extras() -> Extras:
    """Every series that a report can show."""
    days = [date(2026, 3, 1) + timedelta(days=n) for n in range(30)]
    lines = (
        ("aws", "111122223333", "Amazon Elastic Compute Cloud", "research", 4200),
        ("aws", "111122223333", "Amazon Simple Storage Service", "platform", 900),
        ("aws", "444455556666", "Amazon SageMaker", "vision", 1600),
        ("aws", "444455556666", "AWS Support (Enterprise)", None, 400),
        ("gcp", "acme-ml", "Compute Engine", "research", 2300),
        ("gcp", "acme-web", "Cloud Storage", HOSTILE, 500),
        ("azure", SUBSCRIPTION, "Virtual Machines", "vision", 1900),
    )
    daily = [
        DailyCost(
            p,
            a,
            s,
            o,
            day,
            "USD",
            Decimal(base)
            * (100 + (n * 7 + i * 13) % 23 - (25 if day.weekday() > 4 else 0))
            / 100
            * (2 if n == 11 and i == 1 else 1),
        )
        for n, day in enumerate(days)
        for i, (p, a, s, o, base) in enumerate(lines)
    ]
    weights = {
        "productive": 3300,
        "starved": 330,
        "held": 414,
        "idle": 1220,
        "reserved_unused": 403,
        "no_telemetry": 396,
    }
    return Extras(
        daily_costs=tuple(daily),
        gpu_by_day=tuple(
            GpuSlice(day, c, Decimal(w) / 9, Decimal(w) * (80 + (n * 11 + k * 5) % 40) / 100, "USD")
            for n, day in enumerate(days)
            for k, (c, w) in enumerate(weights.items())
        ),
        gpu_by_owner=(
            GpuSlice("research", "productive", Decimal(9000), Decimal("52310.25"), "USD"),
            GpuSlice("research", "idle", Decimal(3900), Decimal("30410.5"), "USD"),
            GpuSlice("vision", "productive", Decimal(2100), Decimal(16446), "USD"),
            GpuSlice("vision", "no_telemetry", Decimal(2160), Decimal(11880), "USD"),
            GpuSlice(None, "reserved_unused", Decimal(1440), Decimal(12100), "USD"),
            GpuSlice(HOSTILE, "held", Decimal(600), Decimal(4320), "USD"),
        ),
        gpu_by_model=(
            GpuSlice("A100", "productive", Decimal(8000), Decimal(61000), "USD"),
            GpuSlice("A100", "idle", Decimal(3000), Decimal(29000), "USD"),
            GpuSlice("H100", "productive", Decimal(4000), Decimal(38000), "USD"),
            GpuSlice("L4", "held", Decimal(900), Decimal(2100), "USD"),
        ),
        history=tuple(
            DayTotal(provider, days[0] - timedelta(days=30) + timedelta(days=n), "USD", Decimal(1000 + 40 * (n % 7)))
            for provider in ("aws", "gcp", "azure")
            for n in range(60)
        ),
        machine_days=tuple(
            MachineDay("aws", f"i-0{m:04}", name, owner, "p4d.24xlarge", day, kind, Decimal(300 - m), "USD")
            for m, (name, owner) in enumerate((("train-llm-07", "research"), (None, HOSTILE), (HOSTILE, None)))
            for n, day in enumerate(days)
            for kind in (("productive", "idle") if n % 3 else ("productive",))
        ),
        week_hours=tuple(
            WeekHour(weekday, hour, kind, Decimal(100 if 8 <= hour < 20 else 40), "USD")
            for weekday in range(7)
            for hour in range(24)
            for kind in ("productive", "idle")
        ),
        transfer_payers=(
            TransferPayer(
                "research",
                "aws",
                "111122223333",
                "i-0aaa1111bbbb2222c",
                HOSTILE,
                "transfer.inter_zone",
                Decimal(824025),
                Decimal("8240.25"),
                "USD",
            ),
            TransferPayer(
                None, "aws", "111122223333", "nat-1", None, "nat.hours", Decimal(720), Decimal("32.4"), "USD"
            ),
            TransferPayer("vision", "gcp", None, None, None, "transfer.internet", None, Decimal("5110.1"), "USD"),
        ),
        samples={
            findings()[0]["id"]: (
                Samples("Mean of all devices", "ratio", IDLE_FROM, 6, tuple([0.8] * 60 + [None] * 4 + [0.01] * 56)),
                Samples("Highest sample of any device", "ratio", IDLE_FROM, 6, tuple([0.97] * 60 + [0.02] * 60), 0.05),
            ),
            findings()[3]["id"]: (
                Samples("Charged gigabytes", "GB", IDLE_FROM, 24, tuple(float(n * 100) for n in range(30))),
            ),
        },
        account_names={"111122223333": "acme-research"},
        settings=(Setting("lookback_days", "30", "length of the audit window in days"),),
        mutes={f["id"]: Mute("sam", "kept for the launch", "2026-06-01") for f in findings() if f["status"] == "muted"},
        realised=(
            Realised(
                "Volume is attached to nothing",
                "vol-1",
                "2026-03",
                Decimal(420),
                Decimal(0),
                Decimal(420),
                "USD",
                Decimal("433.33"),
            ),
        ),
        transfer_edges=(
            TransferEdge("us-east-1a", "us-east-1b", "transfer.inter_zone", Decimal("8240.25"), "USD"),
            TransferEdge("eu-west-1", None, "transfer.internet", Decimal("5110.1"), "USD"),
            TransferEdge("us-east-1", "eu-west-1", "transfer.inter_region", Decimal("1212"), "USD"),
        ),
        no_telemetry=(
            NoTelemetry(
                "vm-quiet", "Standard_ND96asr_v4", Decimal(11880), "USD", "install the DCGM exporter on the machine"
            ),
        ),
        unjoined=(Unjoined("telemetry", None, HOSTILE, "no bill and no inventory knows this name", None, None, 720),),
        classification=(Classification(Decimal("1410.2"), Decimal("371220.41"), "USD"),),
        rule_texts={
            "gpu.idle_instance": RuleText(
                "GPU instance runs idle",
                "A machine is billed whether or not its devices work.\nNobody notices.",
                "the run rate of the idle spell less the committed part",
                "work that only the CPU does",
                {
                    "idle_days": {"value": 7, "unit": "days", "about": "shorter spells are weekends"},
                    "max_utilization": "0.05",
                },
            ),
            "network.cross_zone_transfer": RuleText(
                "Traffic crosses zones",
                "Each gigabyte between zones is billed twice.",
                "cost x avoidable_share",
                "who talks to whom without flow logs",
            ),
        },
        source_notes=(
            SourceNote("cur-main", "primary", "it has resource ids"),
            SourceNote("focus-export", "secondary", "same account and period as cur-main; not counted"),
        ),
        previous=PreviousRun("2026-03-24", "2026-03-24", Decimal("352100.20"), Decimal("70210.5"), "USD"),
        notices=("Azure’s newest charge is 2 days old.",),
        generated_at=datetime(2026, 3, 31, 6, 5, tzinfo=UTC),
        version="0.1.0",
    )
