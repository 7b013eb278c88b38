"""Promise A14: a file that is deleted, added or altered in a sealed artifact is found and named."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from components.records import checksum, manifest
from components.records.manifest import Manifest, Shard, SourceTotals
from components.records.seal import Seal, broken, read, seal, write
from components.records.tfrecord.framing import TFRecordWriter
from components.storage import hashing
from components.storage.hashing import HashCache, sha256_of


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[HashCache]:
    """A cache in a file, as in a run."""
    opened = HashCache(tmp_path / "hashes.db")
    yield opened
    opened.close()


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A model's folder."""
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "model.pb").write_bytes(b"graph")
    (folder / "variables" / "data").write_bytes(b"weights")
    (folder / "variables" / "index").write_bytes(b"names")
    return folder


@pytest.fixture
def sealed(artifact: Path, cache: HashCache) -> Seal:
    """The seal of that folder."""
    return seal(artifact, cache)


def test_an_unchanged_folder_is_not_broken(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """There is no difference."""
    assert broken(artifact, sealed, cache) is None


def test_a_seal_lists_every_file(sealed: Seal) -> None:
    """Relative paths in order, with sizes."""
    assert [(file.path, file.size) for file in sealed.files] == [
        ("model.pb", 5),
        ("variables/data", 7),
        ("variables/index", 5),
    ]
    assert sealed.size == 17


def test_a_new_mtime_is_no_difference(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """The content is the same."""
    os.utime(artifact / "model.pb")

    assert broken(artifact, sealed, cache) is None


def test_a_deleted_file_is_named(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """By its path inside the artifact."""
    (artifact / "variables" / "data").unlink()

    assert broken(artifact, sealed, cache) == "variables/data deleted"


def test_several_deleted_files_are_counted(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """The first one is named."""
    shutil.rmtree(artifact / "variables")

    assert broken(artifact, sealed, cache) == "variables/data and 1 more deleted"


def test_an_added_file_is_named(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """TFX would read it."""
    (artifact / "variables" / "extra").write_bytes(b"")

    assert broken(artifact, sealed, cache) == "variables/extra added"


def test_a_file_altered_with_its_old_mtime_is_named(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """Neither the same size nor a restored mtime hides it."""
    file = artifact / "variables" / "data"
    before = file.stat()
    file.write_bytes(b"Weights")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert broken(artifact, sealed, cache) == "variables/data altered"


def test_a_file_turned_into_a_folder_is_named(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """A folder with the same name is not the file."""
    (artifact / "model.pb").unlink()
    (artifact / "model.pb").mkdir()

    assert broken(artifact, sealed, cache) == "model.pb deleted"


def test_a_missing_folder_is_named(artifact: Path, sealed: Seal, cache: HashCache) -> None:
    """The whole artifact was deleted."""
    shutil.rmtree(artifact)

    assert broken(artifact, sealed, cache) == "model: folder missing"


def test_an_empty_folder_can_be_sealed(tmp_path: Path, cache: HashCache) -> None:
    """A file that is added to it is found."""
    folder = tmp_path / "empty"
    folder.mkdir()
    empty = seal(folder, cache)
    (folder / "extra").write_bytes(b"")

    assert (empty, broken(folder, empty, cache)) == (Seal(()), "extra added")


def test_a_seal_is_read_back_as_it_was_written(tmp_path: Path, sealed: Seal) -> None:
    """The folder of seals is created."""
    write(tmp_path / "seals" / "1.json", sealed)

    assert read(tmp_path / "seals" / "1.json") == sealed


def test_a_missing_seal_is_none(tmp_path: Path) -> None:
    """There is no error."""
    assert read(tmp_path / "seals" / "1.json") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff",
        b"null",
        b"[]",
        b"3",
        b'{"files": []}',
        b'{"digest": "0"}',
        b'{"digest": "0", "files": [["a"]]}',
        b'{"digest": "0", "files": [3]}',
        b'{"digest": "0", "files": null}',
    ],
)
def test_a_damaged_seal_is_none(content: bytes, tmp_path: Path) -> None:
    """There is no error."""
    (tmp_path / "1.json").write_bytes(content)

    assert read(tmp_path / "1.json") is None


def test_a_seal_cut_short_is_none(tmp_path: Path, sealed: Seal) -> None:
    """Its JSON is not complete."""
    write(tmp_path / "1.json", sealed)
    (tmp_path / "1.json").write_bytes((tmp_path / "1.json").read_bytes()[:-1])

    assert read(tmp_path / "1.json") is None


def test_an_edited_seal_is_none(tmp_path: Path, sealed: Seal) -> None:
    """A row was replaced, and the digest does not match."""
    write(tmp_path / "1.json", sealed)
    stored = orjson.loads((tmp_path / "1.json").read_bytes())
    stored["files"][0][2] = "0" * 64
    (tmp_path / "1.json").write_bytes(orjson.dumps(stored))

    assert read(tmp_path / "1.json") is None


class TestShards:
    """The writer has computed the checksum of a shard: it is not read to seal it, nor while its stat is the same."""

    @pytest.fixture
    def examples(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """An artifact with one shard, whose files count as settled at once."""
        monkeypatch.setattr(hashing, "_SETTLED_NS", -(10**9))
        folder, name = tmp_path / "examples", "Split-train/data_tfrecord-00000-of-00001"
        (folder / "Split-train").mkdir(parents=True)
        with TFRecordWriter(folder / name) as writer:
            writer.write([[b"record"]] * 9)
        shard = Shard("train", name, 9, writer.size, writer.checksum)
        made = Manifest("", 9, SourceTotals(), (shard,), {"train": {}}, 0, {}, 0, ())
        manifest.write(folder, made, [])
        return folder

    @pytest.fixture
    def unread(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """Shards that are read."""
        read, of_file = list[Path](), checksum.of_file

        def of_file_and_note(path: Path) -> str:
            read.append(path)
            return of_file(path)

        monkeypatch.setattr(checksum, "of_file", of_file_and_note)
        return read

    def test_the_digest_is_the_checksum_of_the_writer(
        self, examples: Path, cache: HashCache, unread: list[Path]
    ) -> None:
        """The manifest itself is hashed."""
        (shard,) = manifest.read(examples).shards
        made = seal(examples, cache)

        assert {file.path: file.digest for file in made.files} == {
            shard.name: shard.checksum,
            "manifest.json": sha256_of(examples / "manifest.json"),
            "quarantine.jsonl": sha256_of(examples / "quarantine.jsonl"),
        }
        assert (broken(examples, made, cache), unread) == (None, [])

    def test_an_altered_shard_is_named(self, examples: Path, cache: HashCache) -> None:
        """A14: its size and mtime are the old ones, and its ctime cannot be."""
        made, shard = seal(examples, cache), examples / manifest.read(examples).shards[0].name
        content, before = bytearray(shard.read_bytes()), shard.stat()
        content[20] ^= 1
        shard.write_bytes(content)
        os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert broken(examples, made, cache) == "Split-train/data_tfrecord-00000-of-00001 altered"

    def test_a_touched_shard_is_read_once(self, examples: Path, cache: HashCache, unread: list[Path]) -> None:
        """It is the same, and its new stat is known then."""
        made, shard = seal(examples, cache), examples / manifest.read(examples).shards[0].name
        os.utime(shard)

        assert [broken(examples, made, cache) for _ in range(2)] == [None, None]
        assert unread == [shard]
