"""The installation of the engine: digests, tools that are missing, and our changes of Beam's classes."""

from pathlib import Path

import pytest

from components.errors import PenstockError, SettingsError
from pipelines.engine import beam_classes, install, places


def test_every_file_that_differs_is_named(tmp_path: Path) -> None:
    """A changed jar, an unknown jar and a missing jar are refused."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "flink-dist-1.19.3.jar").write_bytes(b"other")
    (tmp_path / "lib" / "unknown.jar").write_bytes(b"new")

    with pytest.raises(PenstockError, match=r"lib/flink-dist-1\.19\.3\.jar, lib/unknown\.jar, beam/") as error:
        install.check(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_list_of_digests_covers_flink_beam_and_our_own_jar() -> None:
    """One SHA-256 per file."""
    found = install.digests()

    assert {name.split("/")[0] for name in found} == {"lib", "beam", "engine.jar"}
    assert all(len(digest) == 64 for digest in found.values())


def test_missing_java_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is looked up on the PATH, or in JAVA_HOME."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingsError, match=r"java is not on the PATH; install JDK 17"):
        install.java()

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=r"has no bin/java; install JDK 17"):
        install.java()


def test_java_that_flink_does_not_run_on_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java 8 is too old."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(
        SettingsError, match=r"Flink needs Java 11 to 21: \S+ is openjdk version .1\.8\.0_292.; install"
    ):
        install.java()


def test_missing_maven_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven is needed once, for the installation."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(places, "home", lambda: tmp_path)

    with pytest.raises(SettingsError, match=r"mvn is not on the PATH; install Maven"):
        install.ensure(print)


def test_class_of_another_beam_is_refused() -> None:
    """The changes fit one version of Beam only."""
    with pytest.raises(PenstockError, match=r"as in Beam 2\.62\.0"):
        beam_classes.stage_nothing(b"\xca\xfe\xba\xbe")
    empty = b"\xca\xfe\xba\xbe\x00\x00\x00\x34\x00\x01"
    with pytest.raises(PenstockError, match=r"expected the class of Beam 2\.62\.0"):
        beam_classes.bind_to_address(empty)
