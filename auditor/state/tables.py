"""The tables of the state database. They stay inside this room: callers see the records of `auditor.records`."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from auditor.state.types import Money, UtcDateTime

METADATA = MetaData()

# One run. `number` gives runs their order; `id` is what people see.
RUNS = Table(
    "runs",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("started_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("as_of", UtcDateTime),
    Column("status", String, nullable=False),
    Column("billing_currency", String),
    Column("windows", JSON, nullable=False),
    Column("exit_status", Integer),
    Column("document", Text),  # findings.json as written, key order kept
    Column("note", String),
    Column("extras", Text),  # what the report shows beside the document
    Column(
        "inputs", JSON(none_as_null=True)
    ),  # what the run's findings rest on; null where they must not be told again
)

# One delivery; at most one of a source and billing period is live.
DELIVERIES = Table(
    "deliveries",
    METADATA,
    Column("id", String, primary_key=True),
    Column("provider", String),
    Column("source", String, nullable=False),
    Column("billing_account_id", String),
    Column("format", String, nullable=False),
    Column("role", String),
    Column("billing_period", String, nullable=False),
    Column("digest", String, nullable=False),
    # nothing reads these two any more; to drop a column, older SQLite would rewrite the table
    Column("fingerprint", JSON, nullable=False, default=list),
    Column("fingerprint_key", String, nullable=False, index=True, default=""),
    Column("delivered_at", UtcDateTime),
    Column("rows", BigInteger, nullable=False),
    Column("source_billed_cost", Money),
    Column("lake_billed_cost", Money),
    Column("billing_currency", String),
    Column("totals", JSON, nullable=False),
    Column("identities", JSON, nullable=False),
    Column("status", String, nullable=False),
    Column("superseded_by", Text, ForeignKey("deliveries.id")),
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Index(
        "deliveries_live",
        "source",
        "billing_period",
        unique=True,
        # PostgreSQL's index has the same condition by its migration; named here, it would load that dialect each time
        sqlite_where=text("status = 'live'"),
    ),
)

# One Parquet file of the lake and the runs between which it is live.
LAKE_FILES = Table(
    "lake_files",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("table_name", String, nullable=False),
    Column("path", String, nullable=False, index=True),  # not unique: a delivery may come back and be live twice
    Column("provider", String),
    Column("source", String, nullable=False),
    Column("billing_period", String, nullable=False),
    Column("delivery_id", String, ForeignKey("deliveries.id")),
    Column("rows", BigInteger, nullable=False),
    Column("live_from", Integer, ForeignKey("runs.number"), nullable=False),
    Column("live_until", Integer, ForeignKey("runs.number")),
    Index("lake_files_live", "table_name", "live_until"),
    Index("lake_files_of", "source", "billing_period"),
)

# A lock that is held until `expires_at`, which its owner keeps moving.
LOCKS = Table(
    "locks",
    METADATA,
    Column("name", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("token", String, nullable=False),
    Column("acquired_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("process", String),  # of the owner, as `auditor.state.process` names it
)

# One mute; removed ones stay as history.
MUTES = Table(
    "mutes",
    METADATA,
    Column("id", String, primary_key=True),
    Column("rule", String),
    Column("resource", String),
    Column("tag", String),
    Column("account", String),
    Column("finding_id", String),
    Column("author", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("until", UtcDateTime),
    Column("removed_at", UtcDateTime),
    Column("removed_by", String),
)

# A finding as its last run saw it. `payload` is the whole of it as JSON, read only for one finding at a time.
FINDINGS = Table(
    "findings",
    METADATA,
    Column("id", String, primary_key=True),
    Column("rule_id", String, nullable=False),
    Column("title", String, nullable=False),
    Column("provider", String, nullable=False),
    Column("sub_account_id", String),
    Column("region_id", String),
    Column("resource_id", String),
    Column("resource_name", String),
    Column("subject", String, nullable=False),
    Column("owner", String),
    Column("severity", String, nullable=False),
    Column("confidence", String, nullable=False),
    Column("billing_currency", String, nullable=False),
    Column("monthly_cost", Money, nullable=False),
    Column("monthly_savings", Money, nullable=False),
    Column("monthly_savings_net", Money, nullable=False),
    Column("status", String, nullable=False, index=True),
    Column("first_seen", UtcDateTime, nullable=False),
    Column("last_seen", UtcDateTime, nullable=False),
    Column("last_run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("resolved_at", UtcDateTime),
    Column("resolved_run_id", String, ForeignKey("runs.id"), index=True),
    Column("acknowledged_by", String),
    Column("mute_id", String),  # no foreign key: a mute may stand in the configuration
    Column("tags", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Index("findings_of", "rule_id", "provider"),
)

# One change of a finding's status.
FINDING_EVENTS = Table(
    "finding_events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("finding_id", String, ForeignKey("findings.id"), nullable=False, index=True),
    Column("run_id", String, ForeignKey("runs.id")),
    Column("at", UtcDateTime, nullable=False),
    Column("status_from", String),
    Column("status_to", String, nullable=False),
    Column("author", String),
    Column("note", String),
    Column("monthly_savings_net", Money),
)

# One report to one recipient for one slot of the schedule.
NOTIFICATIONS = Table(
    "notifications",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("channel", String, nullable=False),
    Column("recipient", String, nullable=False),
    Column("slot", String, nullable=False),
    Column("run_id", String, ForeignKey("runs.id")),
    Column("status", String, nullable=False),
    Column("claimed_at", UtcDateTime, nullable=False),
    Column("sent_at", UtcDateTime),
    Column("error", String),
    Column("message_id", String),
    Column("token", String),  # of the sender whose claim this is
    Column("attempts", Integer, nullable=False, server_default="1"),
    Column("retry_at", UtcDateTime),
    Column("process", String),  # of the sender
    UniqueConstraint("channel", "recipient", "slot", name="notifications_slot"),
)

# One time at which a job of the schedule was due. `slot` is local wall time, so that a repeated hour is one slot.
SCHEDULE_SLOTS = Table(
    "schedule_slots",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("job", String, nullable=False),
    Column("slot", String, nullable=False),
    Column("slot_at", UtcDateTime, nullable=False),
    Column("status", String, nullable=False),
    Column("owner", String),
    Column("token", String),
    Column("attempts", Integer, nullable=False),
    Column("claimed_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("retry_at", UtcDateTime),
    Column("error", String),
    Column("process", String),  # of the daemon that runs it
    UniqueConstraint("job", "slot", name="schedule_slots_slot"),
)

# What one billing period shows that a resolved finding saved.
REALISED_SAVINGS = Table(
    "realised_savings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("finding_id", String, ForeignKey("findings.id"), nullable=False),
    Column("billing_period", String, nullable=False),
    Column("billing_currency", String, nullable=False),
    Column("baseline_effective_cost", Money, nullable=False),
    Column("actual_effective_cost", Money, nullable=False),
    Column("realised_savings", Money, nullable=False),
    Column("estimated_savings", Money),  # null where an older auditor recorded it
    Column("run_id", String, ForeignKey("runs.id"), nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False),
    UniqueConstraint("finding_id", "billing_period", name="realised_savings_period"),
)
