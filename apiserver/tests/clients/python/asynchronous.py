"""kubernetes_asyncio as programs use it; what it sees it prints. The server is that of $KUBECONFIG."""
import asyncio
import json
import os

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.rest import ApiException
from kubernetes_asyncio.dynamic import DynamicClient

NAMESPACE = "python-asynchronous"


def say(title, *values):
    print(title + ":", *(json.dumps(value, sort_keys=True) for value in values))


async def main():
    await config.load_kube_config(os.environ["KUBECONFIG"])
    async with ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.create_namespace({"metadata": {"name": NAMESPACE}})
        await asyncio.gather(*(core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"m{number}", "labels": {"m": "1"}}}) for number in range(20)))
        maps = await core.list_namespaced_config_map(NAMESPACE, label_selector="m")
        say("made", sorted(it.metadata.name for it in maps.items))

        seen = []

        async def follow():
            stream = watch.Watch()
            async with stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=maps.metadata.resource_version, label_selector="m", timeout_seconds=120) as events:
                async for event in events:
                    seen.append([event["type"], event["object"].metadata.name, event["object"].data])
                    if event["type"] == "DELETED":
                        return

        following = asyncio.create_task(follow())
        patched = await core.patch_namespaced_config_map("m1", NAMESPACE, {"data": {"a": "1"}})
        say("patched", patched.data)
        patched = await core.patch_namespaced_config_map("m1", NAMESPACE, [{"op": "add", "path": "/data/b", "value": "2"}], _content_type="application/json-patch+json")
        say("patched", patched.data)
        await core.delete_namespaced_config_map("m1", NAMESPACE)
        await following
        say("events", *seen)
        try:
            await core.read_namespaced_config_map("m1", NAMESPACE)
        except ApiException as error:
            say("gone", error.status, json.loads(error.body)["message"])
        dynamic = await DynamicClient(api)
        deployments = await dynamic.resources.get(api_version="apps/v1", kind="Deployment")
        made = await deployments.create(namespace=NAMESPACE, body={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "nginx"}]}}}})
        say("deployment", made.spec.replicas, made.spec.strategy.type)
        await core.delete_namespace(NAMESPACE)


asyncio.run(main())
