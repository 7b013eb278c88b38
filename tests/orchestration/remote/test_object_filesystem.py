"""TFX's file operations on a real S3 server, without tensorflow-io."""

import contextlib

import pytest
from tfx.dsl.io import fileio, filesystem_registry

from pipelines.orchestration.remote import object_filesystem
from pipelines.orchestration.remote.object_filesystem import ObjectFilesystem


@pytest.fixture
def root(s3_bucket: str) -> str:
    """A folder on a real S3 server, which TFX's fileio reaches through our filesystem."""
    object_filesystem.register()
    return f"{s3_bucket}/root"


def test_our_filesystem_is_preferred_to_tensorflows(root: str) -> None:
    """For both schemes; paths on this machine are not affected."""
    find = filesystem_registry.DEFAULT_FILESYSTEM_REGISTRY.get_filesystem_for_path

    assert find(root) is find("gs://bucket/x") is ObjectFilesystem
    assert find("relative/x") is not ObjectFilesystem


def test_what_the_launcher_does(root: str) -> None:
    """Folders appear with their first object, and are deleted with all of them, or without any."""
    fileio.makedirs(f"{root}/Node/.system/1/.temp/")
    assert not fileio.exists(f"{root}/Node/.system/1")
    with fileio.open(f"{root}/Node/out/1/a/b.txt", "w") as stream:
        stream.write("text")
    with fileio.open(f"{root}/Node/out/1/c.bin", "wb") as binary:
        binary.write(b"bytes")

    assert fileio.isdir(f"{root}/Node/out/1")
    assert fileio.open(f"{root}/Node/out/1/a/b.txt").read() == "text"
    assert fileio.open(f"{root}/Node/out/1/c.bin", "rb").read() == b"bytes"
    assert sorted(fileio.listdir(f"{root}/Node/out/1")) == ["a", "c.bin"]
    assert fileio.glob(f"{root}/Node/out/*/c.*") == [f"{root}/Node/out/1/c.bin"]
    assert [files for _, _, files in fileio.walk(f"{root}/Node/out")] == [[], ["c.bin"], ["b.txt"]]
    assert fileio.stat(f"{root}/Node/out/1/c.bin").st_size == 5

    fileio.rename(f"{root}/Node/out/1", f"{root}/Node/out/2")
    assert not fileio.exists(f"{root}/Node/out/1")
    fileio.rmtree(f"{root}/Node/out/2")
    fileio.rmtree(f"{root}/Node/.system/1/.temp/")
    assert not fileio.exists(f"{root}/Node")


@pytest.mark.parametrize(("mode", "part"), [("w", "part"), ("wb", b"part")])
def test_an_error_while_writing_leaves_the_object_as_it_was(root: str, mode: str, part: str | bytes) -> None:
    """No part of the new content is written."""
    with fileio.open(f"{root}/a", "w") as stream:
        stream.write("before")
    with contextlib.suppress(ValueError), fileio.open(f"{root}/a", mode) as stream:
        stream.write(part)
        raise ValueError("failed")

    assert fileio.open(f"{root}/a").read() == "before"


def test_a_missing_object(root: str) -> None:
    """TFX expects its own error."""
    with pytest.raises(fileio.NotFoundError):
        fileio.open(f"{root}/none", "rb")
    with pytest.raises(fileio.NotFoundError):
        fileio.listdir(f"{root}/none")
