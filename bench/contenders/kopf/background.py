"""A timer and a daemon, each for the objects with its label: they say when they were called, and do nothing else."""

import os
import time

import kopf

INTERVAL = float(os.environ["BENCH_INTERVAL"])
KIND = ("bench.kopf.rs", "v1", "benchobjs")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False


def say(word, name):
    print(f"{word} {name} {time.time():.6f}", flush=True)


@kopf.timer(*KIND, interval=INTERVAL, labels={"bench": "timer"})
async def ticked(name, **_):
    say("tick", name)


@kopf.daemon(*KIND, labels={"bench": "daemon"})
async def lived(name, stopped, **_):
    while not stopped:
        say("tick", name)
        await stopped.wait(INTERVAL)


@kopf.on.create(*KIND, labels={"bench": "probe"})
async def created(name, **_):
    say("created", name)
