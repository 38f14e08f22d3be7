import functools

import kopf


@kopf.on.create("shops.example.com")
@kopf.on.update("shops.example.com", field="spec.items")
async def stock(spec, **_):
    items = spec.get("items", [])
    for item in items:
        kopf.register(functools.partial(fill, item=item), id=item, retries=3)
    await kopf.execute()
    return len(items)


async def fill(item, retry, logger, **_):
    if item == "rare" and retry < 2:
        raise kopf.TemporaryError(f"{item} has not come yet", delay=30)
    logger.info(f"{item} is in stock")
    return {"filled": True}
