"""Runs the migrations inside the transaction of the caller, who holds the write lock."""

from alembic import context
from sqlmodel import SQLModel

from auditor.state import tables  # noqa: F401 - fills SQLModel.metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=SQLModel.metadata,
    compare_type=True,
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
