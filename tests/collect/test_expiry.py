"""How long fetched files are kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from auditor.collect import _expire
from auditor.collect.folder import LandingFolder
from auditor.settings import Settings

NOW = datetime(2026, 10, 5, 6, 0, tzinfo=UTC)


def test_the_files_of_a_bill_expire_together_with_its_youngest(tmp_path: Path) -> None:
    settings = Settings.model_validate({"lake": {"landing_days": 31}})
    with LandingFolder(tmp_path, "prod", "gcp", NOW) as folder:
        for name, days in (("old/1", 60), ("old/2", 40), ("mixed/1", 60), ("mixed/2", 10)):
            folder.write(f"billing/{name}.json", b"{}", kind="billing", now=NOW - timedelta(days=days))
        for name, days in (("a", 60), ("b", 1)):
            folder.write(f"telemetry/{name}.json", b"{}", kind="telemetry", now=NOW - timedelta(days=days))
        _expire(folder, settings, NOW - timedelta(days=33), NOW)
        assert sorted(folder.entries) == ["billing/mixed/1.json", "billing/mixed/2.json", "telemetry/b.json"]
