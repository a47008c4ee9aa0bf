"""Class paths of brokers of any release, from Maven, where the program of `broker/` has none.

They are kept in the user's cache folder; the first time of a release needs Maven and a JDK.
"""

import os
import subprocess
from pathlib import Path

from broker_box import program

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kdump.broker</groupId><artifactId>broker-{version}</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>{logger}</artifactId><version>1.7.30</version></dependency>
{more}</dependencies></project>
"""
#: The ZooKeeper client of these releases resolves no address on a new Java.
_UNRESOLVED = ("2.0.", "2.1.")
_OLDER_ZOOKEEPER = """<dependency><groupId>org.apache.zookeeper</groupId>
<artifactId>zookeeper</artifactId><version>3.4.10</version></dependency>
"""
_MIRROR_MAKER = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kdump.broker</groupId><artifactId>mirror-{version}</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>connect-mirror</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
_BY_ZOOKEEPER = ("0.", "1.", "2.")


def class_path(version: str, *, zookeeper: bool = False) -> str:
    """Give the class path of a release, on which a class Boot starts it, also with ZooKeeper."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "kdump-maven-brokers" / version
    old = version.startswith(_BY_ZOOKEEPER)
    by_zookeeper = old or zookeeper
    jars = directory / "classpath.txt"
    classes = directory / ("classes" if by_zookeeper is old else "classes-zookeeper")
    if not jars.exists():
        directory.mkdir(parents=True, exist_ok=True)
        pom = _POM.format(
            version=version,
            scala="2.12" if old else "2.13",
            logger="slf4j-log4j12" if old else "slf4j-simple",
            more=_OLDER_ZOOKEEPER if version.startswith(_UNRESOLVED) else "",
        )
        (directory / "pom.xml").write_text(pom)
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={jars}"],
            cwd=directory, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if not (classes / "Boot.class").exists():
        java = program().parent / "java"
        if by_zookeeper:
            boot = java / "zk/Boot.java"
        else:
            boot = directory / "Boot.java"
            boot.write_text(
                "public class Boot { public static void main(String[] a) throws Exception {"
                " Guard.start(); kafka.Kafka.main(a); } }\n"
            )
        subprocess.run(
            ["javac", "-nowarn", "-d", classes, "-cp", jars.read_text().strip(),
             java / "common/Guard.java", boot],
            check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return f"{classes}:{jars.read_text().strip()}"


def mirror_maker_path(version: str) -> str:
    """Give the class path of MirrorMaker 2 of a release."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "kdump-maven-brokers" / f"mirror-{version}"
    jars = directory / "classpath.txt"
    if not jars.exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pom.xml").write_text(_MIRROR_MAKER.format(version=version))
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={jars}"],
            cwd=directory, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    return jars.read_text().strip()
