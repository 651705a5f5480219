"""The block ``notifications``: what organizations' channels may reach."""

import pytest

from monitor.config import Notifications, Smtp, load


def test_without_a_word_nothing_private_is_reached_and_nothing_is_mailed(written):
    assert load(written(), {}).notifications == Notifications(
        allow_private_targets=False, apprise=False, smtp=Smtp(host=None, port=587, starttls=True)
    )


def test_a_mail_server_is_read_and_its_password_never_printed(written, tmp_path):
    (tmp_path / "password").write_text("hunter2 too\n")
    path = written(
        "notifications:\n  allow_private_targets: true\n  apprise: 'true'\n  smtp:\n    host: mail.example.com\n"
        "    port: 2525\n    username: monitor\n    password_file: password\n    from: alerts@example.com\n"
    )

    notifications = load(path, {}).notifications

    assert notifications == Notifications(
        allow_private_targets=True,
        apprise=True,
        smtp=Smtp("mail.example.com", 2525, "monitor", "hunter2 too", "alerts@example.com"),
    )
    assert "hunter2" not in repr(notifications)
    assert "hunter2" not in repr(notifications.smtp.__rich_repr__())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("notifications: {apprise: yes}", '1: notifications.apprise: expected true or false, found "yes"'),
        ("notifications: {apprise: 1}", '1: notifications.apprise: expected true or false, found "1"'),
        ("notifications: {smtp: {host: mail}}", "1: notifications.smtp: host needs from"),
        (
            "notifications: {smtp: {host: 'mail:25', from: a@b}}",
            "1: notifications.smtp.host: expected a host name or address, without port",
        ),
        (
            "notifications: {smtp: {host: mail, from: nobody}}",
            "1: notifications.smtp.from: expected an e-mail address such as monitor@example.com,"
            ' found "nobody"',
        ),
        (
            "notifications: {smtp: {host: mail, from: a@b, username: a}}",
            "1: notifications.smtp: username and password need each other",
        ),
        (
            "notifications: {smtp: {host: mail, from: a@b, username: a, password: b, starttls: false}}",
            "1: notifications.smtp: a password is sent with starttls only",
        ),
        (
            "notifications: {smtp: {port: 70000}}",
            '1: notifications.smtp.port: expected an integer from 1 to 65535, found "70000"',
        ),
        (
            "notifications: {smtps: {}}",
            '1: notifications.smtps: unknown key, did you mean "smtp"?',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(refused, text, problem):
    assert refused(text) == [problem]
