import kopf


@kopf.on.field("configmaps", field="metadata.labels.greet")
async def greet(new, name, patch, logger, **_):
    if new == "loudly":
        greeting = f"HELLO, {name.upper()}!"
    elif new == "softly":
        greeting = f"hello, {name}"
    elif new is None:
        return
    else:
        raise kopf.PermanentError(f"label greet is {new!r}: expected loudly or softly")
    logger.info(f"the greeting is {greeting!r}")
    patch.setdefault("data", {})["greeting"] = greeting
