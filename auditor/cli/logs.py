"""Logs on stderr, as text or as one JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime

from auditor.errors import SettingsError


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def start_logging(verbose: int, form: str) -> None:
    """Warnings, with one `verbose` the story of the run, with two its details. Raises SettingsError for an unknown form."""
    if form not in ("text", "json"):
        raise SettingsError(f"--log-format {form}: choose text or json")
    _start(logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.WARNING, form)


def _start(level: int, form: str) -> None:
    """Sends the program's log to stderr from this level on; other libraries' from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Json() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for noisy in ("urllib3.connectionpool", "azure.identity"):
        # each try of a call whose failure the collector tells itself
        logging.getLogger(noisy).setLevel(logging.WARNING if level == logging.DEBUG else logging.ERROR)
    logging.getLogger("auditor").setLevel(level)
