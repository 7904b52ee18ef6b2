"""Runs, deliveries, the files of the lake, the run lock."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TIME = sa.DateTime().with_variant(sa.DateTime(timezone=True), "postgresql")
MONEY = sa.Text().with_variant(sa.Numeric(38, 12), "postgresql")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("as_of", TIME),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("billing_currency", sa.String),
        sa.Column("windows", sa.JSON, nullable=False),
        sa.Column("exit_status", sa.Integer),
        sa.Column("document", sa.Text),
        sa.Column("note", sa.String),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("provider", sa.String),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("billing_account_id", sa.String),
        sa.Column("format", sa.String, nullable=False),
        sa.Column("role", sa.String),
        sa.Column("billing_period", sa.String, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("fingerprint", sa.JSON, nullable=False),
        sa.Column("fingerprint_key", sa.String, nullable=False),
        sa.Column("delivered_at", TIME),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("source_billed_cost", MONEY),
        sa.Column("lake_billed_cost", MONEY),
        sa.Column("billing_currency", sa.String),
        sa.Column("totals", sa.JSON, nullable=False),
        sa.Column("identities", sa.JSON, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("superseded_by", sa.Text, sa.ForeignKey("deliveries.id")),
        sa.Column("run_id", sa.String, sa.ForeignKey("runs.id"), nullable=False),
    )
    op.create_index("ix_deliveries_fingerprint_key", "deliveries", ["fingerprint_key"])
    live = sa.text("status = 'live'")
    op.create_index(
        "deliveries_live",
        "deliveries",
        ["source", "billing_period"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_table(
        "lake_files",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("table_name", sa.String, nullable=False),
        sa.Column("path", sa.String, nullable=False),
        sa.Column("provider", sa.String),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("billing_period", sa.String, nullable=False),
        sa.Column("delivery_id", sa.String, sa.ForeignKey("deliveries.id")),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("live_from", sa.Integer, sa.ForeignKey("runs.number"), nullable=False),
        sa.Column("live_until", sa.Integer, sa.ForeignKey("runs.number")),
    )
    op.create_index("ix_lake_files_path", "lake_files", ["path"])
    op.create_index("lake_files_live", "lake_files", ["table_name", "live_until"])
    op.create_index("lake_files_of", "lake_files", ["source", "billing_period"])
    op.create_table(
        "locks",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("token", sa.String, nullable=False),
        sa.Column("acquired_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
    )


def downgrade() -> None:
    """Take back."""
    for table in ("locks", "lake_files", "deliveries", "runs"):
        op.drop_table(table)
