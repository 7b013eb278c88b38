"""The URI of a metadata server: parsed strictly; its password is in no text."""

import pytest

from components.errors import SettingsError
from pipelines.config import metadata_server
from pipelines.config.metadata_server import Server


@pytest.fixture(autouse=True)
def _no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (metadata_server.VARIABLE, metadata_server.PASSWORD):
        monkeypatch.delenv(name, raising=False)


def test_a_uri_with_all_parts() -> None:
    """Escaped characters of user and password are decoded; the text of the server has no password."""
    server = metadata_server.parse("mysql://team%40x:p%2Fw-9@db.example:3307/penstock")

    assert (server.host, server.port, server.user, server.database) == ("db.example", 3307, "team@x", "penstock")
    assert server.password == "p/w-9"  # noqa: S105
    assert str(server) == "mysql://team@x@db.example:3307/penstock"
    assert "p/w-9" not in repr(server)
    assert server.connection().mysql.password == "p/w-9"  # noqa: S105


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual port, and the password of the environment."""
    monkeypatch.setenv(metadata_server.PASSWORD, "from the environment")
    found = metadata_server.parse("mysql://u@h/d")

    assert (found.port, found.password) == (3306, "from the environment")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgresql_is_refused(scheme: str) -> None:
    """tests/e2e/test_metadata_server.py shows why."""
    with pytest.raises(SettingsError, match="cannot store a text with a backslash in PostgreSQL"):
        metadata_server.parse(f"{scheme}://u@h/d")


@pytest.mark.parametrize(
    "text", ["sqlite:///x.db", "mysql://h/d", "mysql://u@h", "mysql://u@h/a/b", "mysql://u@h:x/d", "mysql://u@h/d?x=1"]
)
def test_what_is_no_server(text: str) -> None:
    """The message says what is expected."""
    with pytest.raises(SettingsError, match="expected mysql://"):
        metadata_server.parse(text)


def test_a_message_hides_the_password() -> None:
    """Of a URI that is wrong otherwise."""
    with pytest.raises(SettingsError) as error:
        metadata_server.parse("mysql://u:secret-word@h")
    assert "secret-word" not in str(error.value)


def test_the_flag_wins_over_environment_and_settings_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order; without any of them the metadata is a SQLite file."""
    assert metadata_server.choose(None, None) is None
    assert str(metadata_server.choose(None, "mysql://u@file/d")) == "mysql://u@file:3306/d"
    monkeypatch.setenv(metadata_server.VARIABLE, "mysql://u@variable/d")
    assert str(metadata_server.choose(None, "mysql://u@file/d")) == "mysql://u@variable:3306/d"
    assert str(metadata_server.choose("mysql://u@flag/d", "mysql://u@file/d")) == "mysql://u@flag:3306/d"


def test_a_password_in_the_settings_file_is_refused() -> None:
    """Files are committed and copied; the message names the variable, not the password."""
    with pytest.raises(SettingsError, match=metadata_server.PASSWORD) as error:
        metadata_server.choose(None, "mysql://u:secret-word@h/d")
    assert "secret-word" not in str(error.value)


def test_a_password_does_not_make_another_server() -> None:
    """Two runs of a user are equal."""
    assert Server("h", 3306, "ann", "d", password="x") == metadata_server.parse("mysql://ann@h/d")  # noqa: S106
