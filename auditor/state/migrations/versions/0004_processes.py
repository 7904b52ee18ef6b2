"""Which process holds a lock, runs a slot or sends a report, so that what a dead one held is free at once."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_HOLDING = ("locks", "schedule_slots", "notifications")


def upgrade() -> None:
    """Apply."""
    for table in _HOLDING:
        op.add_column(table, sa.Column("process", sa.String))


def downgrade() -> None:
    """Take back."""
    for table in _HOLDING:
        with op.batch_alter_table(table) as changed:
            changed.drop_column("process")
