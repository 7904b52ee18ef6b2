"""The configuration: read once, at the edge, into typed values.

Every key has a default; an unknown key is an error that names the nearest one. Secrets are references, never values.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from auditor.errors import SettingsError
from auditor.tagging import TagSettings


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AuditSettings(_Table):
    """[audit]: the window and the thresholds that several rules share."""

    lookback_days: int = Field(30, ge=1, le=400, description="length of the audit window in days")
    as_of: date | None = Field(
        None, description="end of the audit window, excluded; by default the last complete day of each provider's bill"
    )
    hold_back_days: int = Field(
        2, ge=0, le=31, description="days before the newest charge that still change and are left out"
    )
    max_data_age: int = Field(5, ge=1, description="days after which a bill's newest row is called stale")
    currency: str | None = Field(None, description="currency of the headline; by default the one with the largest cost")
    idle_days: int = Field(7, ge=1, description="days that something must be idle before it is called so")
    max_utilization: Decimal = Field(
        Decimal("0.05"), ge=0, le=1, description="ratio: an accelerator-hour below it is idle"
    )
    max_p95: Decimal = Field(
        Decimal("0.30"),
        ge=0,
        le=1,
        description="ratio: 95th percentile of the busiest device below which a machine is underused",
    )
    max_memory_idle: Decimal = Field(
        Decimal("0.05"), ge=0, le=1, description="ratio of accelerator memory below which it counts as empty"
    )
    min_coverage: Decimal = Field(
        Decimal("0.8"), ge=0, le=1, description="ratio of expected samples below which there is no verdict"
    )
    min_monthly_cost: Decimal = Field(
        Decimal(50), ge=0, description="billing currency a month: transfer and NAT findings below it are not reported"
    )


class LakeSettings(_Table):
    """[lake]: where data live."""

    data_dir: Path | None = Field(None, description="where lake and state live")


class StateSettings(_Table):
    """[state]: the database of runs and findings."""

    url: str | None = Field(None, description="database URL; by default SQLite in the data directory")


class EngineSettings(_Table):
    """[engine]: what the embedded engine may use."""

    memory_limit: str | None = Field(
        None, description="for example 2GiB; by default the smaller of a quarter of the machine and 2 GiB"
    )
    threads: int | None = Field(None, ge=1, description="by default all cores")


class FilesSource(_Table):
    """[[sources.files]]: exports that lie in folders."""

    name: str
    paths: list[str]


class Sources(_Table):
    """[sources]: what a live audit reads."""

    files: list[FilesSource] = Field(default_factory=list)


class Tags(_Table):
    """[tags]: which keys tell owner, workload, job and standby; each list replaces the built-in one."""

    owner_tags: list[str] | None = None
    workload_tags: list[str] | None = None
    job_tags: list[str] | None = None
    standby_tags: list[str] | None = None

    def settings(self) -> TagSettings:
        given = {name: tuple(value) for name, value in self.model_dump().items() if value is not None}
        return TagSettings(**given)


class Budget(_Table):
    """[[budgets]]: what a month may cost; provider, account and tag narrow it down, left out they mean all."""

    name: str | None = Field(None, description="what reports call it; by default its scope")
    monthly: Decimal = Field(gt=0, description="amount of a calendar month")
    currency: str = Field("USD", description="currency of the amount; charges of others do not count")
    provider: str | None = Field(None, description="aws, gcp, azure, or another that bills name")
    account: str | None = Field(None, description="AWS account, GCP project, Azure subscription, or a billing account")
    tag: str | None = Field(None, pattern=r"^[^=]+=.+$", description="key=value of the resources that count")

    @property
    def title(self) -> str:
        scope = [part for part in (self.provider, self.account, self.tag) if part]
        return self.name or " ".join(scope) or "all"


class Settings(_Table):
    """The whole configuration file."""

    audit: AuditSettings = AuditSettings()
    lake: LakeSettings = LakeSettings()
    state: StateSettings = StateSettings()
    engine: EngineSettings = EngineSettings()
    sources: Sources = Sources()
    tags: Tags = Tags()
    rules: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description='[rules."ID"]: `enabled` and parameters of one rule'
    )
    budgets: list[Budget] = Field(default_factory=list, description="[[budgets]]: what a month may cost")

    @field_validator("budgets")
    @classmethod
    def _names_differ(cls, budgets: list[Budget]) -> list[Budget]:
        titles = [budget.title for budget in budgets]
        for title in titles:
            if titles.count(title) > 1:
                raise ValueError(f"two budgets are called {title!r}; give each its own `name`")
        return budgets


PLACES = ("auditor.toml", "~/.config/auditor/auditor.toml", "/etc/auditor/auditor.toml")


def load(path: Path | None) -> Settings:
    """The settings of the file, or of the first of PLACES that exists, or the defaults.

    Raises SettingsError with file, key and the nearest known key.
    """
    if path is None:
        found = [place for place in (Path(text).expanduser() for text in PLACES) if place.is_file()]
        if not found:
            return Settings()
        path = found[0]
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"configuration {path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"configuration {path}: not valid TOML: {error}") from error
    return parse(table, str(path))


def parse(table: Mapping[str, Any], where: str) -> Settings:
    """Typed settings of a parsed TOML document; `where` names it in messages."""
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(where, problem) for problem in error.errors())) from error


def _explain(where: str, problem: Mapping[str, Any]) -> str:
    place: Sequence[Any] = problem["loc"]
    key = ".".join(str(part) for part in place)
    if problem["type"] != "extra_forbidden":
        return f"configuration {where}: {key}: {problem['msg']}, found {problem.get('input')!r}"
    known = _known_keys(place[:-1])
    near = difflib.get_close_matches(str(place[-1]), known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(sorted(known))}"
    return f"configuration {where}: unknown key {key!r}; {hint}"


def _known_keys(place: Sequence[Any]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in place:
        if isinstance(part, int) or part not in model.model_fields:
            continue
        annotation = model.model_fields[part].annotation
        inner = getattr(annotation, "__args__", (annotation,))[-1]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)
