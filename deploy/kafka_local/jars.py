"""Resolve Apache Kafka's jars with Maven, once, into a cache directory.

Not here: running them (`node`).

1. Maven's own resolver is the only thing that fetches, from the registry it is set up for; nothing
   else is downloaded, and no file of another project is unpacked.
2. The jars appear under their final name in one rename, so that a reader sees all of them or none.

Invariant: an existing `libs` directory is complete.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.3"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
RESOLVE_SECONDS_MAX = 900

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pool.local</groupId>
  <artifactId>kafka-local</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{kafka}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-core</artifactId>
      <version>{log4j}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>{log4j}</version>
    </dependency>
  </dependencies>
</project>
"""


class Trouble(Exception):
    """What went wrong and what to do about it, in one line."""


def cache_directory() -> Path:
    """The directory this project caches in: `$XDG_CACHE_HOME/pool`, else `~/.cache/pool`."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "pool"


def missing_tools() -> list[str]:
    """Which of the commands that a local broker needs are not on the path."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def resolve(version: str = KAFKA_VERSION) -> Path:
    """The directory with Kafka's jars of `version`, resolved now if it was not before.

    Raises:
        Trouble: a tool is missing, or Maven could not resolve them.
    """
    home = cache_directory() / f"kafka-{version}"
    libs = home / "libs"
    if libs.is_dir():
        return libs
    missing = missing_tools()
    if missing:
        raise Trouble(
            f"not found on PATH: {', '.join(missing)}; install Java 17 or later and Maven "
            "(Debian: apt-get install openjdk-17-jre-headless maven)"
        )
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        _copy_dependencies(Path(scratch), version)
        # Another process that resolved at the same time may have been first: its jars are the same.
        if not libs.is_dir():
            os.rename(Path(scratch) / "libs", libs)
    return libs


def _copy_dependencies(scratch: Path, version: str) -> None:
    (scratch / "pom.xml").write_text(POM.format(kafka=version, log4j=LOG4J_VERSION))
    command = ["mvn", "-B", "-q", DEPENDENCY_PLUGIN, "-DincludeScope=runtime"]
    command.append(f"-DoutputDirectory={scratch / 'libs'}")
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RESOLVE_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise Trouble(f"Maven did not finish within {RESOLVE_SECONDS_MAX} s; try again") from error
    if done.returncode != 0 or not list((scratch / "libs").glob("kafka_2.13-*.jar")):
        lines = (done.stdout + done.stderr).strip().splitlines() or ["(it printed nothing)"]
        raise Trouble(f"Maven could not resolve Kafka {version}: {lines[0]}")
