"""Handing a mail over, and knowing whether it was taken."""

from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from auditor.deliver import NotHandedOver, Uncertain, hand_over_mail
from tests.deliver.conftest import Certificate, Post, mail_server


def a_mail(recipient: str = "finops@example.com") -> EmailMessage:
    made = EmailMessage(policy=SMTP)
    made["From"], made["To"], made["Subject"] = "Auditor <auditor@example.com>", recipient, "Größe"
    made.set_content("hello")
    return made


def send(port: int, calls: list[str] | None = None, **how: Any) -> None:
    plain: dict[str, Any] = {"security": "none", "username": None, "password": None, "ca_file": None, "timeout": 5.0}
    plain |= {"message": a_mail(), "host": "localhost", "port": port}
    told = [] if calls is None else calls
    hand_over_mail(**{**plain, **how}, handing_over=lambda: told.append("handing over"))


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_mail_goes_out_encrypted_and_after_a_login(certificate: Certificate, security: str) -> None:
    with mail_server(certificate, security) as post:
        send(post.port, security=security, username="auditor", password="hunter2", ca_file=certificate.certificate)
    assert post.logins == [("auditor", "hunter2")]
    [mail] = post.mails
    assert mail["Subject"] == "Größe"


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_that_nobody_vouches_for_gets_neither_password_nor_mail(
    certificate: Certificate, security: str
) -> None:
    with mail_server(certificate, security) as post:
        with pytest.raises(NotHandedOver, match="certificate verify failed") as error:
            send(post.port, security=security, username="auditor", password="hunter2")
        assert not error.value.again
    assert (post.logins, post.mails) == ([], [])


def test_a_server_without_starttls_gets_nothing(post: Post) -> None:
    with pytest.raises(NotHandedOver, match="STARTTLS"):
        send(post.port, security="starttls")
    assert post.mails == []


def test_a_wrong_password_is_not_tried_again(certificate: Certificate) -> None:
    with mail_server(certificate, "starttls") as post:
        with pytest.raises(NotHandedOver, match="535") as error:
            send(post.port, security="starttls", username="auditor", password="wrong", ca_file=certificate.certificate)
        assert not error.value.again
        assert "wrong" not in str(error.value)


@pytest.mark.parametrize(("answer", "again"), [("550 no such mailbox", False), ("451 greylisted", True)])
def test_a_recipient_that_is_refused_was_not_handed_over(post: Post, answer: str, again: bool) -> None:
    post.rcpt = answer
    calls: list[str] = []
    with pytest.raises(NotHandedOver, match=answer) as error:
        send(post.port, calls)
    assert (error.value.again, calls) == (again, [])


@pytest.mark.parametrize(("answer", "again"), [("554 spam", False), ("452 disk full", True)])
def test_a_message_that_is_refused_was_not_handed_over(post: Post, answer: str, again: bool) -> None:
    post.answers = [answer]
    calls: list[str] = []
    with pytest.raises(NotHandedOver, match=answer) as error:
        send(post.port, calls)
    assert (error.value.again, calls) == (again, ["handing over"])


def test_a_server_that_is_away_is_tried_again(post: Post) -> None:
    with pytest.raises(NotHandedOver, match="refused") as error:
        send(1)
    assert error.value.again


def test_a_connection_lost_before_the_answer_leaves_it_uncertain(post: Post) -> None:
    post.answers = ["hang up"]
    with pytest.raises(Uncertain, match="before it answered"):
        send(post.port)
    assert len(post.mails) == 1


def test_nothing_goes_out_when_another_sender_took_the_slot(post: Post) -> None:
    def lost() -> None:
        raise NotHandedOver("taken over", again=False)

    with pytest.raises(NotHandedOver, match="taken over"):
        hand_over_mail(
            a_mail(),
            host="localhost",
            port=post.port,
            security="none",
            username=None,
            password=None,
            ca_file=None,
            timeout=5,
            handing_over=lost,
        )
    assert post.mails == []


def test_a_missing_certificate_file_is_a_failure_with_its_reason(post: Post, tmp_path: Path) -> None:
    with pytest.raises(NotHandedOver, match="No such file"):
        send(post.port, security="starttls", ca_file=tmp_path / "missing.pem")
