"""The loops of docs/how-to/brokers.md, run against brokers on this machine, and killed."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import chronode

from chronode.stream import Stream

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "brokers.md"
EVENTS, IDS = 60, 3


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model, and the page as a program for each broker."""
    folder = tmp_path_factory.mktemp("brokers")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        chronode("data", "example", "charts.csv", "--patients", 20)
        roles = ("--target", "outcome", "--id", "patient", "--time", "charted_at")
        chronode("train", "charts.csv", *roles, "--model", "gru", "--epochs", 1, "-o", "runs/charts")
    return folder


def program(name, changes):
    """Returns the function `answers` and the loop of a section, with another address and shorter intervals."""
    text = PAGE.read_text()
    begin = re.search(r"```python\n(.*?)good = ", text, re.DOTALL)[1]
    loop = re.search(rf"## {name}\n.*?```text\n(.*?)```", text, re.DOTALL)[1]
    for old, new in {**changes, "> 30": "> 0.3"}.items():
        assert old in loop
        loop = loop.replace(old, new)
    return begin + loop


def events():
    return [
        {"patient": f"p{i % IDS}", "charted_at": f"2024-01-01 {i // 6:02}:{10 * (i % 6):02}", "pulse": 70.0 + i % 11}
        for i in range(EVENTS)
    ]


def expected(home):
    stream, numbers = Stream(home / "runs" / "charts"), {}
    for event in events():
        id, moment = event.pop("patient"), event.pop("charted_at")
        numbers[id, moment] = stream.observe(id, moment, event)
    return numbers


class Looped:
    """The program in a process of its own, which is killed and started again."""

    def __init__(self, home, code):
        (home / "ward.state").unlink(missing_ok=True)
        self.home, self.code = home, code
        self.start()

    def start(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.code], cwd=self.home, stderr=subprocess.PIPE)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def collect(receive, count, loop, seconds=90):
    """Receives predictions until so many events are answered; returns event -> the answers with a prediction."""
    found, end = {}, time.monotonic() + seconds
    while len(found) < count:
        assert loop.process.poll() is None, loop.process.stderr.read().decode()
        assert time.monotonic() < end, f"{len(found)} of {count} events are answered"
        for reply in map(json.loads, receive()):
            assert "error" not in reply, reply
            key = (reply.pop("patient"), reply.pop("charted_at"))
            found.setdefault(key, []).append(reply)
    return found


def check(found, home):
    """Every event is answered, with the numbers of a stream that was not interrupted; repeated ones may be skipped."""
    for key, numbers in expected(home).items():
        close = {name: pytest.approx(value) if isinstance(value, float) else value for name, value in numbers.items()}
        assert close in found[key], (key, found[key])


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def mosquitto(tmp_path):
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/sbin")
    if program is None:
        pytest.skip("mosquitto is not installed")
    number = port()
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {number} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 1000\n")
    process = subprocess.Popen([program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", number)) == 0:
                break
        time.sleep(0.05)
    yield number
    process.kill()
    process.wait()


def test_the_mqtt_loop_survives_a_kill(home, mosquitto):
    mqtt = pytest.importorskip("paho.mqtt.client")
    loop = Looped(home, program("MQTT", {'connect("broker")': f'connect("127.0.0.1", {mosquitto})'}))
    replies = []
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="test")
    client.on_message = lambda client, data, message: replies.append(message.payload)
    client.connect("127.0.0.1", mosquitto)
    client.subscribe("predictions", qos=1)
    client.loop_start()

    def receive():
        time.sleep(0.05)
        taken = replies[:]
        del replies[: len(taken)]
        return taken

    try:
        time.sleep(1)
        # The session of the loop exists from its first connection on; until then events would go nowhere.
        while not replies:
            client.publish("vitals/p9", b'{"patient": "p9", "charted_at": "2024-01-01 00:00", "pulse": 70}', qos=1)
            time.sleep(1)
        replies.clear()
        rows = [json.dumps(event).encode() for event in events()]
        for row in rows[: EVENTS // 2]:
            client.publish("vitals/a", row, qos=1)
        found = without_p9(collect(receive, EVENTS // 4, loop))
        loop.kill()
        for row in rows[EVENTS // 2 :]:
            client.publish("vitals/a", row, qos=1)
        loop.start()
        while len(found) < EVENTS:
            for key, answers in without_p9(collect(receive, 1, loop)).items():
                found.setdefault(key, []).extend(answers)
        check(found, home)
    finally:
        loop.kill()
        client.loop_stop()


def without_p9(found):
    return {key: replies for key, replies in found.items() if key[0] != "p9"}


def test_the_kafka_loop_survives_a_kill(home):
    """The mock broker of librdkafka speaks the protocol of Kafka, with consumer groups and committed offsets."""
    kafka = pytest.importorskip("confluent_kafka")
    host = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    address = ",".join(f"{one.host}:{one.port}" for one in host.list_topics(timeout=30).brokers.values())
    producer = kafka.Producer({"bootstrap.servers": address, "log_level": 0})
    about = {"bootstrap.servers": address, "group.id": "test", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = kafka.Consumer(about)
    rows = [json.dumps(event).encode() for event in events()]
    for row in rows[: EVENTS // 2]:
        producer.produce("vitals", row, partition=0)
    producer.flush(30)
    changes = {"broker:9092": address, '"group.id": "ward"': '"group.id": "ward", "session.timeout.ms": 6000'}
    loop = Looped(home, program("Kafka", changes))
    consumer.subscribe(["predictions"])

    def receive():
        return [one.value() for one in consumer.consume(100, timeout=0.1) if one.error() is None]

    try:
        found = collect(receive, EVENTS // 4, loop)
        loop.kill()
        for row in rows[EVENTS // 2 :]:
            producer.produce("vitals", row, partition=0)
        producer.flush(30)
        loop.start()
        while len(found) < EVENTS:
            for key, answers in collect(receive, 1, loop).items():
                found.setdefault(key, []).extend(answers)
        check(found, home)
    finally:
        loop.kill()
        consumer.close()
