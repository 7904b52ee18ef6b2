"""Which rules an audit can run with what is configured, and what to switch on for the others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.assets import room
from auditor.checks import Check
from auditor.detect import Rule, load_rules
from auditor.detect.stock import SAMPLED_COLUMNS
from auditor.settings import AwsSource, AzureSource, GcpSource, Settings

# What each view is made of: without data of this kind it is empty. Prices and peaks are bundled, budgets are configured.
_INVENTORY = (
    "instances volumes file_systems nat_gateways load_balancers addresses private_endpoints reservations commitments "
    "notebooks endpoints jobs buckets resources"
)
KINDS: dict[str, str | None] = {
    **dict.fromkeys("charges transfers paid_rates commitment_hours accelerator_hours".split(), "billing"),
    "metric_hours": "telemetry",
    **dict.fromkeys(_INVENTORY.split(), "inventory"),
    "flows_daily": "flows",
    "prices": None,
    "accelerator_peaks": None,
    "budgets": None,
}

_FIXES = {
    "billing": "name the export: `exports` under [[sources.aws]], `billing_dataset` under .gcp, `exports` or `scopes` under "
    ".azure (`auditor init --aws-export s3://BUCKET/PREFIX`), or `paths` under [[sources.files]]",
    "telemetry": "run dcgm-exporter on the GPU nodes and add [[sources.prometheus]], or let the CloudWatch agent "
    "(nvidia_gpu), the Ops Agent (dcgm) or Azure Monitor measure them; `metrics = true` under each cloud's source",
    "inventory": "`inventory = true` under each cloud's source, with the rights that `auditor permissions CLOUD` prints",
    "flows": "publish flow logs to a bucket (aws ec2 create-flow-logs --resource-type VPC --resource-ids VPC --traffic-type "
    "ALL --log-destination-type s3 --log-destination arn:aws:s3:::BUCKET) and name it as `flow_logs` under [[sources.aws]]",
}
_TOLD_AS = {
    "billing": ("bill", "charge"),
    "telemetry": ("telemetry", "metric"),
    "inventory": ("inventory",),
    "flows": ("flow",),
}


def readiness(settings: Settings, document: Mapping[str, Any] | None) -> Iterator[Check]:
    """One line a group of rules: from the newest audit where there is one, else from what the sources can give."""
    rules = load_rules([room("rules")])
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(rule.id.partition(".")[0], []).append(rule)
    if document is not None:
        told = {entry["rule_id"]: entry for entry in document["coverage"]["rules"]}
        for group, members in sorted(groups.items()):
            yield _as_told(group, [told[rule.id] for rule in members if rule.id in told])
        return
    given = configured(settings)
    if settings.sources.files and not given >= set(_FIXES):
        yield Check("ok", "rules", "what the configured files hold is known after the first audit: `auditor scan`")
        return
    for group, members in sorted(groups.items()):
        yield _as_configured(group, members, given)


def configured(settings: Settings) -> set[str]:
    """The kinds of data that the live sources can give."""
    sources = settings.sources
    kinds = set()
    if any(each.exports or each.cost_explorer for each in sources.aws):
        kinds.add("billing")
    if any(each.billing_dataset or each.exports for each in sources.gcp):
        kinds.add("billing")
    if any(each.exports or each.scopes for each in sources.azure):
        kinds.add("billing")
    clouds: list[AwsSource | GcpSource | AzureSource] = [*sources.aws, *sources.gcp, *sources.azure]
    if sources.prometheus or any(each.metrics for each in clouds):
        kinds.add("telemetry")
    if sources.slurm or any(each.inventory for each in clouds):
        kinds.add("inventory")
    if any(each.flow_logs for each in sources.aws):
        kinds.add("flows")
    return kinds


def _as_told(group: str, entries: Sequence[Mapping[str, Any]]) -> Check:
    held_back = [entry for entry in entries if entry["status"] in ("degraded", "skipped", "failed")]
    counts = [
        f"{sum(entry['status'] == status for entry in entries)} {word}"
        for status, word in (("ran", "ran"), ("degraded", "degraded"), ("skipped", "skipped"), ("failed", "failed"))
        if any(entry["status"] == status for entry in entries)
    ]
    reasons = "; ".join(f"{entry['rule_id']} ({entry['reason'] or entry['status']})" for entry in held_back)
    text = f"in the newest audit {', '.join(counts) or 'none was asked for'}"
    missing = [
        kind
        for kind, words in _TOLD_AS.items()
        if any(word in str(entry["reason"]).lower() for entry in held_back for word in words)
    ]
    return Check(_state(entries), f"rules {group}", f"{text}: {reasons}" if reasons else text, _fix(missing))


def _state(entries: Sequence[Mapping[str, Any]]) -> str:
    found = {entry["status"] for entry in entries}
    return "bad" if "failed" in found else "warn" if found & {"degraded", "skipped"} else "ok"


def _as_configured(group: str, members: Sequence[Rule], given: set[str]) -> Check:
    skipped, degraded, missing = [], [], set()
    for rule in members:
        firm, soft = _kinds(rule.needs) - given, _kinds(rule.optional) - given
        missing |= firm | soft
        if firm:
            skipped.append(f"{rule.id} (without {_listed(firm)})")
        elif soft:
            degraded.append(f"{rule.id} (without {_listed(soft)})")
    parts = [f"{len(members) - len(skipped) - len(degraded)} of {len(members)} will run"]
    parts += [f"degraded: {', '.join(degraded)}"] if degraded else []
    parts += [f"skipped: {', '.join(skipped)}"] if skipped else []
    state = "warn" if missing else "ok"
    return Check(state, f"rules {group}", "; ".join(parts), _fix([kind for kind in _FIXES if kind in missing]))


def _kinds(views: Mapping[str, Sequence[str]]) -> set[str]:
    """The kinds of data that these views and columns are made of: some columns of a bill's hours come from samples."""
    kinds = {kind for view in views if (kind := KINDS[view]) is not None}
    return kinds | {"telemetry"} if SAMPLED_COLUMNS & set(views.get("accelerator_hours", ())) else kinds


def _listed(kinds: set[str]) -> str:
    names = {"billing": "bills", "flows": "flow logs"}
    return ", ".join(names.get(kind, kind) for kind in sorted(kinds))


def _fix(kinds: Sequence[str]) -> str | None:
    return "; ".join(_FIXES[kind] for kind in kinds) or None
