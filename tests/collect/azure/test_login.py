"""What becomes of a read where nobody is logged in."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("azure.storage.blob")

from azure.core.exceptions import ClientAuthenticationError

from auditor.collect.azure.clients import Azure
from auditor.collect.budget import Budget
from auditor.settings import Limits


class NoLogin:
    """A chain of credentials in which none has anything."""

    def __init__(self) -> None:
        self.asked = 0

    def get_token(self, *scopes: str, **more: Any) -> Any:
        self.asked += 1
        raise ClientAuthenticationError("no login was found")


def test_a_missing_login_is_told_at_once_and_not_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    login = NoLogin()
    monkeypatch.setattr(Azure, "credential", login)
    with pytest.raises(ClientAuthenticationError, match="no login was found"):
        next(iter(Azure(Budget(Limits())).container("acmelogs", "exports").list_blobs()))
    assert login.asked == 1
