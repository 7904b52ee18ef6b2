"""Remedies filled with a row's ids: whole words in the shell, whole strings in Terraform."""

import re
from decimal import Decimal
from typing import Any

import hcl2
import pytest

from auditor.detect.remedies import filled
from auditor.detect.rule import RemedyText, RemedyVariant

TEMPLATE = """\
# terraform state list -id={resource_short_id}
resource "aws_ebs_volume" "{resource_label}" {
  name   = {resource_name}
  path   = "of {resource_name}{zone}/{missing}"
  iops   = {iops}
  tables = {route_table_ids}
  owner  = {nobody}
}"""


def terraform(template: str = TEMPLATE, **row: Any) -> str:
    known = {"provider": "aws", "ResourceId": "arn:aws:ec2:us-east-1:111122223333:volume/vol-1", **row}
    return filled(RemedyText("s", (), "r", "e", template), known).terraform


def parsed(text: str) -> Any:
    (resource,) = hcl2.loads(text + "\n")["resource"]
    ((_, labels),) = resource.items()
    ((label, body),) = ((name, body) for name, body in labels.items() if name != "__is_block__")
    return label, body


def test_values_become_strings_numbers_and_lists() -> None:
    label, body = parsed(terraform(ResourceName="data", iops=Decimal("3000.000"), route_table_ids=["rtb-1", "rtb-2"]))
    assert label == '"vol-1"'
    assert (body["name"], body["path"]) == ('"data"', '"of data<zone>/<missing>"')
    assert (body["iops"], body["tables"], body["owner"]) == (3000, ['"rtb-1"', '"rtb-2"'], '"<nobody>"')


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("${file('/etc/passwd')}", r"$${file('/etc/passwd')}"),
        ("%{ if true }", "%%{ if true }"),
        ('end"\n}\nresource "x" "y" {', r"end\"\n}\nresource \"x\" \"y\" {"),
        ("back\\", r"back\\"),
        ("a\u202eb\x00", r"a\u202eb\u0000"),
    ],
)
def test_a_hostile_name_stays_inside_its_string(name: str, written: str) -> None:
    text = terraform(ResourceName=name)
    assert f'  name   = "{written}"' in text.splitlines()
    _, body = parsed(text)
    assert body["owner"] == '"<nobody>"'


def test_two_values_side_by_side_begin_no_template() -> None:
    assert 'path   = "of $${x}/<missing>"' in terraform(ResourceName="$", zone="{x}")


def test_a_hostile_id_makes_neither_a_label_nor_a_second_line_of_a_comment() -> None:
    text = terraform(ResourceId="9\nvol $(rm)\u2028x")
    assert text.splitlines()[0] == "# terraform state list -id='9 vol $(rm) x'"
    label, _ = parsed(text)
    assert re.fullmatch(r'"[A-Za-z][A-Za-z0-9_-]*"', label)


def test_a_resource_of_another_kind_gets_the_remedy_of_its_kind() -> None:
    elastic = RemedyText("Delete the mount targets", ("efs {resource_short_id}",), "r", "e")
    lustre = RemedyText(
        "Delete it",
        ("fsx {resource_short_id}",),
        "r",
        "e",
        "# fsx",
        (RemedyVariant(re.compile("elasticfilesystem"), "resource_id", elastic),),
    )
    service = "arn:aws:{}:us-east-1:111122223333:file-system/fs-1"
    fsx, efs = (
        filled(lustre, {"provider": "aws", "ResourceId": service.format(name)}) for name in ("fsx", "elasticfilesystem")
    )
    assert (fsx.commands, fsx.terraform) == (("fsx fs-1",), "# fsx")
    assert (efs.summary, efs.commands, efs.terraform) == ("Delete the mount targets", ("efs fs-1",), "")


def test_an_azure_id_is_spelled_as_its_provider_demands() -> None:
    path = "/subscriptions/aaaa/resourcegroups/disks/providers/microsoft.compute/disks/volumes"
    text = terraform("# {resource_id}\na = {resource_id}", provider="azure", ResourceId=path)
    spelled = "/subscriptions/aaaa/resourceGroups/disks/providers/Microsoft.Compute/disks/volumes"
    assert text == f'# {spelled}\na = "{spelled}"'
