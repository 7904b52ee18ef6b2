"""Retail prices of accelerator machines: public, free of charge, asked for without a token."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from azure.core.rest import HttpRequest

from auditor.collect.azure.calls import CALLS
from auditor.collect.azure.clients import Azure, explain
from auditor.collect.work import Collection, Task
from auditor.errors import SourceError

# Every size with accelerators is of the N series.
_FILTER = "serviceName eq 'Virtual Machines' and armRegionName eq '{region}' and contains(armSkuName, 'Standard_N')"


def collect(azure: Azure, regions: set[str], c: Collection) -> None:
    c.each(
        (
            Task(
                "prices",
                "retailprices:list",
                f"list prices of accelerator machines in {region}",
                partial(_region, azure, region, c),
                None,
                region,
            )
            for region in sorted(regions - {"global"})
            if c.folder.mark(f"prices {region}") != f"{c.now:%Y-%m}"
        ),
        explain,
    )


def _region(azure: Azure, region: str, c: Collection) -> None:
    """Every page; asked for once a month, as prices change on its first day."""
    call = CALLS["retailprices:list"]
    client = azure.prices()
    request = HttpRequest(
        "GET", call.path, params={"api-version": str(call.version), "$filter": _FILTER.format(region=region)}
    )
    request.url = client.format_url(request.url)
    origin = urlsplit(request.url)[:2]
    names: list[str] = []
    while True:
        with azure.asking("retailprices:list", region):
            answer = client.send_request(request)
            answer.raise_for_status()
        page: dict[str, Any] = answer.json()
        azure.came("retailprices:list", len(answer.content))
        name = f"prices/{region}/retail-{len(names) + 1:04d}.json"
        names.append(name)
        c.folder.write(name, answer.content, kind="prices", now=c.now, region=region)
        link = page.get("NextPageLink")
        if not link:
            break
        if urlsplit(link)[1].removesuffix(":443") != origin[1]:
            raise SourceError(f"the next page is said to lie at {urlsplit(link).netloc}, which is not asked")
        request = HttpRequest("GET", link)
    c.folder.drop(name for name in c.folder.entries if name.startswith(f"prices/{region}/") and name not in names)
    c.folder.set_mark(f"prices {region}", f"{c.now:%Y-%m}")
