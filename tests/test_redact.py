"""Secrets are removed from text wherever they come from."""

import json
import re

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
        ("mysql://root:p@ss/w@db/mlmd, next", "mysql://***@db/mlmd, next"),
        (
            "https://ghp_abc@github.com/x abfss://container@account/x",
            "https://***@github.com/x abfss://container@account/x",
        ),
        ("<td>s3://a:b</td><td>c@d</td>", "<td>s3://a:b</td><td>c@d</td>"),
        ("--db_password='two words' --n=1", "--db_password=*** --n=1"),
        ("['--db_password=two words', '--n=1']", "['--db_password=***', '--n=1']"),
        ("AccountName=x;AccountKey=QUJD==;n=1", "AccountName=x;AccountKey=***;n=1"),
        ('{"password": "a\\"b", "n": "1"}', '{"password": "***", "n": "1"}'),
        ("{&quot;api-key&quot;: &quot;abc&quot;}", "{&quot;api-key&quot;: &quot;***&quot;}"),
        ("Authorization: Bearer abc.def\nHost: x", "Authorization: ***\nHost: x"),
        ("{'Authorization': 'Basic abc', 'n': '1'}", "{'Authorization': '***', 'n': '1'}"),
        ("max_tokens=5, 'tokenizer': 'words', password=''", "max_tokens=5, 'tokenizer': 'words', password=''"),
        ("notify.webhook=https://h/T/B?a=1&b=x;y,z --n=1", "notify.webhook=*** --n=1"),
        ("'webhook': 'https://h/T/B?a=1&b=2', 'n': 1", "'webhook': '***', 'n': 1"),
        ("notify.webhook_file=/etc/hook", "notify.webhook_file=/etc/hook"),
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
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", __file__)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "enabled")
    monkeypatch.setattr("sys.argv", ["penstock", "run", "--", "--hdfs_password", "hidden1", "--azure_token=hidden2"])
    monkeypatch.setenv("PENSTOCK_NOTIFY_WEBHOOK", "https://h/hidden?a=1&b=hidden")
    assert redact("POST https://h/hidden?a=1&b=hidden") == "POST ***"
    text = f"<abc&def> &lt;abc&amp;def&gt; %3Cabc%26def%3E on {__file__} enabled hidden1 hidden2"

    assert redact(text) == f"*** *** *** on {__file__} enabled *** ***"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("AWS_SECRET_ACCESS_KEY", "/hidden/hidden", "/hidden/hidden"),
        ("MYSQL_PWD", "hidden", "hidden"),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=x;AccountKey=hidden==", "hidden=="),
        ("DATABASE_URL", "postgres://user:hid%40den@host/x", "hid%40den hid@den"),
        ("A_PRIVATE_KEY", "BEGIN KEY\nhidden\nEND KEY", "hidden\n"),
        ("A_PRIVATE_KEY", "BEGIN KEY\nhidden\nEND KEY", repr("BEGIN KEY\nhidden\nEND KEY")),
        ("A_PASSWORD", "hid\\den", repr("hid\\den")),
        ("A_PASSWORD", 'hid"den', json.dumps('hid"den')),
        ("A_PASSWORD", "hidd/en", "hidd%2Fen"),
    ],
)
def test_a_secret_is_found_in_every_spelling(name: str, value: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: part of a connection string or a URI, a line, with escapes of Python and JSON."""
    monkeypatch.setenv(name, value)

    assert re.sub(r"[*\s'\"]", "", redact(text)) == ""


def test_a_long_text_is_redacted_in_linear_time() -> None:
    """D6: 100 kB without blanks, of every character that a pattern repeats; a quadratic search would take minutes."""
    for unit in ("a", "-", "-token", "://a:", "?a", "&token", "password='", "webhook=http://"):
        assert len(redact(unit * (100_000 // len(unit)))) > 0


@pytest.mark.parametrize(
    "uri",
    [
        "s3://user:hidden@bucket/x",
        "s3://user:hidden/x@bucket/x",
        "gs://bucket/x?token=hidden",
        "https://hidden@host/x",
    ],
)
def test_a_data_uri_with_a_secret_is_rejected(uri: str) -> None:
    """D5: it would be stored in the metadata. The message does not repeat it."""
    with pytest.raises(SettingsError, match=r"\*\*\*.*: the URI contains a password or a token") as caught:
        data_path(uri)
    assert "hidden" not in str(caught.value)
