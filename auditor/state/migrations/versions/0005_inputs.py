"""What a run's findings rest on, so that a later run can tell that nothing changed."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("inputs", sa.JSON))


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("runs") as changed:
        changed.drop_column("inputs")
