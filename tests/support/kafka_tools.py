"""Kafka's own command-line tools on a PATH, as the commands that kdump prints name them.

They run from the jars of a release where those are at hand: of 2.8.2 with the broker in a box, of
4.4.0 where KDUMP_KAFKA_TOOLS is the class path of kafka-tools. Otherwise a stand-in asks the admin
client for the same.
"""

import os
import sys
from pathlib import Path

from broker_box import program

_MAIN = {
    "2.8.2": ("kafka.admin.TopicCommand", "kafka.admin.ConfigCommand"),
    "4.4.0": ("org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ConfigCommand"),
}
_STAND_IN = """#!{python}
import sys
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic
from confluent_kafka.admin import AlterConfigOpType as Change

given = sys.argv[1:]

def named(option):
    return [given[at + 1] for at, word in enumerate(given) if word == option]

admin = AdminClient({{"bootstrap.servers": named("--bootstrap-server")[0]}})
if "--create" in given:
    (topic,), (partitions,) = named("--topic"), named("--partitions")
    config = dict(one.split("=", 1) for one in named("--config"))
    factor = int((named("--replication-factor") or ["-1"])[0])
    new = NewTopic(topic, int(partitions), replication_factor=factor, config=config)
    admin.create_topics([new])[topic].result()
else:
    resource = ConfigResource("TOPIC", named("--entity-name")[0])
    for option, change in (("--add-config", Change.SET), ("--delete-config", Change.DELETE)):
        for one in ",".join(named(option)).split(","):
            if one:
                name, _, value = one.partition("=")
                entry = ConfigEntry(name, value or None, incremental_operation=change)
                resource.add_incremental_config(entry)
    admin.incremental_alter_configs([resource])[resource].result()
"""


def tools_on_path(folder: Path, version: str) -> dict[str, str]:
    """Write kafka-topics.sh, kafka-configs.sh and kdump; give the environment to run them in."""
    folder.mkdir(parents=True)
    jars = os.environ.get("KDUMP_KAFKA_TOOLS")
    of_box = program().parent / "target" / version / "classpath.txt"
    if version == "2.8.2" and of_box.is_file():
        jars = of_box.read_text().strip()
    elif version != "4.4.0":
        jars = None
    for name, number in (("kafka-topics.sh", 0), ("kafka-configs.sh", 1)):
        if jars is None:
            text = _STAND_IN.format(python=sys.executable)
        else:
            java = "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            text = f'#!/bin/sh\nexec {java} -cp "{jars}" {_MAIN[version][number]} "$@"\n'
        (folder / name).write_text(text)
    (folder / "kdump").write_text(f'#!/bin/sh\nexec {sys.executable} -m kdump "$@"\n')
    for each in folder.iterdir():
        each.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
