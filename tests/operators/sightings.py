import kopf


@kopf.on.event("pods", labels={"watched": kopf.PRESENT})
def see(event, memo, name, logger, **_):
    memo.seen = memo.get("seen", 0) + 1
    if event["type"] == "DELETED":
        logger.info(f"{name} was seen {memo.seen} times")


@kopf.on.update("pods", labels={"watched": kopf.PRESENT})
def tell(diff, name, logger, **_):
    for op, field, old, new in diff:
        if field[0] == "spec":
            logger.info(f"{op} of {'.'.join(field)} in {name}: from {old} to {new}")
