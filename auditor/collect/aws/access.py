"""Sessions of AWS accounts: the SDK's own credential chain, roles assumed from it, and calls that are counted."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.credentials import RefreshableCredentials

from auditor import secret
from auditor.collect.aws.calls import CALLS
from auditor.collect.budget import Budget
from auditor.errors import SettingsError, SourceError
from auditor.settings import AwsSource

log = logging.getLogger(__name__)

_CLIENTS = 64  # kept at once: an organisation of a hundred accounts in twenty Regions has thousands
_HOME = {"aws-cn": "cn-northwest-1", "aws-us-gov": "us-gov-west-1"}
_SETTINGS = Config(
    # The SDK's own backoff, which also slows down before the service refuses; it honours x-amz-retry-after.
    retries={"mode": "adaptive", "total_max_attempts": 8},
    connect_timeout=10,
    read_timeout=60,
    max_pool_connections=64,
    user_agent_extra="auditor",
)


class CallFailed(Exception):
    """A call that AWS refused or that never reached it; the SDK's own exception is the cause."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"{name}: {error}")
        self.name = name
        self.error = error


class Clients:
    """The clients in use. Creating one is not safe for threads, and keeping all is a matter of gigabytes."""

    def __init__(self, endpoint_url: str | None) -> None:
        self.endpoint_url = endpoint_url
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, str, str], Any] = OrderedDict()

    def get(self, session: Any, service: str, region: str) -> Any:
        key = (id(session), service, region)
        with self._lock:
            client = self._kept.pop(key, None)
            if client is None:
                # An emulator knows buckets by path, not by host name.
                plain = Config(s3={"addressing_style": "path"}) if self.endpoint_url else Config()
                client = session.create_client(
                    service, region_name=region, endpoint_url=self.endpoint_url, config=_SETTINGS.merge(plain)
                )
            self._kept[key] = client
            while len(self._kept) > _CLIENTS:
                self._kept.popitem(last=False)
            return client


@dataclass(frozen=True)
class Account:
    """An account as it can be looked into; `home` is the Region of the services that have one for the whole partition."""

    session: Any
    clients: Clients
    budget: Budget
    account_id: str
    partition: str
    region: str
    home: str

    def has(self, name: str, region: str) -> bool:
        """Whether the service exists in a Region; of a Region newer than the SDK nothing is known, so it is asked."""
        known = self.session.get_available_regions("ec2", self.partition)
        return region not in known or region in self.session.get_available_regions(CALLS[name].service, self.partition)

    def call(self, name: str, region: str | None = None, **arguments: Any) -> dict[str, Any]:
        """One call of the table, booked before it is made. Raises CallFailed, BudgetReached."""
        call = CALLS[name]
        money = arguments.pop("_money", call.money)
        self.budget.spend(name, money=money, bytes_=arguments.pop("_bytes", 0))
        try:
            client = self.clients.get(self.session, call.service, region or self.region)
            answer: dict[str, Any] = getattr(client, call.method)(**arguments)
        except Exception as error:  # the SDK's exceptions have no root of their own
            raise CallFailed(name, error) from error
        answer.pop("ResponseMetadata", None)
        return answer

    def pages(self, name: str, region: str | None = None, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Every page of an answer, each asked for at its largest."""
        call = CALLS[name]
        mark: str | None = None
        while True:
            more = {call.token[0]: mark} if call.token and mark else {}
            answer = self.call(name, region, **{**call.size, **arguments, **more})
            following = answer.get(call.token[1]) if call.token else None
            yield answer
            if not following:
                return
            if following == mark:
                raise SourceError(f"{name} gives the same page mark again and again; what came so far is not complete")
            mark = following


@lru_cache(maxsize=4096)
def _moment(value: Any) -> str:
    """A time as the service wrote it, numbers of seconds as RFC 3339: a million of them need no datetime objects."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    return str(value)


@lru_cache(maxsize=1)
def _models() -> Any:
    """The descriptions of the services, megabytes of JSON: read once for all sessions."""
    return botocore.session.Session().get_component("data_loader")


def new_session(profile: str | None) -> Any:
    """A session of the SDK with its own credential chain; times stay as the services write them."""
    session = botocore.session.Session(profile=profile)
    session.register_component("data_loader", _models())
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_moment)
    return session


def base(source: AwsSource, budget: Budget) -> Account:
    """The account of the chain's own credentials. Raises CallFailed where there are none or they are refused."""
    clients = Clients(source.endpoint_url)
    return identified(new_session(source.profile), clients, budget)


def identified(session: Any, clients: Clients, budget: Budget) -> Account:
    """The account that a session's credentials are of."""
    try:
        region = session.get_config_variable("region") or "us-east-1"
    except Exception as error:  # a profile that does not exist
        raise CallFailed("sts:GetCallerIdentity", error) from error
    unknown = Account(session, clients, budget, "", "aws", region, region)
    who = unknown.call("sts:GetCallerIdentity")
    partition = who["Arn"].split(":")[1]
    return Account(session, clients, budget, who["Account"], partition, region, _HOME.get(partition, "us-east-1"))


def assumed(start: Account, arn: str, external_id: str | None) -> Account:
    """An account behind a role. The role is assumed at once, and again before its hour ends."""
    parts = arn.split(":")
    if len(parts) < 6 or not parts[5].startswith("role/"):
        raise SettingsError(f"{arn!r} is no ARN of a role: wanted arn:aws:iam::ACCOUNT:role/NAME")

    def refresh() -> dict[str, str]:
        more = {"ExternalId": external_id} if external_id else {}
        answer = start.call("sts:AssumeRole", RoleArn=arn, RoleSessionName="auditor", **more)["Credentials"]
        return {
            "access_key": answer["AccessKeyId"],
            "secret_key": answer["SecretAccessKey"],
            "token": answer["SessionToken"],
            "expiry_time": answer["Expiration"],
        }

    session = new_session(None)
    session._credentials = RefreshableCredentials.create_from_metadata(refresh(), refresh, "sts-assume-role")
    return Account(session, start.clients, start.budget, parts[4], parts[1], start.region, start.home)


def roles(source: AwsSource, start: Account) -> list[str | None]:
    """The roles to assume, one an account; null stands for the account of the credentials themselves.

    Raises CallFailed where the organisation cannot be asked.
    """
    found: list[str | None] = list(source.roles)
    if source.organization:
        for page in start.pages("organizations:ListAccounts", start.home):
            for account in page["Accounts"]:
                # Accounts that were closed have no sessions; the newer field tells more states than the older.
                if (account.get("State") or account.get("Status")) != "ACTIVE":
                    continue
                itself = account["Id"] == start.account_id
                name = source.organization.removeprefix("role/")
                found.append(None if itself else f"arn:{start.partition}:iam::{account['Id']}:role/{name}")
    return list(dict.fromkeys(found)) or [None]


def external_id(source: AwsSource) -> str | None:
    return secret.resolve(source.external_id) if source.external_id else None
