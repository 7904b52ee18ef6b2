"""`auditor permissions`: what a collector must be allowed, ready to paste."""

from enum import StrEnum
from typing import Annotated

import typer


class Cloud(StrEnum):
    aws = "aws"
    gcp = "gcp"
    azure = "azure"


def permissions(
    cloud: Annotated[Cloud, typer.Argument(help="aws: an IAM policy; gcp and azure: a custom role.")],
) -> None:
    """Print the least-privilege policy of a cloud's collector, made from the calls it makes; none of them writes."""
    from auditor.collect import policy

    typer.echo(policy(cloud.value).rstrip("\n"))
