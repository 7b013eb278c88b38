"""A column of strings: one block of bytes and where each string ends, instead of a Python object per string.

    "cats/1.jpg", "dogs/2.jpg" ─► cats/1.jpgdogs/2.jpg │ 10 │ 20

Ten million paths take their own bytes and 8 more each; as a list of strings they would take three times that.
NumPy and Arrow are not used: worker processes do without them and so start sooner.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import overload

_NAMES = "utf-8", "surrogateescape"  # any name of a file; as `os.fsencode`, which takes twice as long
_BLOCK = 1_024  # strings that are decoded together


class Strings(Sequence[str]):
    """Strings that can be read by their index and appended to; names of files need not be UTF-8."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._data, self._ends = bytearray(), array("q", [0])
        self.extend(texts)

    def append(self, text: str) -> None:
        """Adds a string at the end."""
        self._data += text.encode(*_NAMES)
        self._ends.append(len(self._data))

    def extend(self, texts: Iterable[str]) -> None:
        """Adds strings at the end, a block at a time: that takes a quarter of the time of adding each."""
        rest = iter(texts)
        while block := list(islice(rest, _BLOCK)):
            joined = "".join(block)
            if joined.isascii():
                self._ends.extend(islice(accumulate(map(len, block), initial=len(self._data)), 1, None))
                self._data += joined.encode()
            else:
                for text in block:
                    self.append(text)

    def contains(self, part: bytes, start: int, stop: int) -> bool:
        """Whether any of the strings from `start` to `stop` contains `part`, or two of them together do."""
        return self._data.find(part, self._ends[start], self._ends[stop]) >= 0

    def block(self, start: int, stop: int) -> tuple[bytes, "array[int]"]:
        """Returns the bytes of some strings, and where each ends, after a 0; of all that there are, at most."""
        ends = self._ends[start : min(stop, len(self)) + 1]
        first = ends[0]
        return bytes(self._data[first : ends[-1]]), array("q", [end - first for end in ends])

    def every(self, first: int, step: int) -> "Strings":
        """Returns every `step`-th string, from number `first` on."""
        data, starts, stops = self._data, self._ends[first:-1:step], self._ends[first + 1 :: step]
        return Strings.of_encoded([data[start:stop] for start, stop in zip(starts, stops, strict=True)])

    @staticmethod
    def of_encoded(encoded: "Sequence[bytes | bytearray]") -> "Strings":
        """Returns strings that are encoded as names of files are."""
        found = Strings()
        found._data, found._ends = bytearray().join(encoded), array("q", accumulate(map(len, encoded), initial=0))
        return found

    def columns(self) -> tuple[bytes, bytes]:
        """Returns the block of bytes and where each string ends, for `of_columns`."""
        return bytes(self._data), self._ends.tobytes()

    @staticmethod
    def of_columns(data: bytes, ends: bytes) -> "Strings":
        """Returns strings from what `columns` has returned."""
        found = Strings()
        found._data, found._ends = bytearray(data), array("q", ends)
        return found

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._data[self._ends[index] : self._ends[index + 1]].decode(*_NAMES)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _BLOCK):
            data, ends = self.block(first, first + _BLOCK)
            if data.isascii():
                text = data.decode("ascii")
                yield from [text[start:end] for start, end in pairwise(ends)]
            else:
                yield from [data[start:end].decode(*_NAMES) for start, end in pairwise(ends)]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Strings):
            return self._ends == other._ends and self._data == other._data
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]
