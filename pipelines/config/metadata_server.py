"""The database of a team's metadata: a MySQL or MariaDB server, named by a URI.

    mysql://user@host:3306/database    --metadata, PENSTOCK_METADATA, or `metadata` in the settings file
    the password                       PENSTOCK_METADATA_PASSWORD, or in the URI of the first two

The password is in no text that a Server returns: MLMD's connection is the only thing that receives it.
PostgreSQL is refused: ML Metadata 1.16 connects to it, but cannot store a text with a backslash (ADR 35).
"""

import os
import socket
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.errors import SettingsError
from components.redact import redact

VARIABLE = "PENSTOCK_METADATA"
PASSWORD = "PENSTOCK_METADATA_PASSWORD"  # noqa: S105 - the variable's name
_PORT = 3306
_PATIENCE = 5.0  # seconds for a server to accept a connection
_TRIES = 30  # of MLMD, 2 s apart on average, while others write: its own five give a database up after 6 s
_EXPECTED = "expected mysql://user@host/database"


@dataclass(frozen=True)
class Server:
    """A database on a server."""

    host: str
    port: int
    user: str
    database: str
    socket: str = ""  # path of a Unix socket
    password: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        """Returns its URI without the password."""
        way = f"?socket={self.socket}" if self.socket else ""
        return f"mysql://{self.user}@{self.host}:{self.port}/{self.database}{way}"

    def answers(self) -> bool:
        """Whether a server accepts connections there."""
        try:
            if self.socket:
                with socket.socket(socket.AF_UNIX) as connected:
                    connected.connect(self.socket)
            else:
                socket.create_connection((self.host, self.port), _PATIENCE).close()
        except OSError:
            return False
        return True

    def connection(self) -> Any:
        """Returns MLMD's configuration of a connection."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        where = {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
        mysql = pb.MySQLDatabaseConfig(**where, database=self.database, user=self.user, password=self.password)
        return pb.ConnectionConfig(mysql=mysql, retry_options=pb.RetryOptions(max_num_retries=_TRIES))


def connection(metadata: Path | Server, *, read_only: bool = False) -> Any:
    """Returns MLMD's configuration of a connection to a database: a SQLite file, or one on a server."""
    from ml_metadata.proto import metadata_store_pb2 as pb

    if isinstance(metadata, Server):
        return metadata.connection()
    mode = pb.SqliteMetadataSourceConfig.READONLY if read_only else pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    sqlite = pb.SqliteMetadataSourceConfig(filename_uri=str(metadata), connection_mode=mode)
    return pb.ConnectionConfig(sqlite=sqlite, retry_options=pb.RetryOptions(max_num_retries=_TRIES))


def choose(flag: str | None, setting: str | None) -> Server | None:
    """Returns the server that a flag, the environment or the settings file names, in this order; None for SQLite."""
    if text := flag or os.environ.get(VARIABLE):
        return parse(text)
    if not setting:
        return None
    server = parse(setting)
    if urllib.parse.urlsplit(setting).password:
        raise SettingsError(
            f"setting metadata = {server}: the URI in the settings file contains a password; remove it there, and set "
            f"the environment variable {PASSWORD}"
        )
    return server


def parse(text: str) -> Server:
    """Returns the server that a URI names; raises SettingsError for anything else."""
    shown = redact(text)
    try:
        found = urllib.parse.urlsplit(text)
        port = found.port
    except ValueError:
        raise SettingsError(f"metadata {shown!r}: not a URI; {_EXPECTED}") from None
    scheme, database = found.scheme.lower(), urllib.parse.unquote(found.path.strip("/"))
    if scheme in ("postgresql", "postgres"):
        raise SettingsError(
            f"metadata {shown!r}: ML Metadata 1.16 cannot store a text with a backslash in PostgreSQL, and TFX writes "
            f"one for most nodes; {_EXPECTED}, on a MySQL or MariaDB server"
        )
    if scheme != "mysql" or not found.hostname or not found.username or not database or "/" in database:
        raise SettingsError(f"metadata {shown!r}: {_EXPECTED}")
    query = dict(urllib.parse.parse_qsl(found.query))
    unix_socket = query.pop("socket", "")
    if query or found.fragment or "\0" in text:
        raise SettingsError(f"metadata {shown!r}: unknown options; {_EXPECTED}")
    return Server(
        host=found.hostname,
        port=port or _PORT,
        user=urllib.parse.unquote(found.username),
        database=database,
        socket=unix_socket,
        password=urllib.parse.unquote(found.password or "") or os.environ.get(PASSWORD, ""),
    )
