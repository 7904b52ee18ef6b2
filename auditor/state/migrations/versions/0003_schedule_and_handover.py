"""What a report showed beside its document, the schedule's slots, and how far each notification came."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TIME = sa.DateTime().with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("extras", sa.Text))
    op.add_column("notifications", sa.Column("message_id", sa.String))
    op.add_column("notifications", sa.Column("token", sa.String))
    op.add_column("notifications", sa.Column("attempts", sa.Integer, nullable=False, server_default="1"))
    op.add_column("notifications", sa.Column("retry_at", TIME))
    op.create_table(
        "schedule_slots",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("slot", sa.String, nullable=False),
        sa.Column("slot_at", TIME, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("token", sa.String),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("claimed_at", TIME, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("ended_at", TIME),
        sa.Column("retry_at", TIME),
        sa.Column("error", sa.String),
        sa.UniqueConstraint("job", "slot", name="schedule_slots_slot"),
    )


def downgrade() -> None:
    """Take back."""
    op.drop_table("schedule_slots")
    with op.batch_alter_table("notifications") as notifications:
        for name in ("message_id", "token", "attempts", "retry_at"):
            notifications.drop_column(name)
    with op.batch_alter_table("runs") as runs:
        runs.drop_column("extras")
