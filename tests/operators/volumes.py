import kopf
import kubernetes


@kopf.on.create("volumes.example.com")
def create(spec, name, namespace, logger, **_):
    size = spec.get("size")
    if not size:
        raise kopf.PermanentError(f"spec.size must be set, and not {size!r}")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    api = kubernetes.client.CoreV1Api()
    api.create_namespaced_persistent_volume_claim(namespace, claim)
    logger.info(f"claim {name} is made")
    return {"claim": name}


@kopf.on.update("volumes.example.com", field="spec.size")
def resize(new, name, namespace, **_):
    api = kubernetes.client.CoreV1Api()
    patch = {"spec": {"resources": {"requests": {"storage": new}}}}
    api.patch_namespaced_persistent_volume_claim(name, namespace, patch)
