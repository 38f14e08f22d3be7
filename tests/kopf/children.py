"""A Kopf operator with sub-handlers, to be killed, and to take over: what it does is decided by the spec of each object."""

import asyncio
import os

import kopf

RESOURCE = (os.environ["TAKEOVER_GROUP"], "v1", "kopfexamples")


def attempting(handler):
    """A handler that fails as often as the spec says, and hangs at the attempt the spec says."""

    async def attempt(name, body, retry, logger, **_):
        spec = body.spec
        logger.info(f"attempt {handler} {name} {retry}")
        if spec.get("hangs") == f"{handler} {retry}":
            await asyncio.sleep(3600)
        if retry < spec.get("failures", {}).get(handler, 0):
            raise kopf.TemporaryError("not yet", delay=1)

    return attempt


@kopf.on.create(*RESOURCE)
async def parent(**_):
    kopf.subhandler(id="one")(attempting("parent/one"))
    kopf.subhandler(id="two")(attempting("parent/two"))

    @kopf.subhandler(id="mid")
    async def middle(**_):
        kopf.subhandler(id="leaf")(attempting("parent/mid/leaf"))


@kopf.on.update(*RESOURCE, field="spec")
async def change(**_):
    kopf.subhandler(id="resize", field="size")(attempting("resize"))


@kopf.on.delete(*RESOURCE)
async def end(**_):
    kopf.subhandler(id="remove")(attempting("remove"))
