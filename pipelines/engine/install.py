"""Installs Flink and Beam's Flink runner, once: from PyPI and Maven, every file compared with a digest in this package.

    pip   ─► source archive of apache-flink-libraries ─► deps/lib: flink-dist, log4j ─► lib/  ┐ verified, then renamed
    Maven ─► pom.xml: beam-runners-flink-1.19 and what it needs ──────────────────────► beam/ ┘ to flink-1.19.3/

PyPI has Flink's whole distribution in that archive; Maven Central has neither it nor Beam's job server as one jar.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from components.errors import PenstockError, SettingsError
from components.storage import durable
from components.storage.hashing import sha256_of
from pipelines.engine import beam_classes, places

_HERE = Path(__file__).parent
_DIGESTS = _HERE / "jars.sha256"
_ARCHIVE = f"apache-flink-libraries=={places.FLINK}"
_ARCHIVE_SHA256 = "4a58e3a1fb7d83340bc96b6c080624c6d792d69fae5d294b96224775204a9c60"
_OF_FLINK = re.compile(r"[^/]+/deps/lib/((?:flink-dist|log4j-)[^/]+\.jar)")
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_LINE = 70  # bytes per line of a jar's manifest
_MINUTES = 30  # for each of the two downloads
_JAVA = range(11, 22)  # releases that Flink 1.19 runs on
_INSTALL_JAVA = "install JDK 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
_INSTALL_MAVEN = "install Maven (Debian, Ubuntu: apt-get install maven) and run this again"


def java() -> str:
    """Returns the command of a Java that Flink runs on; raises SettingsError with what to install."""
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(named) / "bin") if named else None)
    if found is None:
        where = f"JAVA_HOME={named} has no bin/java" if named else "java is not on the PATH"
        raise SettingsError(f"Flink needs Java 11 to 21: {where}; {_INSTALL_JAVA}")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) not in _JAVA:
        said = (answer.strip().splitlines() or ["of unknown version"])[0]
        raise SettingsError(f"Flink needs Java 11 to 21: {found} is {said}; {_INSTALL_JAVA}")
    return found


def ensure(say: Callable[[str], None]) -> Path:
    """Returns the folder of the installed files; installs them first if they are missing."""
    with places.one_at_a_time():
        return _ensure(say)


def _ensure(say: Callable[[str], None]) -> Path:
    target = places.installed()
    if target.exists():
        check(target)
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise SettingsError(f"Beam's Flink runner is installed by Maven: mvn is not on the PATH; {_INSTALL_MAVEN}")
    target.parent.mkdir(parents=True, exist_ok=True)
    durable.sweep(target.parent, target.name)
    with durable.publish_folder(target) as folder:
        say(f"downloading Flink {places.FLINK} from PyPI (230 MB, once)")
        _download_flink(folder)
        say(f"downloading Beam's Flink runner {places.BEAM} with Maven (130 MB, once)")
        _download_beam(folder, maven)
        _write_own_jar(folder)
        check(folder)
    return target


def own_jar(folder: Path) -> Path:
    """Returns the only jar on the class path: it holds our changes of Beam, and names all other jars."""
    return folder / "engine.jar"


def _jars(folder: Path) -> list[str]:
    """Returns the jars of Flink, whose classes win, and of Beam, by their paths in the folder."""
    return [f"{part}/{path.name}" for part in ("lib", "beam") for path in sorted((folder / part).glob("*.jar"))]


def _write_own_jar(folder: Path) -> None:
    """Writes the jar; the same files give the same bytes."""
    listed = f"Class-Path: {' '.join(_jars(folder))}"
    lines = [listed[at : at + _LINE] for at in range(0, len(listed), _LINE)]  # a longer one is continued after a space
    manifest = "Manifest-Version: 1.0\n" + "\n ".join(lines) + "\n"
    changed = beam_classes.changed_classes(folder / "beam" / f"beam-sdks-java-core-{places.BEAM}.jar")
    content = {"META-INF/MANIFEST.MF": manifest.encode(), **changed}
    with zipfile.ZipFile(own_jar(folder), "w") as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def check(folder: Path) -> None:
    """Raises PenstockError unless the installed files are exactly those whose digests are listed."""
    expected = digests()
    found = {name for name in (*_jars(folder), own_jar(folder).name) if (folder / name).exists()}
    wrong = sorted(name for name in found if expected.get(name) != sha256_of(folder / name))
    if wrong or expected.keys() - found:
        different = ", ".join([*wrong, *sorted(expected.keys() - found)][:5])
        raise PenstockError(
            f"{folder}: differs from the list of digests in pipelines/engine/{_DIGESTS.name} ({different}); "
            f"expected the released files. Delete the folder and run again; if it happens again, do not use these files"
        )


def digests() -> Mapping[str, str]:
    """Returns the expected SHA-256 of every file, by its path in the folder."""
    lines = (line.split() for line in _DIGESTS.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name: digest for digest, name in lines}


def _download_flink(folder: Path) -> None:
    download = folder / "download"
    download.mkdir()
    wanted = download / "requirements.txt"
    wanted.write_text(f"{_ARCHIVE} --hash=sha256:{_ARCHIVE_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    _run(
        "pip", [*command, "--no-build-isolation", "--require-hashes", "-r", str(wanted), "-d", str(download)], download
    )
    (archive,) = download.glob("*.tar.gz")
    (folder / "lib").mkdir()
    with tarfile.open(archive) as content:
        for member in content:
            if (name := _OF_FLINK.fullmatch(member.name)) and (source := content.extractfile(member)):
                with source, (folder / "lib" / name[1]).open("wb") as file:
                    shutil.copyfileobj(source, file)
    durable.remove(download)


def _download_beam(folder: Path, maven: str) -> None:
    work = folder / "maven"
    work.mkdir()
    shutil.copy(_HERE / "pom.xml", work)
    jars = f"-DoutputDirectory={folder / 'beam'}"
    _run(
        "Maven", [maven, "--quiet", "--batch-mode", "--strict-checksums", _PLUGIN, "-DincludeScope=runtime", jars], work
    )
    durable.remove(work)


def _run(tool: str, command: Sequence[str], folder: Path) -> None:
    """Runs a download; raises PenstockError with the end of its output."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_MINUTES * 60,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise PenstockError(f"{tool} took longer than {_MINUTES} minutes; check the network and run again") from None
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise PenstockError(f"{tool} failed; check that its package registry can be reached, and run again:\n{output}")
