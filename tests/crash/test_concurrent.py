"""Writers, readers and a collector at once, killed at random: an answer is the right bytes or none."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from memoryd.digest import address_of
from tests.crash.scale import scaled
from tests.crash.stores import open_store

WORKER = """
import sys, threading, random, time
from pathlib import Path
from memoryd.digest import address_of
from memoryd.errors import NotFound
from tests.crash.stores import open_store, put, write_again

store = open_store(Path(sys.argv[1]))
lane = threading.Lock()
told = []
turn = random.Random(int(sys.argv[2]))

def content(n):
    return (b"content %d " % n) * (1 + n % 50)

def write():
    while True:
        with lane:
            n = store.last_seq() + 1
            put(store, [content(n), content(n)[:-1]])
            told.append(n)
        sys.stdout.write(f"{n}\\n")
        sys.stdout.flush()

def read():
    mine = random.Random(threading.get_ident())
    while True:
        n = mine.choice(told) if told else 1
        try:
            if store.read(address_of(content(n))) != content(n):
                print("WRONG", n, flush=True)
        except NotFound:
            if n in told:
                print("LOST", n, flush=True)
        time.sleep(0)

def collect():
    while True:
        time.sleep(turn.random() / 20)
        with lane:
            write_again(store)

for work in (write, read, read, collect):
    threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""


def test_random_kills_of_writers_readers_and_a_collector(ram, count):
    told: set[int] = set()
    turn = random.Random(9)
    rounds = scaled(4, 20)
    home = ram / "home"
    for number in range(rounds):
        command = [sys.executable, "-c", WORKER, str(home), str(number)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(turn.random() * 0.6)
        process.kill()
        lines = [first.strip(), *process.stdout.read().split("\n")]
        process.wait()
        process.stdout.close()
        assert not [line for line in lines if line[:1] in ("W", "L")], lines
        told |= {int(line) for line in lines[:-1] if line.isdigit()}
        store = open_store(home)
        for n in told:
            content = (b"content %d " % n) * (1 + n % 50)
            assert store.read(address_of(content)) == content
        assert list(store.findings(read_data=True)) == []
        store.close()
    assert len(told) > rounds
    count("random kills of writers, readers and a collector", rounds)
    count("writes told of in these rounds, all there", len(told))
