"""An index of objects by a number: says when the index is complete, and how fast it is read."""

import time

import kopf

SPAN = 2.0
BATCH = 1_000


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False


@kopf.index("bench.kopf.rs", "v1", "benchobjs")
async def names(spec, name, **_):
    return {spec["n"]: name}


@kopf.on.create("bench.kopf.rs", "v1", "myapps")
def asked(name, names, **_):
    count = len(names)
    if name == "ready":
        print(f"ready {count} {time.time():.6f}", flush=True)
        return
    began = time.monotonic()
    found = 0
    while time.monotonic() - began < SPAN:
        for n in range(found, found + BATCH):
            next(iter(names[n % count]))
        found += BATCH
    print(f"lookups {found} {time.monotonic() - began:.6f}", flush=True)
