"""What ingest does to the bytes of one image, so that training sees what a person sees.

    bytes ─► format ─► header: size, honest? ─► does TensorFlow show what a person sees?
               │             │                    ├─ yes ─► read to the end ───► the very same bytes
               │             │                    └─ no ──► decode, set right ─► JPEG (from JPEG) or PNG
               ▼             ▼                                     │
           not an image   too large, lies                   truncated, corrupt           all of these: ImageRejected

"TensorFlow" is a plain `tf.io.decode_image(content, channels=3)`, which ignores EXIF, drops alpha and knows neither
WebP nor TIFF. "A person" has a viewer that honours EXIF and shows the first frame on white paper.

The headers of JPEG and PNG are read here and not by Pillow. The size is then known before anything is allocated.
Pillow forgives PNG files that libpng, and so TensorFlow, refuses: missing rows, no IEND, wrong checksums. And what
makes no pixel (text, profiles, thumbnails) is never parsed: Pillow is given the file without it.
"""

import io
import re
import struct
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from PIL import Image, ImageFile, ImageOps
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

# Our own limit stands in for Pillow's; and a damaged TIFF tag, if it matters, also ends in an exception.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.TiffImagePlugin")

# TensorFlow decodes at most 2**29 bytes of pixels; the libpng in it, at most a million pixels a side.
_TENSORFLOW_PIXELS: Final = 2**29 // 3
_LIBPNG_SIDE: Final = 1_000_000

_MAGIC: Final = re.compile(
    rb"(?P<JPEG>\xff\xd8\xff)|(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<GIF>GIF8[79]a)|(?P<WEBP>RIFF....WEBP)"
    rb"|(?P<TIFF>II[*+]\0|MM\0[*+])|(?P<BMP>BM)",
    re.DOTALL,
)
_HEAD_BYTES: Final = 24
_EXPECTED: Final = "expected JPEG, PNG, GIF, WebP, BMP or TIFF"

# Reasons for a change
_ROTATED: Final = "EXIF rotation"
_FIRST_FRAME: Final = "first frame"
_ALPHA: Final = "alpha"

_Span = tuple[int, int]  # where something starts and ends in the file


class ImageRejected(ValueError):
    """These bytes are not an image to train on; the message is the reason, in one line."""


@dataclass(frozen=True)
class ImageLimits:
    """What one image may cost.

    Attributes:
        max_pixels: Width times height; the default decodes to 150 MB.
        max_bytes: Size of the file.
    """

    max_pixels: int = 50_000_000
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        if not 1 <= self.max_pixels <= _TENSORFLOW_PIXELS:
            raise ValueError(
                f"max_pixels is {self.max_pixels}, expected 1 to {_TENSORFLOW_PIXELS}, the most TensorFlow decodes"
            )
        if self.max_bytes < 1:
            raise ValueError(f"max_bytes is {self.max_bytes}, expected at least 1")


@dataclass(frozen=True)
class CheckedImage:
    """An image that TensorFlow decodes to what a person sees.

    Attributes:
        content: JPEG or PNG, ready to store; the very input when nothing had to change.
        width: In pixels, as a person sees it, so after rotation.
        height: In pixels, as a person sees it.
        source_format: What the input was: JPEG, PNG, GIF, WEBP, BMP or TIFF.
        changed: Why it was encoded anew, such as "EXIF rotation" or "GIF, first frame"; empty when it was not.
    """

    content: bytes
    width: int
    height: int
    source_format: str
    changed: str


def check_image(content: bytes, limits: ImageLimits) -> CheckedImage:
    """Returns `content` as an image to train on.

    Args:
        content: A whole file, of any origin and perhaps hostile.
        limits: What it may cost.

    Raises:
        ImageRejected: The content is no image, is damaged, or costs more than `limits`. Nothing else is raised.
    """
    source_format = _format_of(content, limits)
    try:
        if source_format == "JPEG":
            return _check_jpeg(content, limits)
        if source_format == "PNG":
            return _check_png(content, limits)
        return _convert(content, source_format, limits)
    except ImageRejected:
        raise
    except Exception as error:
        # On damaged files Pillow raises nearly every built-in exception, MemoryError among them.
        raise ImageRejected(f"{source_format} cannot be decoded: {_one_line(error)}") from error


# Any format


def _format_of(content: bytes, limits: ImageLimits) -> str:
    """Returns the format by the first bytes: a file's name proves nothing."""
    if not content:
        raise ImageRejected(f"empty file, {_EXPECTED}")
    if len(content) > limits.max_bytes:
        raise ImageRejected(f"file of {len(content):,} bytes, expected at most {limits.max_bytes:,} (max_file_mb)")
    if (found := _MAGIC.match(content)) and found.lastgroup:
        return found.lastgroup
    head = ascii(content[:_HEAD_BYTES].decode("latin-1"))
    more = "…" if len(content) > _HEAD_BYTES else ""
    raise ImageRejected(f"not an image: starts with {head}{more}, {_EXPECTED}")


def _one_line(error: Exception) -> str:
    """Returns a foreign exception's message as one short printable line, with its type when it is a bare value."""
    text = " ".join(str(error).split())
    words = text if " " in text else f"{type(error).__name__} {text}".strip()
    return ascii(words)[1:-1][:200]


def _check_size(width: int, height: int, limits: ImageLimits) -> None:
    """Rejects a size that is empty, above the limit or beyond TensorFlow."""
    if width < 1 or height < 1:
        raise ImageRejected(f"size {width} x {height}, expected at least 1 x 1")
    if width * height > limits.max_pixels:
        raise ImageRejected(
            f"size {width} x {height} is {width * height:,} pixels, expected at most {limits.max_pixels:,} (max_pixels)"
        )
    if max(width, height) > _LIBPNG_SIDE:
        raise ImageRejected(f"size {width} x {height}, expected at most {_LIBPNG_SIDE:,} a side")


def _join(content: bytes, spans: Iterable[_Span]) -> bytes:
    """Returns the parts of `content` that stand between each start and end."""
    view = memoryview(content)
    return b"".join([view[start:end] for start, end in spans])


def _load(image: ImageFile.ImageFile) -> None:
    """Decodes the pixels; a cut file raises."""
    # A switch of the whole process, which other libraries turn on: cut files would then pass, half of them gray.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    image.load()


def _encode(image: Image.Image, source_format: str, changed: Iterable[str]) -> CheckedImage:
    """Stores an upright gray or RGB picture without any metadata: a JPEG as JPEG, all else as PNG, without loss."""
    image.info = {}
    out = io.BytesIO()
    if source_format == "JPEG":
        image.save(out, "JPEG", quality=95, subsampling=0)
    else:
        image.save(out, "PNG", compress_level=4)  # of a photo: half the time of the default, 2 % more bytes
    return CheckedImage(out.getvalue(), image.width, image.height, source_format, ", ".join(changed))


# Which way is up

_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION: Final = 0x0112
_BYTE_ORDERS: Final = {b"II*\0": "<", b"MM\0*": ">"}
_INTEGERS: Final = {3: "H", 4: "I"}
_XMP_ORIENTATION: Final = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def _orientation(exif: bytes, xmp: bytes) -> int:
    """Returns 2 to 8 when the picture must be turned, else 1. EXIF counts before XMP, as in Pillow."""
    value = _exif_orientation(exif)
    if value is None and (found := _XMP_ORIENTATION.search(xmp)):
        value = int(found[1])
    return value if value in _TURNS else 1


def _exif_orientation(exif: bytes) -> int | None:
    """Returns the orientation in an EXIF block, or None when it has none or is damaged."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = _BYTE_ORDERS.get(tiff[:4])
    if order is None:
        return None
    try:
        (directory,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, directory)
        for entry in range(directory + 2, directory + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", tiff, entry)
            if tag == _ORIENTATION and kind in _INTEGERS:
                return int(struct.unpack_from(order + _INTEGERS[kind], tiff, entry + 8)[0])
    except struct.error:
        pass
    return None


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    """Returns the picture turned and mirrored as `orientation` says."""
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


# JPEG

# Huffman codes spend at least one bit on a block of 64 pixels: 512 pixels a byte; a flat gray picture has 256.
_JPEG_PIXELS_A_BYTE: Final = 2_000
# Each scan of a progressive file costs a walk over the whole picture; encoders write about ten.
_JPEG_SCANS: Final = 100
_JPEG_SEGMENTS: Final = 10_000
_JPEG_BITS: Final = 8
_CMYK_COMPONENTS: Final = 4
_JPEG_COMPONENTS: Final = (1, 3, _CMYK_COMPONENTS)
_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_FRAMES: Final = frozenset([0xC0, 0xC1, 0xC9])
# APP0 (JFIF) and APP14 (Adobe) tell the colours; the other APPs and comments make no pixel.
_METADATA: Final = frozenset([*range(_APP1, 0xEE), 0xEF, 0xFE])
_EXIF_HEAD: Final = b"Exif\0\0"
_XMP_HEAD: Final = b"http://ns.adobe.com/xap/1.0/\0"
# Coded data holds FF only as FF00 and as restart markers (D0 to D7), which have no length; FF01 has none either.
_MARKER: Final = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")


class _Segment(NamedTuple):
    marker: int
    start: int  # of its two length bytes, which follow the marker
    end: int


@dataclass(frozen=True)
class _Jpeg:
    width: int
    height: int
    components: int
    orientation: int
    scans: int
    data_bytes: int
    picture: bytes  # the file without metadata


def _check_jpeg(content: bytes, limits: ImageLimits) -> CheckedImage:
    """Keeps an upright gray or colour JPEG; turns and converts the others."""
    jpeg = _read_jpeg(content)
    _check_size(jpeg.width, jpeg.height, limits)
    _check_jpeg_data(jpeg)
    image = JpegImageFile(io.BytesIO(jpeg.picture))
    changed = []
    if jpeg.orientation != 1:
        changed.append(_ROTATED)
    if jpeg.components == _CMYK_COMPONENTS:
        changed.append("CMYK")
    if changed:
        _load(image)
        return _encode(_upright(_gray_or_rgb(image), jpeg.orientation), "JPEG", changed)
    image.draft("L", (1, 1))  # reads all the coded data, yet makes only one pixel in 64
    _load(image)
    return CheckedImage(content, jpeg.width, jpeg.height, "JPEG", "")


def _check_jpeg_data(jpeg: _Jpeg) -> None:
    """Rejects a header that announces more than the data behind it can hold, and scans without end."""
    if jpeg.width * jpeg.height > jpeg.data_bytes * _JPEG_PIXELS_A_BYTE:
        raise ImageRejected(
            f"JPEG header says {jpeg.width} x {jpeg.height} but {jpeg.data_bytes:,} bytes of data follow, "
            f"expected at least one for {_JPEG_PIXELS_A_BYTE:,} pixels"
        )
    if jpeg.scans > _JPEG_SCANS:
        raise ImageRejected(f"JPEG of {jpeg.scans:,} scans, expected at most {_JPEG_SCANS}")


def _read_jpeg(content: bytes) -> _Jpeg:
    """Reads all but the coded data, which it measures."""
    segments = list(_jpeg_segments(content))
    scans = [segment for segment in segments if segment.marker == _SOS]
    if not scans:
        raise ImageRejected("JPEG without picture data, expected a scan before the end marker")
    header = segments[: segments.index(scans[0]) + 1]
    width, height, components = _jpeg_frame(content, segments)
    _check_one_scan(content, segments, scans[0], components)
    data, stop = scans[0].end, segments[-1].start
    kept = [(segment.start - 2, segment.end) for segment in header if segment.marker not in _METADATA]
    return _Jpeg(
        width=width,
        height=height,
        components=components,
        orientation=_orientation(_app1(content, header, _EXIF_HEAD), _app1(content, header, _XMP_HEAD)),
        scans=len(scans),
        data_bytes=stop - data,
        picture=_join(content, [(0, 2), *kept, (data, stop)]),
    )


def _jpeg_segments(content: bytes) -> Iterator[_Segment]:
    """Yields all segments, the end marker included; stray bytes between them are passed over, as libjpeg does."""
    at = 2
    for _ in range(_JPEG_SEGMENTS):
        found = _MARKER.search(content, at)
        if not found:
            raise ImageRejected("JPEG is truncated: no end marker, expected one after the picture data")
        marker, start = content[found.end() - 1], found.end()
        if marker == _EOI:
            yield _Segment(marker, start, start)
            return
        at = start + int.from_bytes(content[start : start + 2], "big")
        if marker == _SOI or not start + 2 <= at <= len(content):
            raise ImageRejected(
                f"JPEG is truncated or corrupt: segment FF{marker:02X} at byte {start - 2} is not whole"
            )
        yield _Segment(marker, start, at)
    raise ImageRejected(f"JPEG of more than {_JPEG_SEGMENTS:,} segments, expected fewer")


def _jpeg_frame(content: bytes, segments: Iterable[_Segment]) -> tuple[int, int, int]:
    """Returns width, height and number of components."""
    frames = [segment for segment in segments if segment.marker in _FRAMES]
    if len(frames) != 1:
        raise ImageRejected(f"JPEG with {len(frames)} frame headers, expected one")
    bits, height, width, components = struct.unpack_from(">BHHB", content, frames[0].start + 2)
    if bits != _JPEG_BITS or components not in _JPEG_COMPONENTS:
        raise ImageRejected(f"JPEG of {components} components of {bits} bits, expected 1, 3 or 4 of {_JPEG_BITS}")
    return width, height, components


def _check_one_scan(content: bytes, segments: Sequence[_Segment], scan: _Segment, components: int) -> None:
    """Rejects a segment amid the data of a scan that is the whole picture: libjpeg would leave the rest gray."""
    whole = content[scan.start + 2] == components and any(segment.marker in _SEQUENTIAL_FRAMES for segment in segments)
    after = segments[segments.index(scan) + 1]
    if whole and after.marker != _EOI:
        raise ImageRejected(
            f"JPEG is corrupt: marker FF{after.marker:02X} amid its data, at byte {after.start - 2}, expected the end"
        )


def _app1(content: bytes, header: Iterable[_Segment], head: bytes) -> bytes:
    """Returns the first APP1 segment that starts with `head`, or nothing."""
    bodies = (content[start + 2 : end] for marker, start, end in header if marker == _APP1)
    return next((body for body in bodies if body.startswith(head)), b"")


# PNG

_PNG_HEADER: Final = struct.Struct(">IIBBBBB")
_PNG_HEADER_SPAN: Final = (16, 16 + _PNG_HEADER.size)
_PNG_CHUNK: Final = struct.Struct(">I4s")
_LOWER_CASE: Final = ord("a")  # the first letter of what a decoder may ignore
_PNG_CHUNKS: Final = 100_000
_PNG_CRITICAL: Final = frozenset([b"IHDR", b"PLTE", b"IDAT", b"IEND"])
_PNG_CHECKED: Final = _PNG_CRITICAL | {b"tRNS", b"acTL", b"eXIf"}
_PNG_XMP: Final = b"XML:com.adobe.xmp\0\0"  # the second zero: not compressed
_PNG_16_BIT: Final = 16
_PNG_LAST_FILTER: Final = 4
_PNG_PALETTE_BYTES: Final = range(3, 3 * 256 + 1, 3)
_GRAY, _RGB, _PALETTE, _GRAY_ALPHA, _RGB_ALPHA = 0, 2, 3, 4, 6
_PNG_SAMPLES: Final = {_GRAY: 1, _RGB: 3, _PALETTE: 1, _GRAY_ALPHA: 2, _RGB_ALPHA: 4}
_DEEP: Final = (8, 16)
_PNG_DEPTHS: Final = {
    _GRAY: (1, 2, 4, 8, 16),
    _RGB: _DEEP,
    _PALETTE: (1, 2, 4, 8),
    _GRAY_ALPHA: _DEEP,
    _RGB_ALPHA: _DEEP,
}
_ONE_PASS: Final = ((0, 0, 1, 1),)
# First x, first y, step of x, step of y.
_ADAM7: Final = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_DEFLATE_RATIO: Final = 1032  # 258 bytes from two bits
_DEFLATE_WINDOW: Final = 32 * 1024
_INFLATE_STEP: Final = 16 * 1024  # of input, so at most 16 MB come out at a time
_INFLATE_EXTRA: Final = 64 * 1024


@dataclass(frozen=True)
class _Png:
    content: bytes
    chunks: Mapping[bytes, Sequence[_Span]]  # where the bodies of the chunks stand, by name
    width: int
    height: int
    depth: int
    colour: int
    rows: Sequence[tuple[int, int]]  # bytes of a row and number of rows, of each pass
    transparency: bytes  # tRNS: a transparent colour, or the alpha of a palette

    @property
    def raw_bytes(self) -> int:
        return sum(stride * count for stride, count in self.rows)

    def first(self, name: bytes) -> bytes:
        """Returns the body of the first chunk of this name, or nothing."""
        return _join(self.content, self.chunks.get(name, ())[:1])


def _check_png(content: bytes, limits: ImageLimits) -> CheckedImage:
    """Keeps an upright opaque PNG, whatever its depth and palette; sets the others right."""
    png = _read_png(content)
    _check_size(png.width, png.height, limits)
    _check_png_data(png)
    orientation = _orientation(png.first(b"eXIf"), _png_xmp(png))
    changed = _png_changes(png, orientation)
    if changed or png.transparency or png.colour in (_GRAY_ALPHA, _RGB_ALPHA):
        image = _open_png(png)
        _load(image)
        paper = _on_white(image)
        changed += [_ALPHA] if paper else []
        if changed:
            return _encode(_upright(paper or _gray_or_rgb(image), orientation), "PNG", changed)
    return CheckedImage(content, png.width, png.height, "PNG", "")


def _png_changes(png: _Png, orientation: int) -> list[str]:
    """Returns why TensorFlow would show another picture or none, transparency aside."""
    changed = []
    if int.from_bytes(png.first(b"acTL")[:4], "big") > 1:
        changed.append(f"APNG, {_FIRST_FRAME}")
    if orientation != 1:
        changed.append(_ROTATED)
    if _png_window(png) < min(png.raw_bytes, _DEFLATE_WINDOW):
        # Some encoders refer further back than they announce; libpng then fails where browsers and Pillow do not.
        changed.append("short zlib window")
    return changed


def _png_window(png: _Png) -> int:
    """Returns how many bytes back the compressed data says that it refers."""
    first = next(start for start, end in png.chunks[b"IDAT"] if start < end)
    return 256 << (png.content[first] >> 4)


def _png_xmp(png: _Png) -> bytes:
    texts = (png.content[start:end] for start, end in png.chunks.get(b"iTXt", ()))
    return next((text for text in texts if text.startswith(_PNG_XMP)), b"")


def _open_png(png: _Png) -> PngImageFile:
    """Opens the picture in Pillow, which gets to see nothing but the chunks that make it."""
    if png.transparency and png.depth == _PNG_16_BIT:
        raise ImageRejected("PNG of 16 bits with a transparent colour, expected 8 bits or an alpha channel")
    once = [b"IHDR", b"PLTE", b"tRNS"] if png.transparency else [b"IHDR", b"PLTE"]
    bodies = [*(png.chunks[name][0] for name in once if name in png.chunks), *png.chunks[b"IDAT"], *png.chunks[b"IEND"]]
    spans = [(start - 8, end + 4) for start, end in bodies]
    image = PngImageFile(io.BytesIO(_join(png.content, [(0, 8), *spans])))
    if png.transparency and png.colour == _GRAY:
        # Pillow stretches grays of 1, 2 and 4 bits to 8, but not the number of the transparent one.
        image.info["transparency"] = int.from_bytes(png.transparency, "big") * 255 // (2**png.depth - 1)
    return image


def _read_png(content: bytes) -> _Png:
    """Finds the chunks and checks them by the rules of libpng, which will decode them in TensorFlow."""
    chunks: dict[bytes, list[_Span]] = {}
    for name, start, end in _png_chunks(content):
        chunks.setdefault(name, []).append((start, end))
    width, height, depth, colour, interlaced = _png_header(content, chunks)
    _check_png_order(chunks, colour)
    # libpng ignores a tRNS chunk behind the data.
    transparency = [span for span in chunks.get(b"tRNS", ()) if span < chunks[b"IDAT"][0]][:1]
    return _Png(
        content=content,
        chunks=chunks,
        width=width,
        height=height,
        depth=depth,
        colour=colour,
        rows=_png_rows((width, height), depth * _PNG_SAMPLES[colour], _ADAM7 if interlaced else _ONE_PASS),
        transparency=_join(content, transparency),
    )


def _png_chunks(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields name, start and end of the body of each chunk; checks those that matter."""
    view = memoryview(content)
    end = 4  # the first chunk follows the signature of eight bytes; a chunk ends with a checksum of four
    for _ in range(_PNG_CHUNKS):
        start = end + 12
        if start > len(content):
            raise ImageRejected("PNG is truncated: the file ends without an IEND chunk")
        length, name = _PNG_CHUNK.unpack_from(content, start - 8)
        if not name.isalpha() or (name[0] < _LOWER_CASE and name not in _PNG_CRITICAL):
            raise ImageRejected(f"PNG chunk {ascii(name)[1:]} at byte {start - 8}, expected one of the standard")
        end = start + length
        if end + 4 > len(content):
            raise ImageRejected(f"PNG is truncated: chunk {name.decode()} ends at byte {end + 4} of {len(content)}")
        if name in _PNG_CHECKED and zlib.crc32(view[start - 4 : end]).to_bytes(4, "big") != view[end : end + 4]:
            raise ImageRejected(f"PNG is corrupt: wrong checksum of chunk {name.decode()} at byte {start - 8}")
        yield name, start, end
        if name == b"IEND":
            return
    raise ImageRejected(f"PNG of more than {_PNG_CHUNKS:,} chunks, expected fewer")


def _png_header(content: bytes, chunks: Mapping[bytes, Sequence[_Span]]) -> tuple[int, int, int, int, bool]:
    """Returns width, height, depth, colour type and whether the rows are interlaced."""
    if chunks.get(b"IHDR") != [_PNG_HEADER_SPAN]:
        raise ImageRejected(f"PNG with {len(chunks.get(b'IHDR', ()))} headers, expected one of 13 bytes, first of all")
    width, height, depth, colour, compression, filters, interlace = _PNG_HEADER.unpack_from(content, 16)
    if depth not in _PNG_DEPTHS.get(colour, ()) or (compression, filters) != (0, 0) or interlace > 1:
        raise ImageRejected(
            f"PNG header says colour {colour}, depth {depth}, compression {compression}, filter {filters}, "
            f"interlace {interlace}, expected values of the standard"
        )
    return width, height, depth, colour, bool(interlace)


def _check_png_order(chunks: Mapping[bytes, Sequence[_Span]], colour: int) -> None:
    """Rejects picture data that is missing or in pieces apart, and a palette that is not whole or not before it."""
    data, palette = chunks.get(b"IDAT", ()), chunks.get(b"PLTE", ())
    held = sum(end - start for start, end in data)
    if not held or data[-1][1] - data[0][0] != held + 12 * (len(data) - 1):
        raise ImageRejected(f"PNG with {held:,} bytes of picture data in {len(data)} chunks, expected some, in a row")
    if colour == _PALETTE or palette:
        sizes = [end - start for start, end in palette if start < data[0][0]]
        if len(sizes) != 1 or len(palette) != 1 or sizes[0] not in _PNG_PALETTE_BYTES:
            raise ImageRejected(f"PNG with {len(palette)} palettes, expected one of 1 to 256 colours before the data")


def _png_rows(size: tuple[int, int], bits: int, passes: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Returns bytes of a row (a filter byte, then pixels of `bits`) and number of rows, of each pass that has any."""
    width, height = size
    sizes = [(-((x - width) // dx), -((y - height) // dy)) for x, y, dx, dy in passes]
    return [(1 + (columns * bits + 7) // 8, rows) for columns, rows in sizes if columns > 0 and rows > 0]


def _check_png_data(png: _Png) -> None:
    """Rejects data that cannot hold the picture, then reads it all, a little in memory at a time."""
    held = sum(end - start for start, end in png.chunks[b"IDAT"])
    if png.raw_bytes > held * _DEFLATE_RATIO:
        raise ImageRejected(
            f"PNG header says {png.width} x {png.height} but {held:,} bytes of data follow, "
            f"expected at least one for {_DEFLATE_RATIO:,} bytes of the picture"
        )
    found = _check_filters(_inflate(png), png.rows)
    if not png.raw_bytes <= found <= png.raw_bytes + _INFLATE_EXTRA:
        raise ImageRejected(f"PNG is corrupt: {found:,} bytes of picture, expected {png.raw_bytes:,}")


def _inflate(png: _Png) -> Iterator[bytes]:
    """Yields the picture's rows, decompressed, in pieces; stops at the end of the stream or well past the last row."""
    view = memoryview(png.content)
    stream = zlib.decompressobj()
    left = png.raw_bytes + _INFLATE_EXTRA
    for start, end in png.chunks[b"IDAT"]:
        for at in range(start, end, _INFLATE_STEP):
            piece = stream.decompress(view[at : min(at + _INFLATE_STEP, end)])
            yield piece
            left -= len(piece)
            if stream.eof or left < 0:
                return
    raise ImageRejected("PNG is truncated: its compressed data has no end")


def _check_filters(pieces: Iterable[bytes], rows: Iterable[tuple[int, int]]) -> int:
    """Returns the number of bytes in `pieces`; rejects a row that does not start with a known filter."""
    passes = iter(rows)
    stride, count = next(passes)
    total = next_row = 0
    for piece in pieces:
        while count and next_row < total + len(piece):
            here = next_row - total
            filters = piece[here : here + stride * count : stride]
            if max(filters) > _PNG_LAST_FILTER:
                raise ImageRejected(f"PNG is corrupt: row filter {max(filters)}, expected 0 to {_PNG_LAST_FILTER}")
            next_row += stride * len(filters)
            count -= len(filters)
            if not count:
                stride, count = next(passes, (0, 0))
        total += len(piece)
    return total


# All other formats

_OPENERS: Final[Mapping[str, Callable[[io.BytesIO], ImageFile.ImageFile]]] = {
    "GIF": GifImageFile,
    "WEBP": WebPImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
}
_TIFF_BITS, _TIFF_PHOTOMETRIC, _TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT = 258, 262, 322, 323
_WHITE_IS_ZERO: Final = 0
_WHITE: Final = 255
_DEEPEST_WHITE: Final = 65535


def _convert(content: bytes, source_format: str, limits: ImageLimits) -> CheckedImage:
    """Turns the first frame of a GIF, WebP, BMP or TIFF into a PNG."""
    image = _OPENERS[source_format](io.BytesIO(content))
    _check_size(*image.size, limits)
    changed = [source_format]
    if getattr(image, "is_animated", False):
        changed.append(_FIRST_FRAME)
    orientation = _orientation(image.info.get("exif", b""), image.info.get("xmp", b""))
    if isinstance(image, TiffImageFile):
        _check_tiles(image, limits)
        changed += [_ROTATED] if image.tag_v2.get(_ORIENTATION) in _TURNS else []
        orientation = 1  # Pillow turns a TIFF while it loads it, and no other format
    elif orientation != 1:
        changed.append(_ROTATED)
    _load(image)
    paper = _on_white(image)
    changed += [_ALPHA] if paper else []
    return _encode(_upright(paper or _gray_or_rgb(image), orientation), source_format, changed)


def _check_tiles(image: TiffImageFile, limits: ImageLimits) -> None:
    """Rejects tiles that are larger than any picture may be: they are decoded whole."""
    width, height = image.tag_v2.get(_TIFF_TILE_WIDTH, 1), image.tag_v2.get(_TIFF_TILE_HEIGHT, 1)
    if width * height > limits.max_pixels:
        raise ImageRejected(f"TIFF tiles of {width} x {height}, expected at most {limits.max_pixels:,} pixels")


# Colours


def _on_white(image: Image.Image) -> Image.Image | None:
    """Returns the picture on white paper when the paper shows through, else None."""
    if not image.has_transparency_data:
        return None
    layer = image.convert("RGBA")
    alpha = layer.getchannel("A")
    if alpha.getextrema() == (_WHITE, _WHITE):
        return None
    paper = Image.new("RGB", image.size, "white")
    paper.paste(layer, mask=alpha)
    return paper


def _gray_or_rgb(image: Image.Image) -> Image.Image:
    """Returns the picture in 8 bits, gray ("L") or "RGB"."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _gray_8_bit(image)
    return image.convert("RGB")


def _gray_8_bit(image: Image.Image) -> Image.Image:
    """Returns a deep gray picture in 8 bits, where Pillow would clip it at 255.

    16 bits keep their upper half, as in TensorFlow. In 32 bits and floats no file says what white is, so it is the
    least of 1 (floats only), 255 and 65535 that no pixel exceeds.
    """
    import numpy as np

    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= _DEEPEST_WHITE:
        raise ImageRejected(f"{image.mode} pixels from {low} to {high}, expected 0 to {_DEEPEST_WHITE}")
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    if image.mode == "F":
        white = next(white for white in (1, _WHITE, _DEEPEST_WHITE) if high <= white)
        values = values * (255 / white) + 0.5
    elif image.mode == "I":
        values = values >> (8 if high > _WHITE else 0)
    else:
        values = values >> (tags.get(_TIFF_BITS, (16,))[0] - 8)
    result = Image.fromarray(values.astype(np.uint8))
    return ImageOps.invert(result) if tags.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO else result
