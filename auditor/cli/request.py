"""Makes a scan request of the command line's words and the configuration."""

from datetime import date
from pathlib import Path

from auditor import settings
from auditor.errors import SettingsError
from auditor.finding import SEVERITIES
from auditor.live import is_live
from auditor.scan import ScanRequest


def make_request(
    *,
    paths: tuple[str, ...],
    config: Path | None = None,
    data_dir: Path | None = None,
    as_of: date | None = None,
    lookback: int | None = None,
    rules: tuple[str, ...] = (),
    rules_dirs: tuple[Path, ...] = (),
    overrides: tuple[str, ...] = (),
    fail_on: str | None = None,
) -> ScanRequest:
    """Raises SettingsError for words that cannot be understood, and where there is nothing to audit."""
    loaded = settings.load(config)
    live = not paths and is_live(loaded)
    if not paths:
        paths = tuple(path for source in loaded.sources.files for path in source.paths)
    if not paths and not live:
        looked = str(config) if config else ", ".join(settings.PLACES)
        raise SettingsError(f"nothing to audit: name files or folders, or configure sources (looked in {looked})")
    if any(not path.strip() for path in paths):
        raise SettingsError("an empty path was given (an unset variable?): name files or folders, `.` for this one")
    if fail_on is not None and fail_on not in SEVERITIES:
        raise SettingsError(f"--fail-on {fail_on}: choose one of {', '.join(SEVERITIES)}")
    for folder in rules_dirs:
        if not folder.is_dir():
            raise SettingsError(f"--rules-dir {folder}: no such folder")
    return ScanRequest(
        paths=paths,
        settings=loaded,
        live=live,
        data_dir=data_dir,
        as_of=as_of,
        lookback_days=lookback,
        rule_globs=rules,
        rules_dirs=rules_dirs,
        overrides=_overrides(overrides),
        fail_on=fail_on,
    )


def _overrides(texts: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """`network.nat_idle.idle_days=14` -> {"network.nat_idle": {"idle_days": "14"}}."""
    found: dict[str, dict[str, object]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        rule, dot, parameter = key.strip().rpartition(".")
        if not equals or not dot or "." not in rule:
            raise SettingsError(f"--set {text}: write RULE.PARAM=VALUE, for example network.nat_idle.idle_days=14")
        found.setdefault(rule, {})[parameter] = value.strip()
    return found
