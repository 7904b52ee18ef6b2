"""What was estimated, beside what was saved in the same days."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

MONEY = sa.Text().with_variant(sa.Numeric(38, 12), "postgresql")


def upgrade() -> None:
    """Apply."""
    op.add_column("realised_savings", sa.Column("estimated_savings", MONEY))


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("realised_savings") as savings:
        savings.drop_column("estimated_savings")
