"""Says the findings in SARIF 2.1.0, which code hosts and ticket systems read."""

from collections.abc import Mapping
from typing import Any

from auditor.render import figures, view
from auditor.render.extras import Extras
from auditor.render.text import safe_url, visible

LEVELS = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
BASELINE = {"new": "new", "reopened": "new", "resolved": "absent"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(document: Mapping[str, Any], extras: Extras) -> dict[str, Any]:
    """One SARIF run. A cloud resource has no file, so a result's place is a logical location."""
    rules = _rules(document, extras)
    index = {rule["id"]: n for n, rule in enumerate(rules)}
    driver = {"name": "auditor", "semanticVersion": extras.version or "0.0.0", "rules": rules}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"auditor/{document['run']['id']}"},
        "invocations": [_invocation(document)],
        "results": [_result(finding, index[finding["rule_id"]]) for finding in document["findings"]],
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(document: Mapping[str, Any], extras: Extras) -> list[dict[str, Any]]:
    titles = {finding["rule_id"]: finding["title"] for finding in document["findings"]}
    ran = {rule["rule_id"] for rule in document["coverage"]["rules"]}
    rules = []
    for rule_id in sorted(ran | set(titles)):
        known = (extras.rule_texts or {}).get(rule_id)
        title = known.title if known else titles.get(rule_id, rule_id)
        rule = {"id": rule_id, "shortDescription": {"text": visible(title)}}
        if known:
            rule["fullDescription"] = {"text": visible(known.why.strip(), keep="\n")}
        rules.append(rule)
    return rules


def _invocation(document: Mapping[str, Any]) -> dict[str, Any]:
    notes = [
        {"level": "error" if s["status"] == "failed" else "note", "message": {"text": visible(_source(s))}}
        for s in document["sources"]
        if s["status"] != "ok"
    ]
    limits = [
        {
            "level": "note",
            "associatedRule": {"id": rule["rule_id"]},
            "message": {"text": visible(f"{rule['status']}: {rule['reason'] or 'no reason given'}")},
        }
        for rule in document["coverage"]["rules"]
        if rule["status"] != "ran"
    ]
    return {
        "executionSuccessful": document["run"]["status"] == "complete",
        "toolExecutionNotifications": notes,
        "toolConfigurationNotifications": limits,
    }


def _source(source: Mapping[str, Any]) -> str:
    return f"{source['status']}: {', '.join(source['paths'])}: {source['message'] or 'no reason given'}"


def _result(finding: Mapping[str, Any], rule_index: int) -> dict[str, Any]:
    net = figures.money(finding["monthly_savings_net"], finding["currency"])
    scope = [finding["provider"], finding["account_id"], finding["region"], finding["service"], finding["resource_id"]]
    name = view.subject(finding)
    result: dict[str, Any] = {
        "ruleId": finding["rule_id"],
        "ruleIndex": rule_index,
        "level": LEVELS[finding["severity"]],
        "kind": "fail",
        "message": {"text": visible(f"{finding['title']}: {name}. {finding['reason']}. Net savings a month: {net}.")},
        "locations": [
            {
                "logicalLocations": [
                    {
                        "name": visible(name),
                        "fullyQualifiedName": visible("/".join(str(part) for part in scope if part)),
                        "kind": "resource",
                    }
                ]
            }
        ],
        "partialFingerprints": {"auditorFindingId/v1": finding["id"]},
        "baselineState": BASELINE.get(finding["status"], "unchanged"),
        "properties": {
            key: finding[key]
            for key in ("provider", "account_id", "region", "resource_id", "owner", "confidence", "severity", "status")
        }
        | {key: finding[key] for key in ("monthly_cost", "monthly_savings", "monthly_savings_net", "currency")},
    }
    if finding["status"] in ("muted", "acknowledged"):
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding["status"]}]
    links = [address for address in map(safe_url, finding["references"]) if address]
    if links:
        result["properties"]["references"] = links
    return result
