"""Configuration files and Java commands of Flink and of Beam's job server. Everything listens on 127.0.0.1 alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
# What Flink's own scripts open for it on Java 17 (config.yaml of its distribution).
_OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.text", "java.base/java.time", "java.base/java.util",
    "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/java.util.concurrent.locks",
    "java.base/sun.nio.ch", "java.base/sun.net.util", "java.base/sun.security.util",
)  # fmt: skip
_EXPORTED = (
    "java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5",
    "jdk.compiler/com.sun.tools.javac.api", "jdk.compiler/com.sun.tools.javac.file",
    "jdk.compiler/com.sun.tools.javac.parser", "jdk.compiler/com.sun.tools.javac.tree",
    "jdk.compiler/com.sun.tools.javac.util",
)  # fmt: skip
# A task manager that is not started by Flink's scripts must be given all of its memory sizes.
_TASK_MEMORY = {
    "taskmanager.cpu.cores": "1.0",
    "taskmanager.memory.task.heap.size": "512m",
    "taskmanager.memory.task.off-heap.size": "256m",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.network.min": "256m",  # with 128 MB, StatisticsGen needs sort-shuffle.min-buffers below 512
    "taskmanager.memory.network.max": "256m",
    "taskmanager.memory.managed.size": "256m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
    "taskmanager.resource-id": "",  # of each
}
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n
logger.beam.name = org.apache.beam.runners.flink.FlinkPipelineRunner
logger.beam.level = WARN
logger.pekko.name = org.apache.pekko
logger.pekko.level = WARN
"""


@dataclass(frozen=True)
class Ports:
    """Free ports of this machine."""

    rpc: int
    rest: int
    blob: int
    job: int
    artifact: int
    expansion: int


@dataclass(frozen=True)
class ClusterFiles:
    """How the engine is started: which Java, which jars, which folder, how large."""

    java: str
    jar: Path  # names all other jars
    folder: Path  # of configuration, logs and temporary files
    ports: Ports
    slots: int  # per task manager


def configuration(layout: ClusterFiles) -> Mapping[str, str]:
    """Returns Flink's configuration; each value that is not a port or an address has its reason."""
    ports, temporary = layout.ports, layout.folder / "tmp"
    return {
        "jobmanager.rpc.address": HOST,
        "jobmanager.rpc.port": str(ports.rpc),
        "jobmanager.bind-host": HOST,
        "taskmanager.host": HOST,
        "taskmanager.bind-host": HOST,
        "rest.address": HOST,
        "rest.bind-address": HOST,
        "rest.port": str(ports.rest),
        "blob.server.port": str(ports.blob),
        "web.submit.enable": "false",  # nobody may upload a jar through the REST service
        "taskmanager.numberOfTaskSlots": str(layout.slots),
        "cluster.evenly-spread-out-slots": "true",  # a lost task manager takes half of a job, not all of it
        "classloader.resolve-order": "parent-first",  # Beam's jars are on Flink's own class path
        "taskmanager.network.sort-shuffle.min-buffers": "16",  # with 512 many small shuffles exhaust the memory
        # 1, 2, 4, 8 and 10 s: longer than the heartbeat timeout, until which a killed task manager is still asked.
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "1 s",
        "restart-strategy.exponential-delay.max-backoff": "10 s",
        "restart-strategy.exponential-delay.backoff-multiplier": "2.0",
        "restart-strategy.exponential-delay.jitter-factor": "0.0",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": "5",
        "heartbeat.interval": "2000",  # ms: a killed task manager is noticed after 10 s instead of 50 s
        "heartbeat.timeout": "10000",
        "slot.request.timeout": "60000",  # ms: a job without a free slot fails instead of waiting for 5 minutes
        "io.tmp.dirs": str(temporary),
    }


def write_configuration(layout: ClusterFiles) -> Path:
    """Writes the configuration folder and returns it."""
    folder = layout.folder / "conf"
    folder.mkdir(parents=True, exist_ok=True)
    (layout.folder / "tmp").mkdir(exist_ok=True)
    lines = [f"{key}: {value}\n" for key, value in configuration(layout).items()]
    (folder / "flink-conf.yaml").write_text("".join(lines), encoding="utf-8")
    (folder / "log4j.properties").write_text(_LOGGING, encoding="utf-8")
    return folder


def job_manager(layout: ClusterFiles) -> list[str]:
    """Returns the command of Flink's job manager."""
    sizes = {"jobmanager.memory.heap.size": "512m", "jobmanager.memory.off-heap.size": "128m"}
    return [
        *_java(layout, "-Xmx512m", "-XX:MaxMetaspaceSize=256m"),
        _JOB_MANAGER,
        *_configured(layout),
        *_options(sizes),
    ]


def task_manager(layout: ClusterFiles, name: str) -> list[str]:
    """Returns the command of one task manager."""
    sizes = {**_TASK_MEMORY, "taskmanager.resource-id": name}
    heap = ("-Xmx640m", "-XX:MaxDirectMemorySize=640m", "-XX:MaxMetaspaceSize=256m")
    return [*_java(layout, *heap), _TASK_MANAGER, *_configured(layout), *_options(sizes)]


def job_server(layout: ClusterFiles) -> list[str]:
    """Returns the command of Beam's job server, which hands jobs to Flink."""
    ports = layout.ports
    return [
        *_java(layout, "-Xmx512m"),
        _JOB_SERVER,
        f"--flink-master={HOST}:{ports.rest}",
        f"--flink-conf-dir={layout.folder / 'conf'}",
        f"--job-host={HOST}",
        f"--job-port={ports.job}",
        f"--artifact-port={ports.artifact}",
        f"--expansion-port={ports.expansion}",
        f"--artifacts-dir={layout.folder / 'artifacts'}",
    ]


def _java(layout: ClusterFiles, *options: str) -> list[str]:
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    exported = [f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED]
    logging = f"-Dlog4j.configurationFile=file:{layout.folder / 'conf' / 'log4j.properties'}"
    temporary = f"-Djava.io.tmpdir={layout.folder / 'tmp'}"
    return [layout.java, "-XX:+UseG1GC", *options, *opened, *exported, logging, temporary, "-cp", str(layout.jar)]


def _configured(layout: ClusterFiles) -> list[str]:
    return ["--configDir", str(layout.folder / "conf")]


def _options(values: Mapping[str, str]) -> list[str]:
    return [text for key, value in values.items() for text in ("-D", f"{key}={value}")]
