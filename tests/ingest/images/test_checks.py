"""A image whose content is known is not decoded again; whatever happens to the memory, the verdicts stay right."""

import hashlib
import io
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components import fingerprint
from components.ingest.images import CheckedImage
from components.ingest.images.checks import Checks
from components.ingest.images.verdicts import Memory, Verdict
from components.ingest.sources import Rejected
from components.settings.ingest import Ingest


def jpeg(seed: int, **options: object) -> bytes:
    """Returns a image of its own."""
    blots = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blots).resize((60, 40)).save(out, "JPEG", **options)
    return out.getvalue()


GOOD = jpeg(1)
CUT = GOOD[:-40]


def sha256(content: bytes) -> str:
    """Returns the name of a content."""
    return hashlib.sha256(content).hexdigest()


def check(file: Path | None, content: bytes, name: str = "", **settings: object) -> CheckedImage | tuple[str, str]:
    """Returns what a memory in `file` makes of `content` under a name, or reason and position of its rejection."""
    with Checks(file, Ingest.model_validate(settings)) as checks:
        try:
            return checks.check(content, name or sha256(content))
        except Rejected as error:
            return str(error), error.position


def decoded(file: Path, name: str, **settings: object) -> bool:
    """Whether a content must be decoded: what is no image at all passes under the name of one that is known."""
    return check(file, b"no image", name, **settings) != CheckedImage(b"no image", 60, 40, "JPEG", "")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where verdicts are remembered, not there yet."""
    return tmp_path / "notes" / "checks.db"


class TestHit:
    """What is remembered."""

    def test_a_known_image_is_not_decoded(self, file: Path) -> None:
        """Size, format and look come from the memory, the bytes from the file."""
        first = check(file, GOOD)
        again = check(file, b"no image", sha256(GOOD))

        assert isinstance(first, CheckedImage)
        assert isinstance(again, CheckedImage)
        assert again == CheckedImage(b"no image", 60, 40, "JPEG", "")
        assert again.perceptual_hash == first.perceptual_hash is not None

    def test_a_known_rejection_is_not_decoded(self, file: Path) -> None:
        """Reason and position are the same."""
        expected = ("JPEG is truncated: no end marker, expected one after the image data", f"byte {len(CUT)}")

        assert [check(file, CUT), check(file, GOOD, sha256(CUT))] == [expected, expected]

    def test_many_are_looked_up_at_once(self, file: Path) -> None:
        """With the same outcome as one by one, for known and unknown ones."""
        names = [sha256(jpeg(seed)) for seed in range(1_300)]
        with Checks(file, Ingest()) as checks:
            for seed in range(1_200):
                checks.check(jpeg(seed), names[seed])
        with Checks(file, Ingest()) as checks:
            checks.expect(names)
            known = [checks.check(b"no image", name).width for name in names[:1_200]]
            unknown = [checks.check(jpeg(seed), names[seed]).width for seed in range(1_200, 1_300)]

        assert known + unknown == [60] * 1_300

    def test_without_a_memory_nothing_is_known(self) -> None:
        """And nothing is missed."""
        assert check(None, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")


class TestMiss:
    """What is decoded all the same."""

    def test_what_makes_a_verdict_is_in_two_folders(self) -> None:
        """Verdicts of other code are forgotten; that is told by the files in these folders alone."""
        found = fingerprint.sources(["components.ingest.images"])
        folders = ("components/ingest/images/", "components/native/")

        assert {name for name in found if not name.startswith(folders)} == {
            "components/__init__.py", "components/ingest/__init__.py", "components/storage/durable.py",
        }  # fmt: skip

    def test_a_header_is_read_again(self, file: Path) -> None:
        """To remember what it says would take longer."""
        check(file, GOOD, image_check="header")

        assert decoded(file, sha256(GOOD), image_check="header")
        assert not file.exists()

    @pytest.mark.parametrize("settings", [{"max_pixels": 10_000}, {"max_file_mb": 1}, {"image_check": "header"}])
    def test_other_rules(self, file: Path, settings: dict[str, Any]) -> None:
        """Verdicts of other limits and of other checks say nothing; those of the first stay."""
        check(file, GOOD)

        assert decoded(file, sha256(GOOD), **settings)
        check(file, GOOD, **settings)
        assert not decoded(file, sha256(GOOD))

    def test_a_image_that_was_encoded_anew(self, file: Path) -> None:
        """Its new bytes are not remembered, so they are made again."""
        turned = Image.Exif()
        turned[0x0112] = 6
        content = jpeg(2, exif=turned)

        assert check(file, content) == check(file, content) == check(None, content)
        assert decoded(file, sha256(content))

    def test_a_lack_of_memory(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It says nothing of the image."""

        def fail(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as short:
            short.setattr(Image, "frombytes", fail)
            assert check(file, GOOD) == ("JPEG cannot be decoded: MemoryError", "")

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    def test_other_code(self, file: Path) -> None:
        """Its verdicts are forgotten, lest the file grow for ever."""
        for code in ("a" * 64, "b" * 64):
            memory = Memory(file, code, "c" * 64)
            assert memory.recall("d" * 64) is None
            memory.note("d" * 64, Verdict(reason=code))
            memory.close()
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("SELECT reason FROM verdicts").fetchall() == [("b" * 64,)]


def overwrite(file: Path) -> None:
    """Makes something else of the file."""
    file.write_bytes(b"no database" * 1_000)


def damage(file: Path) -> None:
    """Overwrites all but the header page."""
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xab" * (file.stat().st_size - 4096))


def cut(file: Path) -> None:
    """Cuts the file."""
    os.truncate(file, 5_000)


def flip(file: Path) -> None:
    """Flips one bit of a value, as no database notices: the width of the image."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE verdicts SET width = width + 1")


def other_table(file: Path) -> None:
    """Leaves a table of another shape."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DROP TABLE verdicts")
        db.execute("CREATE TABLE verdicts (sha256 BLOB)")


class TestDamage:
    """Faults of the file only cost time."""

    @pytest.mark.parametrize("fault", [overwrite, damage, cut, flip, other_table])
    def test_a_damaged_file(self, file: Path, fault: Callable[[Path], None]) -> None:
        """Nothing in it is believed, and the verdict is right."""
        check(file, GOOD)
        fault(file)

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    @pytest.mark.parametrize("fault", [overwrite, damage, cut])
    def test_the_run_after_the_next_remembers_again(self, file: Path, fault: Callable[[Path], None]) -> None:
        """A file that is no database any more is removed."""
        check(file, GOOD)
        fault(file)
        check(file, GOOD)
        check(file, GOOD)

        assert not decoded(file, sha256(GOOD))

    def test_a_folder_in_its_place(self, file: Path) -> None:
        """It cannot be opened, and is left alone."""
        file.mkdir(parents=True)

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")
        assert file.is_dir()

    def test_a_file_in_the_place_of_its_folder(self, file: Path) -> None:
        """There is no such folder, and none can be made."""
        file.parent.write_bytes(b"")

        assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    def test_a_full_disk(self, tiny_disk: Path) -> None:
        """What cannot be stored is checked again."""
        with Checks(tiny_disk / "checks.db", Ingest()) as checks:
            for seed in range(2_000):
                with pytest.raises(Rejected):
                    checks.check(b"<html>", sha256(b"%d" % seed))

        assert check(tiny_disk / "checks.db", GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")

    def test_a_file_that_may_not_be_written(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """What is in it is used."""
        file = open_folder / "checks.db"
        check(file, GOOD)
        file.chmod(0o444)
        open_folder.chmod(0o555)
        with without_rights():
            assert not decoded(file, sha256(GOOD))
            assert check(file, jpeg(3)) == CheckedImage(jpeg(3), 60, 40, "JPEG", "")

    def test_a_file_that_may_not_be_read(
        self, open_folder: Path, without_rights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """It is as good as absent, and stays."""
        file = open_folder / "checks.db"
        check(file, GOOD)
        file.chmod(0)
        with without_rights():
            assert check(file, GOOD) == CheckedImage(GOOD, 60, 40, "JPEG", "")
        assert file.exists()


WORKER = """
import sys
from pathlib import Path
from components.ingest.checks import Checks
from components.settings import Ingest
from tests.ingest.test_checks import jpeg, sha256

for seed in range(int(sys.argv[2]), 40, 2):
    with Checks(Path(sys.argv[1]), Ingest()) as checks:
        checks.check(jpeg(seed), sha256(jpeg(seed)))
"""


class TestTogether:
    """Many workers share one file."""

    def test_threads(self, file: Path) -> None:
        """One memory may be used by many threads at once."""
        with Checks(file, Ingest()) as checks, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda seed: checks.check(jpeg(seed), sha256(jpeg(seed))), range(100)))

        assert not any(decoded(file, sha256(jpeg(seed))) for seed in range(100))

    def test_processes(self, file: Path) -> None:
        """Each adds its own, a shard at a time, and none is lost."""
        workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(file), str(first)]) for first in range(2)]

        assert [worker.wait() for worker in workers] == [0, 0]
        assert not any(decoded(file, sha256(jpeg(seed))) for seed in range(40))
