"""A small report: a document with as many findings as asked for."""

from decimal import Decimal
from typing import Any

from auditor.records import FindingChange, FindingRecord
from tests.state.conftest import NOW


def a_row(number: int = 0, **changes: Any) -> dict[str, Any]:
    """One finding as findings.json has it."""
    plain = {
        "id": f"{number:016x}",
        "rule_id": "gpu.idle_instance",
        "title": "Accelerator machine runs without work",
        "severity": "high",
        "confidence": "high",
        "status": "open",
        "provider": "aws",
        "account_id": "111122223333",
        "region": "eu-west-1",
        "zone": None,
        "resource_id": f"i-{number:04x}",
        "resource_name": None,
        "resource_type": None,
        "service": "AmazonEC2",
        "tags": {},
        "owner": "vision",
        "window": {"start": "2026-10-01T00:00:00Z", "end": "2026-10-31T00:00:00Z"},
        "monthly_cost": "1000",
        "monthly_savings": "1000",
        "monthly_savings_range": ["1000", "1000"],
        "monthly_savings_net": str(1000 - number),
        "freed_commitment": "0",
        "currency": "USD",
        "reason": "idle for 28 days",
        "evidence": {},
        "remediation": {"summary": "Stop it", "commands": [], "risk": "none", "effort": "minutes"},
        "references": [],
    }
    return {**plain, **changes}


def a_document(*findings: dict[str, Any], **run: Any) -> dict[str, Any]:
    """findings.json of one provider in USD."""
    return {
        "schema_version": "1.0",
        "run": {
            "id": "20261101T050000-0000abcd",
            "as_of": "2026-11-01",
            "windows": {"aws": {"start": "2026-10-02T00:00:00Z", "end": "2026-11-01T00:00:00Z"}},
            "newest_charge": {},
            "status": "complete",
            "currency": "USD",
            "gaps": [],
            **run,
        },
        "sources": [],
        "reconciliation": [],
        "coverage": {
            "rules": [],
            "gpu": {
                "resources": 1,
                "with_telemetry": 1,
                "effective_cost": "4000",
                "effective_cost_with_telemetry": "4000",
            },
        },
        "gpu_ledger": [
            {
                "provider": "aws",
                "class": "idle",
                "accelerator_hours": "10",
                "effective_cost": "1000",
                "currency": "USD",
            },
            {
                "provider": "aws",
                "class": "productive",
                "accelerator_hours": "30",
                "effective_cost": "3000",
                "currency": "USD",
            },
        ],
        "totals": {
            "currency": "USD",
            "billed_cost": "9000",
            "effective_cost": "9000",
            "monthly_savings": "1000",
            "monthly_savings_net": "1000",
            "monthly_savings_net_low_confidence": "0",
            "other_currencies": [],
        },
        "findings": list(findings),
    }


def a_change(kind: str, number: int = 0, **changes: Any) -> FindingChange:
    """News of a finding."""
    row = a_row(number)
    plain: dict[str, Any] = {
        "id": row["id"],
        "rule_id": row["rule_id"],
        "title": row["title"],
        "provider": "aws",
        "sub_account_id": row["account_id"],
        "region_id": row["region"],
        "resource_id": row["resource_id"],
        "resource_name": None,
        "subject": row["resource_id"],
        "owner": row["owner"],
        "severity": "high",
        "confidence": "high",
        "billing_currency": "USD",
        "monthly_cost": Decimal(1000),
        "monthly_savings": Decimal(1000),
        "monthly_savings_net": Decimal(row["monthly_savings_net"]),
        "status": "resolved" if kind == "resolved" else "open",
        "first_seen": NOW,
        "last_seen": NOW,
        "resolved_at": None,
        "acknowledged_by": None,
        "mute_id": None,
    }
    return FindingChange(kind, FindingRecord(**{**plain, **changes}))
