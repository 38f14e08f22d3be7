import kopf


def is_gold(labels, spec, **_):
    return labels.get("tier") == "gold" and spec.get("seats", 0) > 10


@kopf.on.create("tenants.example.com", when=is_gold)
@kopf.on.resume("tenants.example.com", when=is_gold)
def welcome(name, reason, patch, logger, **_):
    if reason == "create":
        logger.info(f"{name} is new, and gold")
    patch.metadata.labels["example.com/support"] = "phone"


@kopf.on.field("tenants.example.com", field="spec.seats")
def count(old, new, **_):
    return {"more": (new or 0) - (old or 0)}


@kopf.on.delete("tenants.example.com", annotations={"keep": "yes"})
def keep(name, **_):
    raise kopf.TemporaryError(f"{name} is to be kept", delay=60)
