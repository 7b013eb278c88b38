"""A shard has every good file, every other file is quarantined, and the shard is complete or absent."""

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.ingest.close import reports
from components.ingest.images.checks import ImageChecker
from components.ingest.sources import SourceFile
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey.listed_files import ListedFile, ListedFiles
from components.ingest.survey.listing import Listing
from components.ingest.write.files import UnitReader, record_id, write_unit
from components.ingest.write.report import ShardReport
from components.ingest.write.shards import PlainSplits, fingerprints_of, place_of
from components.records import checksum
from components.records.quarantine import Quarantined, Rejected
from components.settings.ingest import Ingest
from components.storage.hashing import stat_key

NAME = "Split-train/data_tfrecord-00000-of-00001"
Take = Callable[[Path], Listing]
Image = Callable[..., bytes]


def fill(data: Path, files: dict[str, bytes]) -> None:
    """Writes files below the data folder."""
    for name, content in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(content)


def write(
    files: Sequence[ListedFile], data: Path, artifact: Path, checks: Path | None = None, **settings: Any
) -> ShardReport:
    """Writes one work unit of these files, all of which go to the training split."""
    chosen = Ingest(**settings).model_copy(update={"splits": PlainSplits((("train", 1.0),), "", stratify=False)})
    reader = UnitReader(ListedFiles(files), range(len(files)), SOURCE, data, chosen, checks)
    (report,) = write_unit(reader, "00000-of-00001", artifact)
    return report


def in_order(files: Iterable[str]) -> list[str]:
    """Returns paths in the order in which they are read."""
    return sorted(files, key=lambda path: hashlib.sha256(path.encode()).digest())


def records(artifact: Path) -> list[dict[str, Any]]:
    """Reads a shard with TensorFlow alone: every column, every value."""
    parsed = []
    for record in tf.data.TFRecordDataset(str(artifact / NAME)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        parsed.append({k: list(getattr(f, f.WhichOneof("kind")).value) for k, f in features.items()})
    return parsed


def published(artifact: Path) -> list[str]:
    """Returns every file of the artifact, temporary ones included."""
    return sorted(path.relative_to(artifact).as_posix() for path in artifact.rglob("*") if path.is_file())


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """The folder that the shard goes to."""
    return tmp_path / "examples"


class TestRecords:
    """What later nodes read."""

    def test_records_are_read_back_equal(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Image bytes, label and id, in the order of the hashes of their paths."""
        files = {"chat noir/1.png": image(1), "dogs/2.jpg": image(2, "JPEG"), "猫/3.png": image(3)}
        fill(data, files)
        write(take(data).files, data, artifact)

        assert records(artifact) == [
            {
                "image": [files[path]],
                "label": [path.partition("/")[0].encode()],
                "id": [int(hashlib.sha256(files[path]).hexdigest()[:16], 16) >> 1],
            }
            for path in in_order(files)
        ]

    def test_classes_are_mixed(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """A listing has one class after the other: a shuffle buffer would hold one class alone."""
        fill(data, {f"{'cats' if index < 100 else 'dogs'}/{index:03d}.png": image(index) for index in range(200)})
        write(take(data).files, data, artifact)
        labels = [record["label"] for record in records(artifact)]

        assert all(labels[start : start + 20] != [[label]] * 20 for start in range(180) for label in (b"cats", b"dogs"))

    def test_an_id_is_a_positive_number(self) -> None:
        """63 bits of the hash fit into an int64 feature."""
        assert [record_id("f" * 64), record_id("0" * 64)] == [2**63 - 1, 0]


class TestReport:
    """What the manifest is built from."""

    def test_the_report_is_true(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Counts by class and side, re-encoded images, and size and checksum of the file."""
        fill(
            data,
            {
                "cats/1.png": image(1, size=(6, 4)),
                "cats/2.png": image(2, size=(8, 9)),
                "dogs/3.bmp": image(3, "BMP", size=(9, 8)),
            },
        )
        report = write(take(data).files, data, artifact)
        content = (artifact / NAME).read_bytes()

        assert report == ShardReport(
            split="train",
            name=NAME,
            records=3,
            bytes=len(content),
            checksum=checksum.of_bytes(content),
            fingerprints=checksum.of_file(artifact / fingerprints_of(NAME)),
            classes={"cats": 2, "dogs": 1},
            sides={4: 1, 8: 2},
            changed={"BMP": 1},
            quarantined=(),
        )

    def test_bad_files_are_quarantined_with_their_reason(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Promise A4: the others are written, and each file is counted once."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>", "dogs/3.jpg": b"", "dogs/4.png": image(4)})
        report = write(take(data).files, data, artifact)
        expected = "expected JPEG, PNG, GIF, WebP, AVIF, JPEG 2000, BMP or TIFF"

        assert report.quarantined == (
            Quarantined("cats/2.jpg", f"not an image: starts with '<html>', {expected}", raw="<html>"),
            Quarantined("dogs/3.jpg", f"empty file, {expected}"),
        )
        assert (report.records, report.classes, report.failure) == (2, {"cats": 1, "dogs": 1}, "")
        assert [record["label"] for record in records(artifact)] == [[b"cats"], [b"dogs"]]

    def test_a_damaged_file_is_quarantined_with_position_and_first_bytes(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """A person can see what it is and where it ends, and repair it."""
        cut = image(1, "JPEG", size=(90, 80))[:-9]
        fill(data, {"cats/1.jpg": cut})
        (bad,) = write(take(data).files, data, artifact).quarantined

        assert bad == Quarantined(
            "cats/1.jpg",
            "JPEG is truncated: no end marker, expected one after the image data",
            f"byte {len(cut)}",
            raw_base64=base64.b64encode(cut).decode(),
        )

    def test_a_file_above_the_limit_is_quarantined_unread(self, data: Path, artifact: Path, take: Take) -> None:
        """Its size in the survey is enough."""
        fill(data, {"cats/1.png": bytes((1 << 20) + 1)})
        files = take(data).files
        (data / "cats" / "1.png").unlink()
        report = write(files, data, artifact, max_file_mb=1)

        assert report.quarantined == (Quarantined("cats/1.png", "1,048,577 bytes, more than max_file_mb = 1"),)

    def test_a_file_that_is_too_large_has_no_place(self, data: Path, image: Image) -> None:
        """Stratified splits rank records: it becomes none, and is not read to be hashed."""
        fill(data, {"cats/1.png": image(1)})
        stat = (data / "cats" / "1.png").stat()
        small = ListedFile(SourceFile("cats/1.png", "cats"), stat.st_size, "", stat_key(stat))
        missing = ListedFile(SourceFile("cats/2.png", "cats"), (1 << 20) + 1, "")
        reader = UnitReader(ListedFiles([small, missing]), range(2), SOURCE, data, Ingest(max_file_mb=1))
        place = place_of(hashlib.sha256(image(1)).hexdigest(), Ingest().splits.salt)

        assert reader.places()["place"].tolist() == [place]

    def test_bad_files_alone_have_no_shard(self, data: Path, artifact: Path, take: Take) -> None:
        """As for rows; the gate finds an empty split."""
        fill(data, {"cats/1.jpg": b"<html>"})
        report = write(take(data).files, data, artifact)

        assert (report.name, report.records, len(report.quarantined)) == ("", 0, 1)
        assert not artifact.exists()

    def test_each_split_has_a_shard(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """A6: the content decides; equal bytes are in one split. What was quarantined is reported once."""
        fill(data, {f"{label}/{number}.png": image(number) for number in range(60) for label in ("cats", "dogs")})
        (data / "cats" / "bad.png").write_bytes(b"no image")
        files = take(data).files
        reader = UnitReader(files, range(len(files)), SOURCE, data, Ingest())
        made = write_unit(reader, "00000-of-00001", artifact)
        shards = [report.name for report in made]

        assert shards == [f"Split-{split}/data_tfrecord-00000-of-00001" for split in ("train", "eval", "test")]
        assert [report.classes["cats"] == report.classes["dogs"] > 0 for report in made] == [True] * 3
        assert [len(report.quarantined) for report in made] == [1, 0, 0]
        assert published(artifact) == sorted([*shards, *map(fingerprints_of, shards)])

    def test_a_report_is_read_back_unchanged(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Reports are files beside the shards."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>"})
        report = write(take(data).files, data, artifact)
        reports.store(artifact, "files-0", [report])

        assert reports.collect(artifact, ["files-0"]) == [report]

    def test_a_bad_file_whose_name_is_not_utf8_is_reported(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """With the byte escaped, as for files that are quarantined by the survey."""
        fill(data, {"cats/1.png": image(1), os.fsdecode(b"cats/caf\xe9.jpg"): b""})
        reports.store(artifact, "files-0", [write(take(data).files, data, artifact)])
        (collected,) = reports.collect(artifact, ["files-0"])

        assert [bad.path for bad in collected.quarantined] == ["cats/caf\\xe9.jpg"]

    def test_a_vanished_file_whose_name_is_not_utf8_is_reported(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Like any other failure."""
        name = os.fsdecode(b"cats/caf\xe9.png")
        fill(data, {name: image(1)})
        files = take(data).files
        (data / name).unlink()
        reports.store(artifact, "files-0", [write(files, data, artifact)])
        (collected,) = reports.collect(artifact, ["files-0"])

        assert collected.failure == f"{data}/cats/caf\\xe9.png: cannot be read: No such file or directory"


class TestStored:
    """Images may be stored in another format and size."""

    def test_raw_pixels_are_stored_and_counted(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """The report says why the bytes are not those of the file."""
        fill(data, {"cats/1.png": image(1, size=(20, 10)), "cats/2.png": image(2, size=(6, 4))})
        report = write(take(data).files, data, artifact, store="raw", store_side=8)
        images = [record["image"] for record in records(artifact)]

        assert sorted(images, reverse=True) == [
            [b"P6 00016 00008 255\n" + bytes([1, 0, 7]) * 128],
            [b"P6 00006 00004 255\n" + bytes([2, 0, 7]) * 24],
        ]
        assert (report.changed, report.sides) == ({"stored raw": 2}, {8: 1, 4: 1})

    def test_the_id_is_that_of_the_file(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Augmentation is the same for any stored size."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        write((item,), data, artifact, store="raw")

        assert [record["id"] for record in records(artifact)] == [[record_id(item.sha256)]]


class TestCachedChecks:
    """Results of image checks are kept for the next run."""

    def test_a_known_image_is_not_decoded(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """A false result in the cache is used; without the cache the image is checked."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        with ImageChecker(tmp_path / "checks.db", Ingest()) as checks:
            checks.check(image(1, size=(50, 30)), item.sha256)
        known = write((item,), data, artifact, tmp_path / "checks.db")
        unknown = write((item,), data, artifact)

        assert (known.sides, unknown.sides) == ({30: 1}, {4: 1})

    def test_the_results_of_a_shard_are_cached(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Good and bad ones."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>"})
        good, bad = take(data).files
        write((good, bad), data, artifact, tmp_path / "checks.db")
        with ImageChecker(tmp_path / "checks.db", Ingest()) as checks:
            assert checks.check(b"no image", good.sha256).content == b"no image"
            with pytest.raises(Rejected, match="starts with '<html>'"):
                checks.check(image(1), bad.sha256)


class TestStat:
    """A file is not hashed again if its stat is the one that was hashed."""

    def test_a_file_with_its_old_stat_is_not_hashed(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Even a wrong digest passes, which hashing would have found."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        stat = stat_key((data / "cats" / "1.png").stat())

        assert write((replace(item, sha256="0" * 64, stat=stat),), data, artifact).records == 1
        assert "changed while" in write((replace(item, sha256="0" * 64, stat=""),), data, artifact).failure

    def test_a_file_with_another_stat_is_hashed(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """A file that was rewritten with the same content is the same file."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files

        assert write((replace(item, stat="1:2:3:4"),), data, artifact).records == 1


class TestInputChanged:
    """Promise B9: a file that was changed after the survey stops the run by name, and leaves no shard."""

    def test_a_file_that_vanished_is_named(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """There is no shard."""
        fill(data, {"cats/1.png": image(1), "cats/2.png": image(2)})
        files = take(data).files
        (data / "cats" / "2.png").unlink()
        report = write(files, data, artifact)

        assert report.failure == f"{data / 'cats' / '2.png'}: cannot be read: No such file or directory"
        assert published(artifact) == []

    def test_a_file_that_changed_is_named(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Another image of the same size too: the split was decided by the old one."""
        fill(data, {"cats/1.png": image(1), "cats/2.png": image(2)})
        files = take(data).files
        (data / "cats" / "2.png").write_bytes(image(3))
        report = write(files, data, artifact)

        assert report.failure == f"{data / 'cats' / '2.png'}: changed while it was being ingested"
        assert published(artifact) == []

    def test_a_file_swapped_for_a_link_is_named(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Promise D4: the target of the link is not read."""
        fill(data, {"cats/1.png": image(1)})
        files = take(data).files
        (tmp_path / "secret.png").write_bytes(image(2))
        (data / "cats" / "1.png").unlink()
        (data / "cats" / "1.png").symlink_to(tmp_path / "secret.png")
        report = write(files, data, artifact)

        assert report.failure == f"{data / 'cats' / '1.png'}: changed while it was being ingested"
        assert published(artifact) == []

    def test_a_file_that_may_not_be_read_is_named(
        self,
        open_folder: Path,
        take: Take,
        image: Image,
        without_rights: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Missing permissions are a failure, not a bad file."""
        fill(open_folder / "data", {"cats/1.png": image(1)})
        files = take(open_folder / "data").files
        (open_folder / "data" / "cats" / "1.png").chmod(0)
        with without_rights():
            report = write(files, open_folder / "data", open_folder / "examples")

        assert report.failure == f"{open_folder / 'data' / 'cats' / '1.png'}: cannot be read: Permission denied"
        assert published(open_folder / "examples") == []

    def test_a_later_failure_leaves_no_earlier_batch(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Records that were written before are not published."""
        fill(data, {f"cats/{index:03d}.png": image(index) for index in range(140)})
        files = take(data).files
        (data / "cats" / "139.png").unlink()

        assert write(files, data, artifact).failure.startswith(f"{data / 'cats' / '139.png'}: ")
        assert published(artifact) == []


def test_a_full_disk_leaves_no_truncated_shard(data: Path, tiny_disk: Path, take: Take, image: Image) -> None:
    """Promise B5: the error is raised, and there is no shard."""
    fill(data, {f"cats/{index}.jpg": image(index, "JPEG", size=(2_000, 2_000)) for index in range(3)})
    files = take(data).files
    with pytest.raises(OSError, match="No space left"):
        write(files, data, tiny_disk)

    assert published(tiny_disk) == []
