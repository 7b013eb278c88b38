"""Where an artifact is: a folder on this machine, or one on an object store."""

from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from components import redact
from components.errors import BadInput, PenstockError, SettingsError, causes
from components.storage.objects import ObjectPath

Location: TypeAlias = Path | ObjectPath
REMOTE_URI = "remote_uri"  # property of an artifact that a node reads from a local copy
SCHEMES = ("s3://", "gs://")


def is_object_uri(text: str) -> bool:
    """Whether a text is the URI of an object or folder on a store."""
    return text.startswith(SCHEMES)


def location(text: str) -> Location:
    """Returns the path that a path or URI of an artifact names."""
    return ObjectPath(text.rstrip("/")) if is_object_uri(text) else Path(text)


def unreachable(error: BaseException) -> BadInput | None:
    """Returns the explanation of an error that an object store caused; None for other errors."""
    for each in takewhile(lambda cause: not isinstance(cause, PenstockError), causes(error)):
        # Of the errors that caused it, as Beam wraps those of its workers, only that the store was away.
        if isinstance(each, OSError if each is error else TimeoutError) and is_object_uri(str(each.filename)):
            return BadInput(f"{each.filename}: {each.strerror}")
    return None


def object_folder(what: str, text: str) -> ObjectPath:
    """Returns the folder on a store that a user names; raises SettingsError if the URI cannot be one.

    Args:
        what: what the user names it for, for messages.
        text: the URI.
    """
    if redact.has_credentials(text):
        raise SettingsError(
            f"{what} {redact.redact(text)}: the URI contains a password or a token, which would be stored in the "
            "metadata; pass credentials by environment variables"
        )
    scheme, _, rest = text.partition("://")
    parts = rest.rstrip("/").split("/")
    if not is_object_uri(text) or len(parts) < 2 or not all(parts) or {".", ".."} & set(parts) or "\0" in text:  # noqa: PLR2004 - bucket and folder
        raise SettingsError(f"{what} {text!r}: expected a folder in a bucket, such as {scheme}://bucket/folder")
    if set(rest) & set("*?[]{}#\\"):
        raise SettingsError(f"{what} {text!r}: expected a name without * ? [ ] {{ }} # and backslashes")
    return ObjectPath(text.rstrip("/"))
