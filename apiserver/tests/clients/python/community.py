"""lightkube, pykube-ng and kr8s as programs use them; what they see they print. The server is that of $KUBECONFIG."""
import json
import os
import time

import kr8s
import lightkube
import pykube
from kr8s.objects import ConfigMap as RoboMap
from kr8s.objects import Deployment as RoboDeployment
from kr8s.objects import new_class
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import CascadeType, PatchType

GROUP = "community.example.com"
NAMES = ["python-lightkube", "python-pykube", "python-kr8s"]


def say(title, *values):
    print(title + ":", *(json.dumps(value, sort_keys=True, default=str) for value in values))


def definition():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"toys.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "toys", "singular": "toy", "kind": "Toy"}, "versions": [version]}}


def deployment(name, namespace):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}


def toy(name, namespace, size):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": name, "namespace": namespace}, "spec": {"size": size}}


def with_lightkube():
    namespace = NAMES[0]
    client = lightkube.Client(config=lightkube.KubeConfig.from_file(os.environ["KUBECONFIG"]), namespace=namespace, field_manager="lightkube")
    for name in NAMES:
        client.create(Namespace(metadata=ObjectMeta(name=name)))
    client.create(CustomResourceDefinition.from_dict(definition()))
    client.wait(CustomResourceDefinition, f"toys.{GROUP}", for_conditions=["Established"])
    Toy = create_namespaced_resource(GROUP, "v1", "Toy", "toys")
    for _ in range(100):
        try:
            made = client.create(Toy.from_dict(toy("bear", namespace, 1)))
            break
        except ApiError as error:
            if error.status.code != 404:
                raise
            time.sleep(0.1)
    say("made", made.spec, made.metadata.generation)
    try:
        client.create(Toy.from_dict(toy("large", namespace, 9)))
    except ApiError as error:
        say("refused", error.status.code, error.status.reason, error.status.message)
    try:
        client.get(Toy, "none")
    except ApiError as error:
        say("absent", error.status.code, error.status.message)
    say("patched", client.patch(Toy, "bear", {"spec": {"size": 2}}, patch_type=PatchType.MERGE).spec)
    say("applied", client.apply(Toy.from_dict(toy("bear", namespace, 3)), force=True).spec)
    say("applied", client.apply(Toy.from_dict(toy("car", namespace, 1))).spec)
    client.patch(Toy.Status, "bear", {"status": {"phase": "Ready"}}, patch_type=PatchType.MERGE)
    say("listed", [(it.metadata.name, it.spec, it.status) for it in client.list(Toy)])
    web = client.create(Deployment.from_dict(deployment("web", namespace)))
    say("deployment", web.spec.replicas, web.spec.strategy.type, web.spec.template.spec.dnsPolicy)
    web = client.patch(Deployment, "web", {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}})
    say("strategic", [(it.name, it.image) for it in web.spec.template.spec.containers])
    scale = client.get(Deployment.Scale, "web")
    scale.spec.replicas = 4
    say("scaled", client.replace(scale, "web").spec.replicas)
    say("by field", [it.metadata.name for it in client.list(Deployment, fields={"metadata.name": "web"})])
    seen = []
    client.create(ConfigMap.from_dict({"metadata": {"name": "one", "labels": {"a": "b"}}, "data": {"a": "1"}}))
    for kind, it in client.watch(ConfigMap, labels={"a": "b"}, server_timeout=120):
        seen.append([kind, it.metadata.name, it.data])
        if kind == "ADDED":
            client.patch(ConfigMap, "one", {"data": {"a": "2"}})
        elif kind == "MODIFIED":
            client.delete(ConfigMap, "one", cascade=CascadeType.BACKGROUND, grace_period=0)
        else:
            break
    say("seen", *seen)
    client.deletecollection(Toy)
    say("left", [it.metadata.name for it in client.list(Toy)])


def with_pykube():
    namespace = NAMES[1]
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(os.environ["KUBECONFIG"]))
    Toy = pykube.object_factory(api, f"{GROUP}/v1", "Toy")
    say("factory", Toy.endpoint, Toy.kind)
    bear = Toy(api, toy("bear", namespace, 1))
    bear.create()
    say("exists", bear.exists(), bear.obj["metadata"]["generation"])
    bear.obj["spec"]["size"] = 2
    bear.update()
    say("updated", bear.obj["spec"])
    bear.patch({"spec": {"size": 3}})
    bear.patch({"status": {"phase": "Ready"}}, subresource="status")
    bear.reload()
    say("reloaded", bear.obj["spec"], bear.obj["status"], bear.obj["metadata"]["generation"])
    bear.annotations["note"] = "hello"
    bear.labels["a"] = "b"
    bear.update()
    say("chosen", [it.name for it in Toy.objects(api, namespace=namespace).filter(selector={"a": "b"})])
    say("labels", bear.labels, bear.annotations)
    try:
        Toy(api, toy("large", namespace, 9)).create()
    except pykube.exceptions.HTTPError as error:
        say("refused", error.code, str(error))
    pykube.Deployment(api, deployment("web", namespace)).create()
    web = pykube.Deployment.objects(api, namespace=namespace).get_by_name("web")
    say("deployment", web.replicas, web.obj["spec"]["strategy"])
    web.replicas = 3
    web.update()
    web.patch({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}})
    say("deployment", web.replicas, web.obj["spec"]["template"]["spec"]["containers"][0]["image"])
    one = pykube.ConfigMap(api, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": namespace}, "data": {"a": "1"}})
    one.create()
    seen = []
    query = pykube.ConfigMap.objects(api, namespace=namespace).filter(field_selector={"metadata.name": "one"})
    for event in query.watch():
        seen.append([event.type, event.object.name, event.object.obj["data"]])
        if event.type == "ADDED":
            one.patch({"data": {"a": "2"}})
        elif event.type == "MODIFIED":
            one.delete()
        else:
            break
    say("seen", *seen)
    bear.delete(propagation_policy="Background")
    say("gone", bear.exists())
    say("namespaces", NAMES[1] in [it.name for it in pykube.Namespace.objects(api)])


def with_kr8s():
    namespace = NAMES[2]
    api = kr8s.api(kubeconfig=os.environ["KUBECONFIG"], namespace=namespace)
    say("version", api.version()["minor"])
    say("kinds", sorted({it["kind"] for it in api.api_resources() if it["version"] == "apps/v1"}))
    Toy = new_class("Toy", version=f"{GROUP}/v1", namespaced=True)
    bear = Toy(toy("bear", namespace, 1), api=api)
    bear.create()
    bear.patch({"spec": {"size": 2}})
    bear.patch({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status")
    bear.wait("condition=Ready", timeout=120)
    bear.label({"a": "b"})
    bear.annotate({"note": "hello"})
    say("bear", bear.spec, bear.status, bear.labels, bear.annotations)
    say("listed", [it.name for it in api.get("toys.community.example.com", label_selector={"a": "b"})])
    try:
        Toy(toy("large", namespace, 9), api=api).create()
    except kr8s.ServerError as error:
        say("refused", error.response.status_code, json.loads(error.response.text)["message"])
    web = RoboDeployment(deployment("web", namespace), api=api)
    web.create()
    web.scale(0)
    web.refresh()
    say("deployment", web.replicas, web.spec["strategy"])
    one = RoboMap({"metadata": {"name": "one", "namespace": namespace, "labels": {"watched": "yes"}}, "data": {"a": "1"}}, api=api)
    one.create()
    seen = []
    for kind, it in api.watch("configmaps", namespace=namespace, label_selector="watched=yes"):
        seen.append([kind, it.name, dict(it.data)])
        if kind == "ADDED":
            one.patch({"data": {"a": "2"}})
        elif kind == "MODIFIED":
            one.delete()
        else:
            break
    say("seen", *seen)
    bear.delete()
    bear.wait("delete", timeout=120)
    say("gone", bear.exists())


with_lightkube()
with_pykube()
with_kr8s()
api = pykube.HTTPClient(pykube.KubeConfig.from_file(os.environ["KUBECONFIG"]))
pykube.CustomResourceDefinition.objects(api).get_by_name(f"toys.{GROUP}").delete()
for name in NAMES:
    pykube.Namespace.objects(api).get_by_name(name).delete()
