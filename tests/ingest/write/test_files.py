"""A shard holds every good file of its plan, every other one is accounted for, and it is there whole or not at all."""

import base64
import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.ingest.close import reports
from components.ingest.images.checks import Checks
from components.ingest.sources import Rejected
from components.ingest.sources.image_folder import SOURCE
from components.ingest.survey.listing import ListedFile, Listing
from components.ingest.work.shards import ShardFiles
from components.ingest.write.files import record_id, write_shard
from components.ingest.write.report import ShardReport
from components.records import checksum
from components.records.quarantine import Quarantined
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


def write(files: tuple[ListedFile, ...], data: Path, artifact: Path) -> ShardReport:
    """Writes one shard of these files."""
    return write_shard(ShardFiles("train", 0, 1, files), SOURCE, data, artifact, Ingest())


def records(artifact: Path) -> list[dict[str, Any]]:
    """Reads a shard back with nothing but TensorFlow: every column, every value."""
    parsed = []
    for record in tf.data.TFRecordDataset(str(artifact / NAME)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        parsed.append({k: list(getattr(f, f.WhichOneof("kind")).value) for k, f in features.items()})
    return parsed


def published(artifact: Path) -> list[str]:
    """Returns every file of the artifact, leftovers too."""
    return sorted(path.relative_to(artifact).as_posix() for path in artifact.rglob("*") if path.is_file())


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """Where the shard goes."""
    return tmp_path / "examples"


class TestRecords:
    """What later nodes read."""

    def test_records_are_read_back_equal(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Image bytes, label and id, in the order of the plan."""
        files = {"chat noir/1.png": image(1), "dogs/2.jpg": image(2, "JPEG"), "猫/3.png": image(3)}
        fill(data, files)
        write(take(data).files, data, artifact)

        assert records(artifact) == [
            {
                "image": [content],
                "label": [path.partition("/")[0].encode()],
                "id": [int(hashlib.sha256(content).hexdigest()[:16], 16) >> 1],
            }
            for path, content in files.items()
        ]

    def test_more_files_than_a_batch_keep_their_order(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """The border between two batches is not seen in the shard."""
        fill(data, {f"cats/{index:03d}.png": image(index) for index in range(260)})
        files = take(data).files
        write(files, data, artifact)

        assert [record["id"] for record in records(artifact)] == [[record_id(item.sha256)] for item in files]

    def test_the_same_files_give_the_same_bytes(self, data: Path, tmp_path: Path, take: Take, image: Image) -> None:
        """Promise D2: a shard written twice is the same file."""
        fill(data, {f"cats/{index}.bmp": image(index, "BMP") for index in range(20)})
        for name in ("a", "b"):
            write(take(data).files, data, tmp_path / name)

        assert (tmp_path / "a" / NAME).read_bytes() == (tmp_path / "b" / NAME).read_bytes()

    def test_an_id_is_a_positive_number(self) -> None:
        """63 bits of the hash fit into an int64 feature."""
        assert [record_id("f" * 64), record_id("0" * 64)] == [2**63 - 1, 0]


class TestReport:
    """What the account is made of."""

    def test_the_report_is_true(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Counts by class and side, what was re-encoded, and the size and digest of the very file."""
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
            classes={"cats": 2, "dogs": 1},
            sides={4: 1, 8: 2},
            changed={"BMP": 1},
            quarantined=(),
        )

    def test_bad_files_are_set_aside_with_their_reason(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Promise A4: the others are written, and every file is counted once."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>", "dogs/3.jpg": b"", "dogs/4.png": image(4)})
        report = write(take(data).files, data, artifact)
        expected = "expected JPEG, PNG, GIF, WebP, BMP or TIFF"

        assert report.quarantined == (
            Quarantined("cats/2.jpg", f"not an image: starts with '<html>', {expected}", raw="<html>"),
            Quarantined("dogs/3.jpg", f"empty file, {expected}"),
        )
        assert (report.records, report.classes, report.failure) == (2, {"cats": 1, "dogs": 1}, "")
        assert [record["label"] for record in records(artifact)] == [[b"cats"], [b"dogs"]]

    def test_a_damaged_file_keeps_its_first_bytes_and_its_place(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """A person can see what it is and where it breaks off, and mend it."""
        cut = image(1, "JPEG", size=(90, 80))[:-9]
        fill(data, {"cats/1.jpg": cut})
        (bad,) = write(take(data).files, data, artifact).quarantined

        assert bad == Quarantined(
            "cats/1.jpg",
            "JPEG is truncated: no end marker, expected one after the image data",
            f"byte {len(cut)}",
            raw_base64=base64.b64encode(cut).decode(),
        )
        assert bad.raw_bytes == cut

    def test_a_file_above_the_limit_is_set_aside_unread(self, data: Path, artifact: Path, take: Take) -> None:
        """Its size in the manifest is enough."""
        fill(data, {"cats/1.png": bytes((1 << 20) + 1)})
        plan = ShardFiles("train", 0, 1, take(data).files)
        (data / "cats" / "1.png").unlink()
        report = write_shard(plan, SOURCE, data, artifact, Ingest(max_file_mb=1))

        assert report.quarantined == (Quarantined("cats/1.png", "1,048,577 bytes, more than max_file_mb = 1"),)

    def test_a_shard_of_bad_files_is_empty(self, data: Path, artifact: Path, take: Take) -> None:
        """The file is there, with no record in it."""
        fill(data, {"cats/1.jpg": b"<html>"})
        report = write(take(data).files, data, artifact)

        assert (report.records, report.bytes, len(report.quarantined)) == (0, 0, 1)
        assert records(artifact) == []

    def test_a_shard_of_no_files_is_empty(self, data: Path, artifact: Path) -> None:
        """An empty split still has a file that readers find."""
        report = write((), data, artifact)

        assert (report.records, report.bytes, report.checksum) == (0, 0, checksum.of_bytes(b""))
        assert published(artifact) == [NAME]

    def test_a_report_comes_back_from_a_worker_as_it_was(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Reports travel as files beside the shards, and are cleared away when all are there."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>"})
        plan = ShardFiles("train", 0, 1, take(data).files)
        report = write_shard(plan, SOURCE, data, artifact, Ingest())
        reports.store(artifact, plan.name, [report])

        assert reports.collect(artifact, [plan.name]) == [report]
        reports.clear(artifact)
        assert published(artifact) == [NAME]

    def test_a_bad_file_whose_name_is_not_utf8_is_reported(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Its odd byte is spelt out, as it is for files refused before they were opened."""
        fill(data, {"cats/1.png": image(1), os.fsdecode(b"cats/caf\xe9.jpg"): b""})
        plan = ShardFiles("train", 0, 1, take(data).files)
        reports.store(artifact, plan.name, [write_shard(plan, SOURCE, data, artifact, Ingest())])
        (collected,) = reports.collect(artifact, [plan.name])

        assert [bad.path for bad in collected.quarantined] == ["cats/caf\\xe9.jpg"]

    def test_a_vanished_file_whose_name_is_not_utf8_is_reported(
        self, data: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """The failure reaches the caller like any other."""
        name = os.fsdecode(b"cats/caf\xe9.png")
        fill(data, {name: image(1)})
        plan = ShardFiles("train", 0, 1, take(data).files)
        (data / name).unlink()
        reports.store(artifact, plan.name, [write_shard(plan, SOURCE, data, artifact, Ingest())])
        (collected,) = reports.collect(artifact, [plan.name])

        assert collected.failure == f"{data}/cats/caf\\xe9.png: cannot be read: No such file or directory"


class TestStored:
    """Images may be stored at another size."""

    def test_pixels_are_stored_and_counted(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """The record holds them, and the report says why its bytes are not those of the file."""
        fill(data, {"cats/1.png": image(1, size=(20, 10)), "cats/2.png": image(2, size=(6, 4))})
        plan = ShardFiles("train", 0, 1, take(data).files)
        report = write_shard(plan, SOURCE, data, artifact, Ingest(store="raw", store_side=8))
        images = [record["image"] for record in records(artifact)]

        assert images == [
            [b"P6 00016 00008 255\n" + bytes([1, 0, 7]) * 128],
            [b"P6 00006 00004 255\n" + bytes([2, 0, 7]) * 24],
        ]
        assert (report.changed, report.sides) == ({"stored raw": 2}, {8: 1, 4: 1})

    def test_the_id_is_that_of_the_file(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Augmentation draws the same numbers whatever the stored size."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        write_shard(ShardFiles("train", 0, 1, (item,)), SOURCE, data, artifact, Ingest(store="raw"))

        assert [record["id"] for record in records(artifact)] == [[record_id(item.sha256)]]


class TestRemembered:
    """Verdicts on images outlive the run."""

    def test_a_known_image_is_not_decoded(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """A verdict that was changed by hand is believed; without the memory the image is looked at."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        plan = ShardFiles("train", 0, 1, (item,))
        with Checks(tmp_path / "checks.db", Ingest()) as checks:
            checks.check(image(1, size=(50, 30)), item.sha256)
        known = write_shard(plan, SOURCE, data, artifact, Ingest(), tmp_path / "checks.db")
        unknown = write_shard(plan, SOURCE, data, artifact, Ingest())

        assert (known.sides, unknown.sides) == ({30: 1}, {4: 1})

    def test_what_a_shard_finds_out_is_remembered(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Good and bad, for the next run."""
        fill(data, {"cats/1.png": image(1), "cats/2.jpg": b"<html>"})
        good, bad = take(data).files
        write_shard(ShardFiles("train", 0, 1, (good, bad)), SOURCE, data, artifact, Ingest(), tmp_path / "checks.db")
        with Checks(tmp_path / "checks.db", Ingest()) as checks:
            assert checks.check(b"no image", good.sha256).content == b"no image"
            with pytest.raises(Rejected, match="starts with '<html>'"):
                checks.check(image(1), bad.sha256)


class TestStat:
    """A file is not hashed again while its stat is the one that was hashed."""

    def test_the_stat_is_believed(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """With it even a wrong digest passes, which a second hash would have found."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files
        stat = stat_key((data / "cats" / "1.png").stat())

        assert write((replace(item, sha256="0" * 64, stat=stat),), data, artifact).records == 1
        assert "changed while" in write((replace(item, sha256="0" * 64, stat=""),), data, artifact).failure

    def test_another_stat_is_no_other_content(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """A file that was written again as it was is the same file."""
        fill(data, {"cats/1.png": image(1)})
        (item,) = take(data).files

        assert write((replace(item, stat="1:2:3:4"),), data, artifact).records == 1


class TestInputGone:
    """Promise B9: an input that is not what the manifest says stops the run by name, and leaves no shard."""

    def test_a_file_that_vanished_is_named(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Nothing stands under the final name."""
        fill(data, {"cats/1.png": image(1), "cats/2.png": image(2)})
        files = take(data).files
        (data / "cats" / "2.png").unlink()
        report = write(files, data, artifact)

        assert report.failure == f"{data / 'cats' / '2.png'}: cannot be read: No such file or directory"
        assert published(artifact) == []

    def test_a_file_that_changed_is_named(self, data: Path, artifact: Path, take: Take, image: Image) -> None:
        """Another image of the same size is as wrong as none: the split was decided by the old one."""
        fill(data, {"cats/1.png": image(1), "cats/2.png": image(2)})
        files = take(data).files
        (data / "cats" / "2.png").write_bytes(image(3))
        report = write(files, data, artifact)

        assert report.failure == f"{data / 'cats' / '2.png'}: changed while it was being ingested"
        assert published(artifact) == []

    def test_a_file_swapped_for_a_link_is_named(
        self, data: Path, tmp_path: Path, artifact: Path, take: Take, image: Image
    ) -> None:
        """Promise D4: what the link leads to does not get in."""
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
        """Permissions taken away after the manifest are a failure, not a bad file."""
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
        """What was written before the file was missed is not seen either."""
        fill(data, {f"cats/{index:03d}.png": image(index) for index in range(140)})
        files = take(data).files
        (data / "cats" / "139.png").unlink()

        assert write(files, data, artifact).failure.startswith(f"{data / 'cats' / '139.png'}: ")
        assert published(artifact) == []


def test_a_full_disk_leaves_no_truncated_shard(data: Path, tiny_disk: Path, take: Take, image: Image) -> None:
    """Promise B5: the error comes through and nothing stands under the final name."""
    fill(data, {f"cats/{index}.jpg": image(index, "JPEG", size=(2_000, 2_000)) for index in range(3)})
    files = take(data).files
    with pytest.raises(OSError, match="No space left"):
        write(files, data, tiny_disk)

    assert published(tiny_disk) == []
