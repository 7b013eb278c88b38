"""Secrets are removed from text wherever they come from."""

import pytest

from components.errors import SettingsError
from components.redact import redact
from components.storage.paths import data_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://user:pass@bucket/x and more", "s3://***@bucket/x and more"),
        ("read https://host/a?token=abc&n=1 now", "read https://host/a?token=***&n=1 now"),
        ("['--s3_secret_access_key=abc', '--n=1']", "['--s3_secret_access_key=***', '--n=1']"),
        ("mysql://root:p%40ss@db:3306/mlmd", "mysql://***@db:3306/mlmd"),
        ("12:30@noon, tokens=5, http://host:80/a@b", "12:30@noon, tokens=5, http://host:80/a@b"),
    ],
)
def test_secrets_are_found_by_their_form(text: str, expected: str) -> None:
    """D5: a password in a URI, a token in a query, the value of a flag; other text stays."""
    assert redact(text) == expected


def test_secrets_are_found_by_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: those of the environment and of flags, also as HTML and in a URI; paths and short values are no secrets."""
    monkeypatch.setenv("MY_API_KEY", "<abc&def>")
    monkeypatch.setenv("SOME_PASSWORD", "on")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/etc/key.json")
    monkeypatch.setattr("sys.argv", ["penstock", "run", "--", "--hdfs_password", "hidden1", "--azure_token=hidden2"])
    text = "<abc&def> &lt;abc&amp;def&gt; %3Cabc%26def%3E on /etc/key.json hidden1 hidden2"

    assert redact(text) == "*** *** *** on /etc/key.json *** ***"


@pytest.mark.parametrize("uri", ["s3://user:hidden@bucket/x", "gs://bucket/x?token=hidden"])
def test_a_data_uri_with_a_secret_is_rejected(uri: str) -> None:
    """D5: it would be stored in the metadata. The message does not repeat it."""
    with pytest.raises(SettingsError, match=r"\*\*\*.*: the URI contains a password or a token") as caught:
        data_path(uri)
    assert "hidden" not in str(caught.value)
