"""List prices of the accelerator machines that the inventory shows, from AWS's Price List."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

from auditor.collect.aws import inventory
from auditor.collect.aws.access import Account
from auditor.collect.aws.series import is_accelerated
from auditor.collect.aws.words import explain
from auditor.collect.work import Collection, Task

_DAYS = 7  # list prices change a few times a year


def collect(collection: Collection, start: Account, places: Sequence[tuple[Account, list[str]]]) -> None:
    """One question for each machine type and Region; an answer is good for a week."""
    wanted = sorted(
        {pair for account, regions in places for region in regions for pair in _types(collection, account, region)}
    )
    collection.each((_task(collection, start, region, kind) for region, kind in wanted), explain)


def _types(collection: Collection, account: Account, region: str) -> Iterator[tuple[str, str]]:
    groups = inventory.read(collection, account, region, "ec2-describe-instances", "Reservations")
    machines = [one.get("InstanceType") for group in groups for one in group.get("Instances") or ()]
    reserved = inventory.read(collection, account, region, "ec2-describe-capacity-reservations", "CapacityReservations")
    for kind in {*machines, *(one.get("InstanceType") for one in reserved)}:
        if is_accelerated(kind):
            yield region, str(kind)


def _task(collection: Collection, start: Account, region: str, kind: str) -> Task:
    run = partial(_ask, collection, start, region, kind)
    return Task(
        "prices", "pricing:GetProducts", "today's list prices; those of the bill and of the shipped table are used", run
    )


def _ask(collection: Collection, start: Account, region: str, kind: str) -> None:
    name = f"prices/{region}/{kind}.json"
    mark = f"prices/{region}/{kind}"
    today = collection.now.date()
    asked = collection.folder.mark(mark)
    if name in collection.folder.entries and asked and asked > (today - timedelta(days=_DAYS)).isoformat():
        return
    filters = {
        "regionCode": region,
        "instanceType": kind,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    products: list[str] = []
    for page in start.pages(
        "pricing:GetProducts",
        start.home,
        ServiceCode="AmazonEC2",
        FormatVersion="aws_v1",
        Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()],
    ):
        products += page.get("PriceList") or []
    document = {"FormatVersion": "aws_v1", "PriceList": products}
    collection.folder.write_json(name, document, kind="prices", now=collection.now, region=region)
    collection.folder.set_mark(mark, today.isoformat())
