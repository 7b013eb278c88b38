"""Changes two calls in Beam's Java classes, for which Beam 2.62 has no option.

    servers    NettyServerBuilder.forPort(socket.getPort())   all interfaces, without authentication
               NettyServerBuilder.forAddress(socket)          here: the address that was asked for, 127.0.0.1

    staging    new ClassGraph()….scan(1).getClasspathFiles()  the job server sends all of its jars with every job
               new ClassGraph()….scan(1).getModules()         here: an empty list, as the cluster has them

250 MB of jars per job took 14 s of every node. The jars are pinned, so each change is a fixed one: in the class file, a
call gets another name and signature. The changed classes are in the engine's own jar, which is the first on the class
path, and whose digest is listed like those of the other jars.
"""

import struct
import zipfile
from pathlib import Path

from components.errors import PenstockError

SERVERS = "org/apache/beam/sdk/fn/server/ServerFactory$InetSocketAddressServerFactory.class"
STAGING = "org/apache/beam/sdk/util/construction/resources/ClasspathScanningResourcesDetector.class"
_FIXED = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_UTF8, _LONG, _DOUBLE, _NAME_AND_TYPE, _METHOD = 1, 5, 6, 12, 10
_RESULT = "Lorg/apache/beam/vendor/grpc/v1p60p1/io/grpc/netty/NettyServerBuilder;"


def changed_classes(jar: Path) -> dict[str, bytes]:
    """Returns the changed classes of the jar of Beam's core, by their paths."""
    with zipfile.ZipFile(jar) as archive:
        return {SERVERS: bind_to_address(archive.read(SERVERS)), STAGING: stage_nothing(archive.read(STAGING))}


def stage_nothing(content: bytes) -> bytes:
    """Returns a class file that calls `getModules()`, which is an empty list here, instead of `getClasspathFiles()`."""
    old, new = _utf8("getClasspathFiles"), _utf8("getModules")
    if content.count(old) != 1:
        raise PenstockError(f"{STAGING}: expected one call of getClasspathFiles(), as in Beam 2.62.0")
    return content.replace(old, new)


def bind_to_address(content: bytes) -> bytes:
    """Returns a class file whose call of `forPort(x.getPort())` is `forAddress(x)`."""
    entries, end = _constants(content)
    text = {index: _text(content, at) for index, (tag, at) in entries.items() if tag == _UTF8}
    signatures = {
        index: (text[_u2(content, at + 1)], text[_u2(content, at + 3)], at)
        for index, (tag, at) in entries.items()
        if tag == _NAME_AND_TYPE
    }
    methods = {
        signatures[_u2(content, at + 3)][:2]: (index, signatures[_u2(content, at + 3)][2])
        for index, (tag, at) in entries.items()
        if tag == _METHOD
    }
    try:
        for_port, place = methods["forPort", f"(I){_RESULT}"]
        get_port, _ = methods["getPort", "()I"]
    except KeyError as missing:
        raise PenstockError(f"{SERVERS}: no call of {missing}; expected the class of Beam 2.62.0") from None
    count = _u2(content, 8)
    added = _utf8("forAddress") + _utf8(f"(Ljava/net/SocketAddress;){_RESULT}")
    changed = bytearray(content)
    changed[place + 1 : place + 5] = struct.pack(">HH", count, count + 1)  # name and signature: the added ones
    old = struct.pack(">BHBH", 0xB6, get_port, 0xB8, for_port)  # invokevirtual getPort, invokestatic forPort
    new = struct.pack(">BBBBH", 0, 0, 0, 0xB8, for_port)
    if content.count(old, end) != 1:
        raise PenstockError(f"{SERVERS}: expected one call of forPort(getPort()), as in Beam 2.62.0")
    changed[8:10] = struct.pack(">H", count + 2)
    return bytes(changed[:end]) + added + bytes(changed[end:]).replace(old, new)


def _constants(content: bytes) -> tuple[dict[int, tuple[int, int]], int]:
    """Returns the tag and place of every entry of the constant pool, and where the pool ends."""
    entries, at, index = {}, 10, 1
    while index < _u2(content, 8):
        tag = content[at]
        entries[index] = (tag, at)
        at += 3 + _u2(content, at + 1) if tag == _UTF8 else 1 + _FIXED[tag]
        index += 2 if tag in (_LONG, _DOUBLE) else 1
    return entries, at


def _text(content: bytes, at: int) -> str:
    return content[at + 3 : at + 3 + _u2(content, at + 1)].decode()


def _u2(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 2], "big")


def _utf8(text: str) -> bytes:
    return struct.pack(">BH", _UTF8, len(text)) + text.encode()
