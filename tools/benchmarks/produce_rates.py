"""Rate of `kdump produce` beside kafka-producer-perf-test, to one broker in one run.

    python tools/benchmarks/produce_rates.py --data DIRECTORY --classpath JARS [--rounds N]

JARS is a class path with kafka-tools and what it needs. The perf test fills a topic; its log is
copied, and every round sends it by kdump to a new topic and has the perf test send as many records
of the same size to another, both with acks=all and idempotence. Wall time of the whole commands,
with their starts, and for kdump with the merge before the first record is sent; medians. Needs
`broker/` of KDUMP_SHARED and Java 17.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/support"))

from broker_box import Broker  # noqa: E402

_BAR = 0.5
_FOREVER = {"retention.ms": "-1"}


def seconds(command: list[str], **environment: str) -> float:
    """Run a command and say how long it took."""
    started = time.monotonic()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    return time.monotonic() - started


def main() -> int:
    """Measure, print, and return 1 where the bar is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--classpath", required=True)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record-size", type=int, default=1000)
    parser.add_argument("--version", default="4.4.0")
    asked = parser.parse_args()
    size = asked.record_size
    count = (asked.mib << 20) // size
    broker = Broker(asked.data / "data", asked.version)
    broker.start()
    try:
        answer = broker.run("client", '{"op":"topics"}')
        assert answer.returncode == 0, answer.stderr
        address = f"127.0.0.1:{port_of(broker)}"

        def perf(topic: str) -> float:
            made = broker.ask({"op": "create_topic", "topic": topic, "configs": _FOREVER})
            assert made[0]["ok"], made
            return seconds([
                "java", "-cp", asked.classpath, "org.apache.kafka.tools.ProducerPerformance",
                "--topic", topic, "--num-records", str(count), "--record-size", str(size),
                "--throughput", "-1", "--producer-props", f"bootstrap.servers={address}",
                "acks=all", "enable.idempotence=true",
            ])  # fmt: skip

        perf("source")
        time.sleep(2)
        copy = asked.data / "source-0"
        shutil.copytree(broker.directory / "source-0", copy)
        ratios = []
        for number in range(asked.rounds):
            theirs = perf(f"perf{number}")
            topic = f"kdump{number}"
            broker.ask({"op": "create_topic", "topic": topic, "configs": _FOREVER})
            names = asked.data / f"{topic}.map"
            names.write_text(f"source,{topic}\n")
            ours = seconds([
                sys.executable, "-m", "kdump", "produce", "--bootstrap-server", address,
                "--topic-map",
                str(names), "--resume", str(asked.data / f"{topic}.state"), str(copy),
            ])  # fmt: skip
            ratios.append(theirs / ours)
            print(
                f"{asked.mib} MiB of {size} bytes: perf test {asked.mib / theirs:.1f} MiB/s, "
                f"kdump {asked.mib / ours:.1f} MiB/s, {ratios[-1]:.2f} of it",
                flush=True,
            )
            for name in (f"perf{number}", topic):
                broker.ask({"op": "delete_topic", "topic": name})
        print(f"median {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}; bar {_BAR}")
        return 0 if median(ratios) >= _BAR else 1
    finally:
        broker.run("kill")


def port_of(broker: Broker) -> int:
    """Ask where a broker listens."""
    import json

    return int(json.loads(broker.run("status").stdout)["port"])


if __name__ == "__main__":
    sys.exit(main())
