import kopf

ENGINES = ["postgres", "mysql"]


@kopf.on.create("databases.example.com", timeout=600, backoff=10)
async def wait(spec, status, patch, retry, runtime, logger, **_):
    engine = spec.get("engine")
    if engine not in ENGINES:
        raise kopf.PermanentError(f"spec.engine is {engine!r}: expected one of {ENGINES}")
    if status.get("phase") != "Running":
        raise kopf.TemporaryError(f"not running after {runtime}", delay=5)
    patch.status["ready"] = True
    patch.metadata.annotations["example.com/attempts"] = str(retry + 1)
    logger.info(f"{engine} is ready")


@kopf.on.update("databases.example.com", field="spec.engine")
async def refuse(old, new, **_):
    raise kopf.PermanentError(f"a database of {old} cannot become one of {new}")


@kopf.on.delete("databases.example.com", optional=True)
async def gone(name, logger, **_):
    logger.info(f"{name} is gone")
