"""What a listing of a remote folder shows, in columns: names, sizes, times and identities, not an object per file."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, zip_longest
from operator import lt
from typing import TYPE_CHECKING

from components.storage.objects import ObjectPath
from components.storage.uri_path import RemoteStat
from components.strings import Strings

if TYPE_CHECKING:
    from components.storage.uri_path import UriPath


_BLOCK = 1_000  # files that are added together: as many as a store lists in one page


@dataclass(frozen=True)
class Entries:
    """Files of a remote folder."""

    names: Strings = field(default_factory=Strings)  # relative to the folder
    sizes: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[int]" = field(default_factory=lambda: array("q"))  # ns; 0 if unknown
    identities: Strings = field(default_factory=Strings)  # what the store says about the content; empty if nothing

    @staticmethod
    def below(folder: "UriPath") -> "Entries":
        """Lists all files below a folder, once; sorted by name."""
        found, last, is_sorted, listed = Entries(), "", True, iter(_listed(folder))
        while block := list(islice(listed, _BLOCK)):
            names, stats = zip(*block, strict=True)
            found.extend(names, stats)
            is_sorted = is_sorted and last < names[0] and all(map(lt, names, names[1:]))
            last = names[-1]
        return found if is_sorted else found.of(sorted(found.names), folder)

    def is_current(self, folder: "UriPath") -> bool:
        """Whether the folder has the same files with the same stats; of a store, one page at a time is in memory."""
        stats = map(RemoteStat, self.sizes, self.times, self.identities)
        known = zip(self.names, stats, strict=True)
        return all(one == other for one, other in zip_longest(known, _in_order(folder)))

    def extend(self, names: Sequence[str], stats: Sequence[RemoteStat]) -> None:
        """Adds files."""
        sizes, times, identities = zip(*stats, strict=True)
        self.names.extend(names)
        self.sizes.extend(sizes)
        self.times.extend(times)
        self.identities.extend(identities)

    def where(self, chosen: Sequence[int]) -> "Entries":
        """Returns the files with a true value in `chosen`."""
        names, identities = (Strings(compress(each, chosen)) for each in (self.names, self.identities))
        sizes, times = (array("q", compress(each, chosen)) for each in (self.sizes, self.times))
        return Entries(names, sizes, times, identities)

    def of(self, names: Sequence[str], folder: "UriPath") -> "Entries":
        """Returns the files with these names, in this order; asks the store for those that were not listed."""
        if self.names == names:
            return self
        places = {name: place for place, name in enumerate(self.names)}
        found = Entries()
        rest = iter(names)
        while block := list(islice(rest, _BLOCK)):
            stats = [self.stat(places[name]) if name in places else (folder / name).stat() for name in block]
            found.extend(block, stats)
        return found

    def stat(self, place: int) -> RemoteStat:
        """Returns size, time and identity of one file."""
        return RemoteStat(self.sizes[place], self.times[place], self.identities[place])

    def stats(self, start: int = 0, stop: int | None = None) -> list[RemoteStat]:
        """Returns size, time and identity of some files."""
        part = slice(start, stop)
        return list(map(RemoteStat, self.sizes[part], self.times[part], self.identities[part]))


def _in_order(folder: "UriPath") -> Iterable[tuple[str, RemoteStat]]:
    """Returns all files sorted by name: object stores list them so, other filesystems in any order."""
    return _listed(folder) if isinstance(folder, ObjectPath) else sorted(_listed(folder))


def _listed(folder: "UriPath") -> Iterable[tuple[str, RemoteStat]]:
    return folder.entries() if isinstance(folder, ObjectPath) else folder.files_below().items()
