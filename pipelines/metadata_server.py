"""The database of a team's metadata: a MySQL or PostgreSQL server, named by a URI.

    mysql://user@host:3306/database             --metadata, PENSTOCK_METADATA, or `metadata` in the settings file
    postgresql://user@host:5432/database        the password: PENSTOCK_METADATA_PASSWORD, or in the URI of the first two

The password is in no text that a Server returns: MLMD's connection is the only thing that receives it.
"""

import os
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.errors import SettingsError
from components.redact import redact

VARIABLE = "PENSTOCK_METADATA"
PASSWORD = "PENSTOCK_METADATA_PASSWORD"  # noqa: S105 - the variable's name
_PORTS = {"mysql": 3306, "postgresql": 5432}
_EXPECTED = "expected mysql://user@host/database or postgresql://user@host/database"


@dataclass(frozen=True)
class Server:
    """A database on a server."""

    kind: str  # "mysql" or "postgresql"
    host: str
    port: int
    user: str
    database: str
    socket: str = ""  # path of a Unix socket, of MySQL
    password: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        """Returns its URI without the password."""
        socket = f"?socket={self.socket}" if self.socket else ""
        return f"{self.kind}://{self.user}@{self.host}:{self.port}/{self.database}{socket}"

    @property
    def identity(self) -> str:
        """What two users of the same database have in common."""
        return f"{self.kind}://{self.host}:{self.port}/{self.database}"

    def connection(self) -> Any:
        """Returns MLMD's configuration of a connection."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        if self.kind == "mysql":
            where = {"socket": self.socket} if self.socket else {"host": self.host, "port": self.port}
            return pb.ConnectionConfig(
                mysql=pb.MySQLDatabaseConfig(**where, database=self.database, user=self.user, password=self.password)
            )
        return pb.ConnectionConfig(
            postgresql=pb.PostgreSQLDatabaseConfig(
                host=self.host,
                port=str(self.port),
                user=self.user,
                password=self.password,
                dbname=self.database,
                skip_db_creation=True,  # MLMD would connect to a database of the user's name to create it
            )
        )


def connection(metadata: Path | Server, *, read_only: bool = False) -> Any:
    """Returns MLMD's configuration of a connection to a database: a SQLite file, or one on a server."""
    from ml_metadata.proto import metadata_store_pb2 as pb

    if isinstance(metadata, Server):
        return metadata.connection()
    mode = pb.SqliteMetadataSourceConfig.READONLY if read_only else pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    return pb.ConnectionConfig(sqlite=pb.SqliteMetadataSourceConfig(filename_uri=str(metadata), connection_mode=mode))


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
    kind, database = found.scheme.lower(), urllib.parse.unquote(found.path.strip("/"))
    kind = "postgresql" if kind == "postgres" else kind
    if kind not in _PORTS or not found.hostname or not found.username or not database or "/" in database:
        raise SettingsError(f"metadata {shown!r}: {_EXPECTED}")
    query = dict(urllib.parse.parse_qsl(found.query))
    socket = query.pop("socket", "") if kind == "mysql" else ""
    if query or found.fragment or "\0" in text:
        raise SettingsError(f"metadata {shown!r}: unknown options; {_EXPECTED}")
    return Server(
        kind=kind,
        host=found.hostname,
        port=port or _PORTS[kind],
        user=urllib.parse.unquote(found.username),
        database=database,
        socket=socket,
        password=urllib.parse.unquote(found.password or "") or os.environ.get(PASSWORD, ""),
    )
