"""The configuration: read once, at the edge, into typed values.

Every key has a default; an unknown key is an error that names the nearest one. Secrets are references, never values.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from auditor import secret
from auditor.errors import SettingsError
from auditor.records import MuteRecord
from auditor.schedule import Cron
from auditor.tagging import TagSettings


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


SecretReference = Annotated[str, AfterValidator(secret.check)]


def _is_cron(text: str) -> str:
    Cron(text, "UTC")
    return text


CronText = Annotated[str, AfterValidator(_is_cron)]


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
    starved_max_utilization: Decimal = Field(
        Decimal("0.60"),
        ge=0,
        le=1,
        description="ratio: an accelerator-hour above it is not starved, whatever its storage does",
    )
    storage_limit: Decimal = Field(
        Decimal("0.95"),
        ge=0,
        le=1,
        description="ratio of what is provisioned from which storage counts as at its limit",
    )
    min_monthly_cost: Decimal = Field(
        Decimal(50), ge=0, description="billing currency a month: transfer and NAT findings below it are not reported"
    )


class LakeSettings(_Table):
    """[lake]: where data live."""

    data_dir: Path | None = Field(None, description="where lake and state live")
    landing_days: int = Field(
        396, ge=31, description="days for which collected bills are kept; metrics as long as an audit looks back"
    )
    superseded_days: int = Field(
        90, ge=1, description="days for which the rows of a replaced delivery are kept, to tell what was restated"
    )


class StateSettings(_Table):
    """[state]: the database of runs and findings."""

    url: str | None = Field(
        None, description="sqlite:///PATH or postgresql://USER@HOST/NAME; by default SQLite in the data directory"
    )
    password: SecretReference | None = Field(None, description="the database's password, by reference")
    mute_files: list[Path] = Field(
        default_factory=list, description="TOML files of [[mutes]], relative to this file; kept and reviewed in git"
    )
    report_days: int = Field(400, ge=1, description="days after which a run's report is dropped; findings stay")

    @model_validator(mode="after")
    def _no_password(self) -> Self:
        if self.url and urlsplit(self.url).password is not None:
            raise ValueError(f"the URL holds a password: give it as `password`, one of {secret.FORMS}")
        return self

    def address(self, data_dir: Path) -> str:
        """The URL to open, password included. Raises SettingsError where the password's reference leads nowhere."""
        if self.url is None:
            return f"sqlite:///{data_dir / 'state.db'}"
        if self.password is None:
            return self.url
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        if not at:
            raise SettingsError("[state] password is given, but the URL names no user: postgresql://USER@HOST/NAME")
        return parts._replace(netloc=f"{user}:{quote(secret.resolve(self.password), safe='')}@{host}").geturl()


class EngineSettings(_Table):
    """[engine]: what the embedded engine may use."""

    memory_limit: str | None = Field(
        None, description="for example 2GiB; by default the smaller of a quarter of the machine and 768 MiB"
    )
    threads: int | None = Field(None, ge=1, description="by default all cores")


class FilesSource(_Table):
    """[[sources.files]]: exports that lie in folders."""

    name: str
    paths: list[str]


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _is_endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return url
    raise ValueError("wanted https://…; http only for this machine (localhost)")


Endpoint = Annotated[str, AfterValidator(_is_endpoint)]
_ENDPOINT = "address that stands in for the vendor's own, of a proxy or an emulator"


class _LiveSource(_Table):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="what reports call it")


class AwsSource(_LiveSource):
    """[[sources.aws]]: bills, metrics and inventory of AWS accounts, with the credentials of AWS's own chain."""

    exports: list[str] = Field(
        default_factory=list, description="where bills lie: s3://BUCKET/PREFIX of CUR and Data Exports"
    )
    profile: str | None = Field(None, description="profile of the AWS configuration; by default the chain's own choice")
    roles: list[str] = Field(default_factory=list, description="ARNs of roles to assume, one an account")
    organization: str | None = Field(
        None, description="name of a role that exists in every account of the organization, assumed in each"
    )
    external_id: SecretReference | None = Field(None, description="external id of the roles, by reference")
    regions: list[str] = Field(default_factory=list, description="regions to look into; by default all enabled ones")
    metrics: bool = Field(True, description="CloudWatch metrics")
    inventory: bool = Field(True, description="what runs: instances, volumes, gateways, file systems, ...")
    flow_logs: list[str] = Field(default_factory=list, description="where VPC flow logs lie: s3://BUCKET/PREFIX")
    cost_explorer: bool = Field(
        False, description="ask Cost Explorer (paid by the call) where no export exists, and for totals to compare with"
    )
    prices: bool = Field(False, description="fetch list prices of accelerator machines from the Price List")
    endpoint_url: Endpoint | None = Field(None, description=_ENDPOINT)


class GcpSource(_LiveSource):
    """[[sources.gcp]]: bills, metrics and inventory of GCP projects, with the application default credentials."""

    billing_dataset: str | None = Field(None, description="PROJECT.DATASET of the billing export in BigQuery")
    billing_table: str | None = Field(
        None, description="table of it; by default the detailed export, else the standard one"
    )
    exports: list[str] = Field(default_factory=list, description="where extracted bills lie: gs://BUCKET/PREFIX")
    projects: list[str] = Field(
        default_factory=list, description="projects to look into; by default those linked to the bill's billing account"
    )
    metrics: bool = Field(True, description="Cloud Monitoring metrics")
    inventory: bool = Field(True, description="what runs: instances, disks, NAT, file stores, notebooks, ...")
    prices: bool = Field(False, description="fetch the SKU catalogue")
    endpoint_url: Endpoint | None = Field(None, description=_ENDPOINT)


class AzureSource(_LiveSource):
    """[[sources.azure]]: bills, metrics and inventory of Azure subscriptions, with Azure's default credential chain."""

    exports: list[str] = Field(
        default_factory=list,
        description="where cost exports lie: https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX",
    )
    scopes: list[str] = Field(
        default_factory=list,
        description="billing scopes to find exports of, and to query where there is none: /subscriptions/ID, /providers/Microsoft.Billing/billingAccounts/ID",
    )
    subscriptions: list[str] = Field(
        default_factory=list, description="subscriptions to look into; by default all that the credential may read"
    )
    metrics: bool = Field(True, description="Azure Monitor metrics")
    inventory: bool = Field(True, description="what runs: machines, disks, NAT gateways, workspaces, ...")
    prices: bool = Field(False, description="fetch retail prices of accelerator machines")
    endpoint_url: Endpoint | None = Field(None, description=_ENDPOINT)


class PrometheusSource(_LiveSource):
    """[[sources.prometheus]]: a Prometheus, or whatever speaks its API (managed services, Thanos, Mimir, VictoriaMetrics)."""

    url: Endpoint = Field(description="base address, below which /api/v1/query_range answers")
    auth: Literal["none", "bearer", "basic", "sigv4", "google", "azure"] = Field(
        "none", description="sigv4, google and azure use the credentials of that cloud's own chain"
    )
    token: SecretReference | None = Field(None, description="bearer token, by reference")
    username: str | None = None
    password: SecretReference | None = None
    headers: dict[str, str] = Field(default_factory=dict, description="further headers, such as X-Scope-OrgID")
    ca_file: Path | None = Field(None, description="certificates to trust instead of the system's")
    match: list[str] = Field(
        default_factory=list, description='label matchers that narrow every series down, for example cluster="prod"'
    )
    step_seconds: int = Field(300, ge=15, le=3600, description="distance of the samples fetched")


class SlurmSource(_LiveSource):
    """[[sources.slurm]]: the jobs of a Slurm cluster, by its own sacct."""

    command: list[str] = Field(
        default_factory=lambda: ["sacct"],
        min_length=1,
        description='how sacct is called, for example ["ssh", "login", "sacct"]',
    )


class Sources(_Table):
    """[sources]: what a live audit reads."""

    files: list[FilesSource] = Field(default_factory=list)
    aws: list[AwsSource] = Field(default_factory=list)
    gcp: list[GcpSource] = Field(default_factory=list)
    azure: list[AzureSource] = Field(default_factory=list)
    prometheus: list[PrometheusSource] = Field(default_factory=list)
    slurm: list[SlurmSource] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        live: list[_LiveSource] = [*self.aws, *self.gcp, *self.azure, *self.prometheus, *self.slurm]
        names = [source.name.casefold() for source in live]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sources are called {name!r}; each has a folder of its own, by its name")
        return self


class Limits(_Table):
    """[limits]: what a collection may use of the vendors' APIs."""

    money: Decimal = Field(
        Decimal(5),
        ge=0,
        description="US dollars that one collection may cost at the vendors (Cost Explorer, CloudWatch, BigQuery)",
    )
    calls: int = Field(200_000, ge=1, description="calls that one collection may make")
    bytes: int = Field(200 * 10**9, ge=1, description="bytes that one collection may download or have scanned")
    parallel: int = Field(8, ge=1, le=64, description="calls under way at once")
    months: int = Field(4, ge=1, le=36, description="billing periods fetched, the newest included")


class Tags(_Table):
    """[tags]: which keys tell owner, workload, job and standby; each list replaces the built-in one."""

    owner_tags: list[str] | None = None
    workload_tags: list[str] | None = None
    job_tags: list[str] | None = None
    standby_tags: list[str] | None = None

    def settings(self) -> TagSettings:
        given = {name: tuple(value) for name, value in self.model_dump().items() if value is not None}
        return TagSettings(**given)


Digest = Literal["report", "digest"]


class ScheduleSettings(_Table):
    """[schedule]: when `auditor serve` does what, as five fields of cron."""

    timezone: str = Field("UTC", description="zone in which the expressions are meant, for example Europe/Berlin")
    pull: CronText | None = Field(None, description="fetch what the live sources have; an audit does so by itself")
    audit: CronText | None = Field("0 5 * * *", description="audit the configured sources")
    report: CronText | None = Field("0 7 * * 1", description="send the weekly report of the newest audit")
    digest: CronText | None = Field(None, description="send the daily digest; nothing is sent where nothing changed")
    housekeeping: CronText | None = Field("30 3 * * *", description="drop what the retentions no longer keep")

    @model_validator(mode="after")
    def _zone_exists(self) -> Self:
        Cron("0 0 * * *", self.timezone)
        return self

    def crons(self) -> dict[str, Cron]:
        """The jobs that are scheduled, in the order in which they should run when due at once."""
        names = ("pull", "audit", "report", "digest", "housekeeping")
        return {name: Cron(text, self.timezone) for name in names if (text := getattr(self, name)) is not None}


class _Outlet(_Table):
    send: tuple[Digest, ...] = Field(("report", "digest"), description="which of the two goes there")
    min_savings: Decimal = Field(
        Decimal(0), ge=0, description="findings below this net saving a month are counted, not listed"
    )
    rows: int = Field(15, ge=1, le=100, description="findings listed at most")
    report_url: str | None = Field(
        None, pattern=r"^https?://", description="where readers find the full report; {run} stands for the run's id"
    )


class SmtpSettings(_Outlet):
    """[delivery.smtp]: mail."""

    host: str
    port: int = Field(587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = Field("starttls", description="none is for a relay on this machine")
    username: str | None = None
    password: SecretReference | None = None
    ca_file: Path | None = Field(None, description="certificates to trust instead of the system's")
    sender: str = Field(description="for example auditor@example.com")
    recipients: list[str] = Field(default_factory=list, description="addresses that get the whole report")
    owners: dict[str, list[str]] = Field(
        default_factory=dict, description="owner -> addresses that get the findings of this owner only"
    )
    attach: bool = Field(True, description="attach the full report")
    max_attachment_bytes: int = Field(5_000_000, ge=0, description="a larger report is not attached")
    timeout: float = Field(30.0, gt=0, le=120, description="seconds to wait for each answer of the server")

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.security == "none" and self.host not in LOOPBACK:
            raise ValueError("security none sends in the clear: it is for a relay on this machine (localhost)")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together")
        return self


class AppriseSettings(_Outlet):
    """[delivery.apprise]: Slack, Teams and the other services of apprise."""

    urls: list[SecretReference] = Field(description="references to apprise URLs, which hold a token each")


class WebhookSettings(_Outlet):
    """[delivery.webhook]: a POST of JSON with a signature."""

    url: str = Field(description="https address, or a reference to it")
    secret: SecretReference = Field(description="key of the HMAC-SHA256 signature")
    ca_file: Path | None = Field(None, description="certificates to trust instead of the system's")
    timeout: float = Field(30.0, gt=0, le=120)

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError("the address is http: wanted https, http only on this machine")
        if parts.scheme not in ("http", "https"):
            secret.check(self.url)
        return self


class FilesOutlet(_Outlet):
    """[delivery.files]: the report's files in a folder or a bucket."""

    path: str = Field(description="a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX")
    formats: list[str] = Field(default_factory=lambda: ["html", "json", "csv"])
    endpoint_url: Endpoint | None = Field(None, description=_ENDPOINT)

    @field_validator("path")
    @classmethod
    def _is_a_place(cls, path: str) -> str:
        scheme, slashes, rest = path.partition("://")
        names = rest.split("/")[: 2 if scheme == "az" else 1]
        if slashes and (scheme not in ("s3", "gs", "az") or not all(names) or (scheme, len(names)) == ("az", 1)):
            raise ValueError(f"{path} is no place: wanted {cls.model_fields['path'].description}")
        return path


class Delivery(_Table):
    """[delivery]: where reports go."""

    smtp: SmtpSettings | None = None
    apprise: AppriseSettings | None = None
    webhook: WebhookSettings | None = None
    files: FilesOutlet | None = None


class ServiceSettings(_Table):
    """[service]: `auditor serve` itself."""

    listen: str = Field("127.0.0.1:8321", description="address of /healthz, /readyz and /metrics; empty for none")
    report_dir: Path | None = Field(
        None, description="folder for the reports; by default `reports` in the data directory"
    )
    formats: list[str] = Field(
        default_factory=lambda: ["html", "json", "csv"], description="report files of each audit"
    )
    stop_seconds: int = Field(20, ge=1, le=25, description="seconds that a running audit gets to stop by itself")


class Mute(_Table):
    """[[mutes]]: findings to stay silent about; every scope given must match."""

    rule: str | None = Field(None, description="rule id; takes * and ?")
    resource: str | None = Field(None, description="resource id or name; takes * and ?")
    tag: str | None = Field(None, description="key=value, or key for any value")
    account: str | None = Field(None, description="account, project or subscription")
    author: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    until: date | None = Field(None, description="day from which the findings count again")

    @model_validator(mode="after")
    def _has_scope(self) -> Self:
        if not any((self.rule, self.resource, self.tag, self.account)):
            raise ValueError("a mute needs a rule, resource, tag or account")
        return self

    def record(self) -> MuteRecord:
        """The mute as the state knows it; its id stays while its scope does."""
        scope = "\x1f".join(part or "" for part in (self.rule, self.resource, self.tag, self.account))
        until = None if self.until is None else datetime.combine(self.until, time(), UTC)
        return MuteRecord(
            id=f"file-{sha256(scope.encode()).hexdigest()[:8]}",
            author=self.author,
            reason=self.reason,
            rule=self.rule,
            resource=self.resource,
            tag=self.tag,
            account=self.account,
            until=until,
        )


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
    limits: Limits = Limits()
    tags: Tags = Tags()
    schedule: ScheduleSettings = ScheduleSettings()
    delivery: Delivery = Delivery()
    service: ServiceSettings = ServiceSettings()
    mutes: list[Mute] = Field(default_factory=list)
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
    return _with_mute_files(parse(table, str(path)), path.parent)


class _MuteFile(_Table):
    mutes: list[Mute] = Field(default_factory=list)


def _with_mute_files(settings: Settings, folder: Path) -> Settings:
    mutes = list(settings.mutes)
    for name in settings.state.mute_files:
        path = folder / name.expanduser()
        try:
            table = tomllib.loads(path.read_text("utf-8"))
            mutes += _MuteFile.model_validate(table).mutes
        except OSError as error:
            raise SettingsError(f"mute file {path}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"mute file {path}: not valid TOML: {error}") from error
        except ValidationError as error:
            raise SettingsError("\n".join(_explain(str(path), problem) for problem in error.errors())) from error
    return settings.model_copy(update={"mutes": mutes})


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
        found = problem.get("input")
        # a wrong secret may be the secret itself; a table as a whole says nothing
        shown = "" if problem["type"] == "value_error" or isinstance(found, dict) else f", found {found!r}"
        return f"configuration {where}: {key}: {problem['msg'].removeprefix('Value error, ')}{shown}"
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
        inner = [each for each in get_args(annotation) or (annotation,) if isinstance(each, type)]
        model = next((each for each in inner if issubclass(each, BaseModel)), model)
    return list(model.model_fields)
