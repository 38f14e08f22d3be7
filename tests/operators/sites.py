import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, logger, **_):
    settings.execution.max_workers = 10
    settings.batching.worker_limit = 50
    logger.info("sites are served")


@kopf.on.create("sites.example.com", retries=5)
def publish(spec, name, namespace, patch, **_):
    pages = spec.get("pages", {})
    api = kubernetes.client.CoreV1Api()
    api.create_namespaced_config_map(namespace, {"metadata": {"name": name}, "data": pages})
    patch.status["pages"] = len(pages)


@kopf.on.delete("sites.example.com")
def withdraw(name, namespace, logger, **_):
    api = kubernetes.client.CoreV1Api()
    try:
        api.delete_namespaced_config_map(name, namespace)
    except kubernetes.client.ApiException as error:
        if error.status != 404:
            raise kopf.TemporaryError(f"{name} stays: {error.reason}", delay=10)
    logger.info(f"{name} is withdrawn")


@kopf.on.cleanup()
def end(logger, **_):
    logger.info("no site is served any more")
