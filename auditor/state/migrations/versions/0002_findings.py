"""Findings and their history, mutes, notifications, realised savings."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TIME = sa.DateTime().with_variant(sa.DateTime(timezone=True), "postgresql")
MONEY = sa.Text().with_variant(sa.Numeric(38, 12), "postgresql")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "mutes",
        sa.Column("id", sa.String, primary_key=True),
        *(sa.Column(name, sa.String) for name in ("rule", "resource", "tag", "account", "finding_id")),
        sa.Column("author", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("until", TIME),
        sa.Column("removed_at", TIME),
        sa.Column("removed_by", sa.String),
    )
    op.create_table(
        "findings",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("rule_id", sa.String, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("provider", sa.String, nullable=False),
        *(sa.Column(name, sa.String) for name in ("sub_account_id", "region_id", "resource_id", "resource_name")),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("severity", sa.String, nullable=False),
        sa.Column("confidence", sa.String, nullable=False),
        sa.Column("billing_currency", sa.String, nullable=False),
        sa.Column("monthly_cost", MONEY, nullable=False),
        sa.Column("monthly_savings", MONEY, nullable=False),
        sa.Column("monthly_savings_net", MONEY, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("first_seen", TIME, nullable=False),
        sa.Column("last_seen", TIME, nullable=False),
        sa.Column("last_run_id", sa.String, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("resolved_at", TIME),
        sa.Column("resolved_run_id", sa.String, sa.ForeignKey("runs.id")),
        sa.Column("acknowledged_by", sa.String),
        sa.Column("mute_id", sa.String),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_index("findings_of", "findings", ["rule_id", "provider"])
    op.create_index("ix_findings_status", "findings", ["status"])
    op.create_index("ix_findings_resolved_run_id", "findings", ["resolved_run_id"])
    op.create_table(
        "finding_events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("finding_id", sa.String, sa.ForeignKey("findings.id"), nullable=False),
        sa.Column("run_id", sa.String, sa.ForeignKey("runs.id")),
        sa.Column("at", TIME, nullable=False),
        sa.Column("status_from", sa.String),
        sa.Column("status_to", sa.String, nullable=False),
        sa.Column("author", sa.String),
        sa.Column("note", sa.String),
        sa.Column("monthly_savings_net", MONEY),
    )
    op.create_index("ix_finding_events_finding_id", "finding_events", ["finding_id"])
    op.create_table(
        "notifications",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("channel", sa.String, nullable=False),
        sa.Column("recipient", sa.String, nullable=False),
        sa.Column("slot", sa.String, nullable=False),
        sa.Column("run_id", sa.String, sa.ForeignKey("runs.id")),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("claimed_at", TIME, nullable=False),
        sa.Column("sent_at", TIME),
        sa.Column("error", sa.String),
        sa.UniqueConstraint("channel", "recipient", "slot", name="notifications_slot"),
    )
    op.create_table(
        "realised_savings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("finding_id", sa.String, sa.ForeignKey("findings.id"), nullable=False),
        sa.Column("billing_period", sa.String, nullable=False),
        sa.Column("billing_currency", sa.String, nullable=False),
        sa.Column("baseline_effective_cost", MONEY, nullable=False),
        sa.Column("actual_effective_cost", MONEY, nullable=False),
        sa.Column("realised_savings", MONEY, nullable=False),
        sa.Column("run_id", sa.String, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("recorded_at", TIME, nullable=False),
        sa.UniqueConstraint("finding_id", "billing_period", name="realised_savings_period"),
    )


def downgrade() -> None:
    """Take back."""
    for table in ("realised_savings", "notifications", "finding_events", "findings", "mutes"):
        op.drop_table(table)
