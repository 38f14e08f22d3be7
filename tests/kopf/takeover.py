"""A Kopf operator to be killed, and to take over: what it does is decided by the spec of each object."""

import asyncio
import os

import kopf

RESOURCE = (os.environ["TAKEOVER_GROUP"], "v1", "kopfexamples")


async def attempt(name, handler, spec, retry, logger):
    """Fails as often as the spec says, and hangs at the attempt the spec says, in Kopf only."""
    logger.info(f"attempt {handler} {name} {retry}")
    if spec.get("hangs") == f"{handler} {retry}":
        await asyncio.sleep(3600)
    if retry < spec.get("failures", {}).get(handler, 0):
        raise kopf.TemporaryError("not yet", delay=1)


@kopf.on.create(*RESOURCE)
async def first(name, spec, retry, logger, **_):
    await attempt(name, "first", spec, retry, logger)


@kopf.on.create(*RESOURCE)
async def second(name, spec, retry, logger, **_):
    await attempt(name, "second", spec, retry, logger)


@kopf.on.update(*RESOURCE, field="spec.size")
async def resize(name, spec, retry, logger, **_):
    await attempt(name, "resize", spec, retry, logger)


@kopf.on.delete(*RESOURCE)
async def remove(name, spec, retry, logger, **_):
    await attempt(name, "remove", spec, retry, logger)
