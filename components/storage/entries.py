"""What a listing of a remote folder shows, in columns: names, sizes and identities, never a Python object per file."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

from components.storage.objects import ObjectPath
from components.storage.strings import Strings

if TYPE_CHECKING:
    from components.storage.uri_path import UriPath


@dataclass(frozen=True)
class Entries:
    """Files of a remote folder."""

    names: Strings = field(default_factory=Strings)  # relative to the folder
    sizes: "array[int]" = field(default_factory=lambda: array("q"))
    identities: Strings = field(default_factory=Strings)  # what the store says about the content; empty if nothing

    @staticmethod
    def below(folder: "UriPath") -> "Entries":
        """Lists all files below a folder, once."""
        found = Entries()
        listed = folder.entries() if isinstance(folder, ObjectPath) else sorted(folder.files_below().items())
        for name, stat in listed:
            found.names.append(name)
            found.sizes.append(stat.st_size)
            found.identities.append(stat.identity)
        return found

    def where(self, chosen: Sequence[int]) -> "Entries":
        """Returns some of the files."""
        names, identities = (Strings(compress(each, chosen)) for each in (self.names, self.identities))
        return Entries(names, array("q", compress(self.sizes, chosen)), identities)
