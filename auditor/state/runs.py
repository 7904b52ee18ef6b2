"""The runs: when, over what, how they ended, and the document each left."""

import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update

from auditor.errors import SettingsError
from auditor.records import RunRecord
from auditor.state.book import Book, run_number
from auditor.state.tables import RUNS

_RECORD = (
    RUNS.c.id,
    RUNS.c.started_at,
    RUNS.c.ended_at,
    RUNS.c.as_of,
    RUNS.c.status,
    RUNS.c.billing_currency,
    RUNS.c.windows,
    RUNS.c.exit_status,
    RUNS.c.note,
)


class RunBook(Book):
    """The runs."""

    def begin_run(
        self,
        *,
        as_of: datetime | None = None,
        windows: Mapping[str, Any] | None = None,
        billing_currency: str | None = None,
        note: str | None = None,
        now: datetime | None = None,
    ) -> str:
        """The id of a run that starts now. Ids sort by time and differ between databases."""
        started_at = now or self._clock()
        run_id = f"{started_at:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        row = {
            "id": run_id,
            "started_at": started_at,
            "as_of": as_of,
            "status": "running",
            "billing_currency": billing_currency,
            "windows": dict(windows or {}),
            "note": note,
        }
        with self._database.write() as connection:
            connection.execute(insert(RUNS), row)
        return run_id

    def finish_run(
        self,
        run_id: str,
        status: str,
        document: Mapping[str, Any] | None,
        *,
        exit_status: int | None = None,
        as_of: datetime | None = None,
        windows: Mapping[str, Any] | None = None,
        billing_currency: str | None = None,
        note: str | None = None,
        extras: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> None:
        """End a run as complete, partial or failed and keep its document, which is JSON already, and its extras, as text.

        `inputs` says what the findings rest on, so that a later run can tell that nothing changed. What is given here replaces what `begin_run` was given. Raises SettingsError for an unknown run.
        """
        told = {"as_of": as_of, "billing_currency": billing_currency, "note": note, "exit_status": exit_status}
        changes: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        if windows is not None:
            changes["windows"] = dict(windows)
        if document is not None:
            changes["document"] = json.dumps(document)
        if extras is not None:
            changes["extras"] = extras
        if inputs is not None:
            changes["inputs"] = dict(inputs)
        changes |= {"status": status, "ended_at": now or self._clock()}
        with self._database.write() as connection:
            run_number(connection, run_id)
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(changes))

    def runs_list(self, limit: int | None = None) -> list[RunRecord]:
        """The runs, newest first."""
        query = select(*_RECORD).order_by(RUNS.c.number.desc()).limit(limit)
        with self._database.read() as connection:
            return [RunRecord(*row) for row in connection.execute(query)]

    def run_document(self, run_id: str | None = None) -> dict[str, Any] | None:
        """The document of a run, or of the newest that left one; null where there is none.

        Raises SettingsError for an unknown run.
        """
        query = select(RUNS.c.document).where(RUNS.c.document.is_not(None)).order_by(RUNS.c.number.desc()).limit(1)
        with self._database.read() as connection:
            if run_id is not None:
                query = query.where(RUNS.c.number == run_number(connection, run_id))
            document = connection.execute(query).scalar()
        return None if document is None else json.loads(document)

    def get_run(self, run_id: str | None = None) -> RunRecord | None:
        """A run by its id, or by a beginning of it that no other run shares; without an id the newest with a document.

        Null where no run left a document. Raises SettingsError for an id that names no run, or several.
        """
        query = select(*_RECORD).order_by(RUNS.c.number.desc()).limit(2)
        if run_id is None:
            query = query.where(RUNS.c.document.is_not(None)).limit(1)
        else:
            query = query.where(RUNS.c.id.startswith(run_id, autoescape=True))
        with self._database.read() as connection:
            found = [RunRecord(*row) for row in connection.execute(query)]
        exact = [run for run in found if run.id == run_id] or found
        if run_id is not None and len(exact) != 1:
            number = "no run has" if not exact else "several runs have"
            raise SettingsError(f"{number} the id {run_id!r}; `auditor runs list` shows those there are")
        return exact[0] if exact else None

    def run_extras(self, run_id: str) -> str | None:
        """What was kept beside a run's document. Raises SettingsError for an unknown run."""
        with self._database.read() as connection:
            number = run_number(connection, run_id)
            extras: str | None = connection.execute(select(RUNS.c.extras).where(RUNS.c.number == number)).scalar()
        return extras

    def run_inputs(self, run_id: str) -> dict[str, Any] | None:
        """What a run's findings rest on; null where it did not say. Raises SettingsError for an unknown run."""
        with self._database.read() as connection:
            number = run_number(connection, run_id)
            inputs: dict[str, Any] | None = connection.execute(
                select(RUNS.c.inputs).where(RUNS.c.number == number)
            ).scalar()
        return inputs

    def forget_documents(self, before: datetime) -> int:
        """Drop the documents of runs that started before a time; the runs themselves stay. Returns how many."""
        old = (RUNS.c.started_at < before) & RUNS.c.document.is_not(None)
        with self._database.write() as connection:
            return connection.execute(update(RUNS).where(old).values(document=None, extras=None, inputs=None)).rowcount
