"""PNG: kept byte for byte if it is upright and opaque, whatever its depth and palette, else re-encoded.

    signature ─► chunks (length, name, body, checksum): IHDR ─► PLTE, tRNS ─► IDAT … ─► IEND
                                                          └─ size, depth      └─ pixels, decoded by Pillow

Pillow accepts files that libpng, and so TensorFlow, rejects: wrong checksums, chunks in another order, no IEND, missing
rows. They are found here. A header check requires all chunks, but does not read the contents of IDAT.
"""

import io
import struct
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from PIL.PngImagePlugin import PngImageFile

from components.ingest.images.limits import CheckedImage, ImageRejected, check_size
from components.ingest.images.orientation import UPRIGHT, read_orientation
from components.ingest.images.perceptual_hash import perceptual_hash
from components.ingest.images.reencode import (
    ALPHA,
    FIRST_FRAME,
    ROTATED,
    gray_or_rgb,
    is_resized,
    load,
    on_white,
    store,
)

if TYPE_CHECKING:
    from components.settings.ingest import Ingest

_HEADER: Final = struct.Struct(">IIBBBBB")
_HEADER_SPAN: Final = (16, 16 + _HEADER.size)
_CHUNK: Final = struct.Struct(">I4s")
_LOWER_CASE: Final = ord("a")  # chunks whose name begins with a lower-case letter may be ignored
_MAX_CHUNKS: Final = 100_000
_CRITICAL: Final = frozenset([b"IHDR", b"PLTE", b"IDAT", b"IEND"])
_CHECKED: Final = _CRITICAL | {b"tRNS", b"acTL", b"eXIf"}
_XMP: Final = b"XML:com.adobe.xmp\0\0"  # the second zero: not compressed
_16_BIT: Final = 16
_PALETTE_BYTES: Final = range(3, 3 * 256 + 1, 3)
_GRAY, _RGB, _PALETTE, _GRAY_ALPHA, _RGB_ALPHA = 0, 2, 3, 4, 6
_DEEP: Final = (8, 16)
_KINDS: Final = {  # samples per pixel, and the depths that a sample may have
    _GRAY: (1, (1, 2, 4, 8, 16)),
    _RGB: (3, _DEEP),
    _PALETTE: (1, (1, 2, 4, 8)),
    _GRAY_ALPHA: (2, _DEEP),
    _RGB_ALPHA: (4, _DEEP),
}
_ONE_PASS: Final = ((0, 0, 1, 1),)  # first x, first y, step of x, step of y
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_DEFLATE_RATIO: Final = 1032  # 258 bytes from two bits
_DEFLATE_WINDOW: Final = 32 * 1024
_STEP: Final = 16 * 1024  # compressed bytes per step: at most 16 MB inflated
_EXTRA: Final = 64 * 1024  # inflated bytes that may follow the rows

_Chunks = Mapping[bytes, Sequence[tuple[int, int]]]  # name -> start and end of each body in the file


class _PngHeader(NamedTuple):
    width: int
    height: int
    depth: int
    colour: int
    compression: int
    filters: int
    interlace: int


@dataclass(frozen=True)
class _Png:
    content: bytes
    chunks: _Chunks
    header: _PngHeader

    @property
    def data_bytes(self) -> int:
        return sum(end - start for start, end in self.chunks[b"IDAT"])

    @property
    def raw_bytes(self) -> int:
        """The inflated size of the rows: a filter byte and the pixels of each; interlaced images have seven passes."""
        width, height, depth, colour, *_, interlace = self.header
        bits = depth * _KINDS[colour][0]
        steps = _ADAM7 if interlace else _ONE_PASS
        sizes = [(len(range(x, width, dx)), len(range(y, height, dy))) for x, y, dx, dy in steps]
        return sum((1 + (columns * bits + 7) // 8) * rows for columns, rows in sizes if columns)

    @property
    def transparency(self) -> bytes:
        """The transparent colour, or the alpha values of the palette."""
        return self.first(b"tRNS")

    @property
    def may_be_transparent(self) -> bool:
        """Whether the pixels must be decoded to find out if the image is opaque."""
        return bool(self.transparency) or self.header.colour in (_GRAY_ALPHA, _RGB_ALPHA)

    def first(self, name: bytes) -> bytes:
        """Returns the body of the first chunk with this name, or nothing."""
        return next((self.content[start:end] for start, end in self.chunks.get(name, ())), b"")


def check_png(content: bytes, settings: "Ingest", *, hashed: bool = True) -> CheckedImage:
    """Keeps an upright opaque PNG; re-encodes the others, and those that the settings resize."""
    full = settings.image_check == "full"
    png = _read(content, full=full)
    width, height = png.header.width, png.header.height
    check_size(width, height, settings)
    if png.raw_bytes > png.data_bytes * _DEFLATE_RATIO:
        raise ImageRejected(
            f"PNG header says {width} x {height} but {png.data_bytes:,} bytes of data follow, "
            f"expected at least one per {_DEFLATE_RATIO:,} bytes of the image"
        )
    orientation = read_orientation(png.first(b"eXIf"), _xmp(png))
    changed, resized = _changes(png, orientation), is_resized(width, height, settings)
    if not (full or changed or png.may_be_transparent or resized):
        return CheckedImage(content, width, height, "PNG", "")
    _check_inflated(png)
    image = _open(png)
    load(image)
    opaque = on_white(image)
    changed += [ALPHA] if opaque else []
    image.info.pop("transparency", None)  # no pixel uses it now, but Pillow would warn about it
    if changed or resized:
        return store(opaque or image, "PNG", orientation, changed, settings)
    return CheckedImage(content, width, height, "PNG", "", perceptual_hash(gray_or_rgb(image)) if hashed else None)


def _check_inflated(png: _Png) -> None:
    """Rejects data of another inflated size, in constant memory: Pillow accepts missing rows, and libpng does not."""
    data = b"".join([png.content[start:end] for start, end in png.chunks[b"IDAT"]])
    expected, stream, found = png.raw_bytes, zlib.decompressobj(), 0
    for at in range(0, len(data), _STEP):
        found += len(stream.decompress(data[at : at + _STEP]))
        if stream.eof or found > expected + _EXTRA:
            break
    else:
        raise ImageRejected("PNG is truncated: its compressed data has no end")
    if not expected <= found <= expected + _EXTRA:
        raise ImageRejected(f"PNG is corrupt: {found:,} bytes of image, expected {expected:,}")


def _read(content: bytes, *, full: bool) -> _Png:
    """Finds the chunks and checks that they form an image."""
    chunks: dict[bytes, list[tuple[int, int]]] = {}
    for name, start, end in _chunks(content, _CHECKED if full else _CHECKED - {b"IDAT"}):
        if name != b"tRNS" or b"IDAT" not in chunks:  # libpng ignores a tRNS chunk after the data
            chunks.setdefault(name, []).append((start, end))
    header = _header(content, chunks)
    _check_order(chunks, header.colour)
    return _Png(content, chunks, header)


def _chunks(content: bytes, checked: Container[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """Yields name, body start and body end of each chunk; verifies the checksums of those named in `checked`."""
    view = memoryview(content)
    end = 4  # the first chunk follows the signature of eight bytes; a chunk ends with a checksum of four
    for _ in range(_MAX_CHUNKS):
        start = end + 12
        if start > len(content):
            raise ImageRejected("PNG is truncated: the file ends without an IEND chunk", len(content))
        length, name = _CHUNK.unpack_from(content, start - 8)
        if not name.isalpha() or (name[0] < _LOWER_CASE and name not in _CRITICAL):
            raise ImageRejected(
                f"PNG chunk {ascii(name)[1:]} at byte {start - 8}, expected a standard chunk", start - 8
            )
        end = start + length
        if end + 4 > len(content):
            raise ImageRejected(
                f"PNG is truncated: chunk {name.decode()} ends at byte {end + 4} of {len(content)}", len(content)
            )
        if name in checked and zlib.crc32(view[start - 4 : end]).to_bytes(4, "big") != view[end : end + 4]:
            raise ImageRejected(
                f"PNG is corrupt: wrong checksum of chunk {name.decode()} at byte {start - 8}", start - 8
            )
        yield name, start, end
        if name == b"IEND":
            return
    raise ImageRejected(f"PNG of more than {_MAX_CHUNKS:,} chunks, expected fewer")


def _header(content: bytes, chunks: _Chunks) -> _PngHeader:
    """Reads the one header, which must be the first chunk and hold values of the standard."""
    if chunks.get(b"IHDR") != [_HEADER_SPAN]:
        raise ImageRejected(
            f"PNG with {len(chunks.get(b'IHDR', ()))} headers, expected one of 13 bytes as the first chunk"
        )
    header = _PngHeader._make(_HEADER.unpack_from(content, 16))
    _, _, depth, colour, compression, filters, interlace = header
    if depth not in _KINDS.get(colour, (0, ()))[1] or (compression, filters) != (0, 0) or interlace > 1:
        raise ImageRejected(
            f"PNG header says colour {colour}, depth {depth}, compression {compression}, filter {filters}, "
            f"interlace {interlace}, expected values of the standard"
        )
    return header


def _check_order(chunks: _Chunks, colour: int) -> None:
    """Rejects image data that is missing or not contiguous, and a palette that is incomplete or after the data."""
    data, palettes = chunks.get(b"IDAT", ()), chunks.get(b"PLTE", ())
    size = sum(end - start for start, end in data)
    if not size or data[-1][1] - data[0][0] != size + 12 * (len(data) - 1):
        raise ImageRejected(f"PNG with {size:,} bytes of image data in {len(data)} chunks, expected contiguous chunks")
    usable = [end - start in _PALETTE_BYTES and start < data[0][0] for start, end in palettes]
    if (colour == _PALETTE or palettes) and usable != [True]:
        raise ImageRejected(f"PNG with {len(palettes)} palettes, expected one of 1 to 256 colours before the data")


def _changes(png: _Png, orientation: int) -> list[str]:
    """Returns why TensorFlow would decode another image or none, except for transparency."""
    changed = []
    if int.from_bytes(png.first(b"acTL")[:4], "big") > 1:
        changed.append(f"APNG, {FIRST_FRAME}")
    if orientation != UPRIGHT:
        changed.append(ROTATED)
    # The first byte of the data announces how far back the compression refers.
    first = next(png.content[start] for start, end in png.chunks[b"IDAT"] if start < end)
    if 256 << (first >> 4) < min(png.raw_bytes, _DEFLATE_WINDOW):
        # Some encoders refer further back than they announce. libpng rejects that; browsers and Pillow do not.
        changed.append("short zlib window")
    return changed


def _xmp(png: _Png) -> bytes:
    texts = (png.content[start:end] for start, end in png.chunks.get(b"iTXt", ()))
    return next((text for text in texts if text.startswith(_XMP)), b"")


def _open(png: _Png) -> PngImageFile:
    """Opens the image in Pillow, with only those chunks that make pixels."""
    _, _, depth, colour, *_ = png.header
    if png.transparency and depth == _16_BIT:
        raise ImageRejected("PNG of 16 bits with a transparent colour, expected 8 bits or an alpha channel")
    once = [png.chunks[name][0] for name in (b"IHDR", b"PLTE", b"tRNS") if png.first(name)]
    bodies = [*once, *png.chunks[b"IDAT"], *png.chunks[b"IEND"]]
    spans = [(0, 8), *((start - 8, end + 4) for start, end in bodies)]
    view = memoryview(png.content)
    image = PngImageFile(io.BytesIO(b"".join([view[start:end] for start, end in spans])))
    if png.transparency and colour == _GRAY:
        # Pillow scales 1, 2 and 4-bit gray to 8 bits, but not the value of the transparent gray.
        image.info["transparency"] = int.from_bytes(png.transparency, "big") * 255 // (2**depth - 1)
    return image
