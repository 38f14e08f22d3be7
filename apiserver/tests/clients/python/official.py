"""The official Python client as scripts use it; what it sees it prints. The server is that of $KUBECONFIG."""
import json
import os
import sys
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

NAMESPACE = "python-official"
GROUP = "official.example.com"
config.load_kube_config(os.environ["KUBECONFIG"])
core, apps, batch = client.CoreV1Api(), client.AppsV1Api(), client.BatchV1Api()
custom, extensions = client.CustomObjectsApi(), client.ApiextensionsV1Api()


def say(title, *values):
    print(title + ":", *(json.dumps(client.ApiClient().sanitize_for_serialization(value), sort_keys=True) for value in values))


def refused(title, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        body = json.loads(error.body)
        say(title, error.status, error.reason, body.get("reason"), body.get("message"), body.get("details"))
    else:
        say(title, "was not refused")


def eventually(condition):
    for _ in range(2400):
        if condition():
            return True
        time.sleep(0.05)
    return False


def absent(call, *args):
    try:
        call(*args)
    except ApiException as error:
        return error.status == 404
    return False


def objects():
    made = core.create_namespaced_config_map(NAMESPACE, {
        "metadata": {"name": "one", "labels": {"app": "x"}}, "data": {"a": "1", "text": "\u00e4\u20ac\n"}, "binaryData": {"bytes": "AAEC"}})
    say("made", made.data, made.binary_data, made.metadata.labels, made.kind, made.api_version)
    made.data["b"] = "2"
    changed = core.replace_namespaced_config_map("one", NAMESPACE, made)
    say("replaced", changed.data)
    refused("outdated", core.replace_namespaced_config_map, "one", NAMESPACE, made)
    refused("twice", core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "one"}})
    refused("absent", core.read_namespaced_config_map, "none", NAMESPACE)
    refused("invalid", core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "Bad_Name"}})
    refused("wrong", core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "x"}, "data": {"a": 1}})
    refused("strict", core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "x"}, "dta": {}}, field_validation="Strict")
    refused("nowhere", core.create_namespaced_config_map, "nowhere", {"metadata": {"name": "x"}})
    dry = core.create_namespaced_config_map(NAMESPACE, {"metadata": {"generateName": "dry-"}}, dry_run="All")
    say("dry", len(dry.metadata.name))
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"many-{number}", labels={"many": str(number % 2)})))
    page = core.list_namespaced_config_map(NAMESPACE, label_selector="many", limit=2)
    while True:
        say("page", [item.metadata.name for item in page.items], page.metadata.remaining_item_count)
        if not page.metadata._continue:
            break
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="many", limit=2, _continue=page.metadata._continue)
    say("selected", len(core.list_namespaced_config_map(NAMESPACE, label_selector="many=1").items),
        len(core.list_config_map_for_all_namespaces(field_selector=f"metadata.name=one,metadata.namespace={NAMESPACE}").items))
    deleted = core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="many=0")
    say("deleted", deleted.kind, deleted.status)
    deleted = core.delete_namespaced_config_map("many-1", NAMESPACE, body=client.V1DeleteOptions(propagation_policy="Background"))
    say("deleted", deleted.kind, deleted.status, deleted.details.name, deleted.details.kind)


def patches():
    for body, kind in [
        ({"data": {"m": "1", "a": None}}, None),
        ({"data": {"m": "2"}}, "application/merge-patch+json"),
        ({"data": {"s": "1"}}, "application/strategic-merge-patch+json"),
        ([{"op": "add", "path": "/data/j", "value": "1"}], None),
        ([{"op": "replace", "path": "/data/j", "value": "2"}], "application/json-patch+json"),
    ]:
        extra = {"_content_type": kind} if kind else {}
        say("patched", kind, core.patch_namespaced_config_map("one", NAMESPACE, body, **extra).data)
    refused("no such path", core.patch_namespaced_config_map, "one", NAMESPACE, [{"op": "remove", "path": "/data/none"}])
    applied = core.patch_namespaced_config_map("applied", NAMESPACE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}},
                                               field_manager="python", _content_type="application/apply-patch+yaml")
    say("applied", applied.data, applied.metadata.managed_fields[0].manager, applied.metadata.managed_fields[0].operation)
    refused("conflict", core.patch_namespaced_config_map, "applied", NAMESPACE, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"}},
            field_manager="other", _content_type="application/apply-patch+yaml")


def workloads():
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "x"}), spec=client.V1PodSpec(
        containers=[client.V1Container(name="main", image="nginx:1", resources=client.V1ResourceRequirements(requests={"cpu": "100m"}))]))
    made = apps.create_namespaced_deployment(NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels={"app": "x"}), template=template)))
    say("deployment", made.spec.to_dict()["strategy"], made.spec.replicas, made.spec.template.spec.containers[0].image_pull_policy)
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    say("scale", scale.spec.replicas, scale.status.replicas, scale.status.selector)
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    say("scaled", scale.spec.replicas)
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}})
    say("containers", [it.name for it in patched.spec.template.spec.containers])
    status = apps.patch_namespaced_deployment_status("web", NAMESPACE, {"status": {"replicas": 5, "readyReplicas": 3, "availableReplicas": 3}})
    say("status", status.status.ready_replicas)
    pod = core.create_namespaced_pod(NAMESPACE, client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=template.spec))
    say("pod", pod.status.phase, pod.status.qos_class, pod.spec.restart_policy)
    gone = core.delete_namespaced_pod("p", NAMESPACE, grace_period_seconds=0)
    say("deleted", gone.kind if hasattr(gone, "kind") else None)
    job = batch.create_namespaced_job(NAMESPACE, {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "x"}]}}}})
    say("job", job.spec.parallelism, job.spec.backoff_limit, job.spec.completion_mode)
    secret = core.create_namespaced_secret(NAMESPACE, client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"a": "b"}))
    say("secret", secret.data, secret.type)
    event = core.create_namespaced_event(NAMESPACE, client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="e-"), reason="Tested", message="hello", type="Normal",
        involved_object=client.V1ObjectReference(kind="ConfigMap", name="one", namespace=NAMESPACE, api_version="v1")))
    say("event", event.reason, len(core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=one").items))


def watches():
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for name in ["w1", "w2"]:
        core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name, "labels": {"watched": "1"}}})
    core.patch_namespaced_config_map("w1", NAMESPACE, {"data": {"a": "1"}})
    core.delete_namespaced_config_map("w2", NAMESPACE)
    stream, seen = watch.Watch(), 0
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version, label_selector="watched", timeout_seconds=120):
        say("event", event["type"], event["object"].metadata.name, event["object"].data, event["raw_object"]["kind"])
        seen += 1
        if seen == 4:
            stream.stop()
    say("timed out", [event["type"] for event in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, label_selector="none", timeout_seconds=1)])


def definition():
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"toys.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "toys", "singular": "toy", "kind": "Toy"}, "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}, "colour": {"type": "string", "default": "red"}, "replicas": {"type": "integer"}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}


def customs():
    made = extensions.create_custom_resource_definition(definition())
    say("defined", made.spec.names, made.spec.scope)
    say("established", eventually(lambda: any(
        it.type == "Established" and it.status == "True" for it in extensions.read_custom_resource_definition(f"toys.{GROUP}").status.conditions or [])))
    where = (GROUP, "v1", NAMESPACE, "toys")
    say("served", eventually(lambda: not absent(custom.list_namespaced_custom_object, *where)))
    toy = custom.create_namespaced_custom_object(*where, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "bear"}, "spec": {"size": 3}})
    say("toy", toy["spec"], toy["metadata"]["generation"])
    refused("too large", custom.create_namespaced_custom_object, *where, {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "x"}, "spec": {"size": 7}})
    patched = custom.patch_namespaced_custom_object(*where, "bear", {"spec": {"colour": "blue"}})
    say("patched", patched["spec"])
    status = custom.patch_namespaced_custom_object_status(*where, "bear", {"status": {"phase": "Ready"}})
    say("status", status["status"], status["metadata"]["generation"])
    say("scale", custom.patch_namespaced_custom_object_scale(*where, "bear", {"spec": {"replicas": 2}})["spec"])
    say("listed", [it["metadata"]["name"] for it in custom.list_namespaced_custom_object(*where)["items"]])
    stream = watch.Watch()
    for event in stream.stream(custom.list_namespaced_custom_object, *where, timeout_seconds=120):
        say("event", event["type"], event["object"]["metadata"]["name"])
        stream.stop()
    deleted = custom.delete_namespaced_custom_object(*where, "bear")
    say("deleted", deleted["kind"], deleted["status"])


def dynamics():
    user = dynamic.DynamicClient(client.ApiClient())
    say("version", user.version["kubernetes"]["minor"])
    toys = user.resources.get(api_version=f"{GROUP}/v1", kind="Toy")
    say("resource", toys.name, toys.namespaced, sorted(toys.verbs), sorted(toys.subresources))
    made = toys.create(namespace=NAMESPACE, body={"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "car"}, "spec": {"size": 1}})
    say("made", made.spec.to_dict())
    applied = toys.server_side_apply(namespace=NAMESPACE, name="car", field_manager="dynamic", force_conflicts=True, body={
        "apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "car"}, "spec": {"size": 2}})
    say("applied", applied.spec.to_dict())
    patched = toys.patch(namespace=NAMESPACE, name="car", body={"spec": {"size": 4}}, content_type="application/merge-patch+json")
    say("patched", patched.spec.size)
    say("status", toys.status.patch(namespace=NAMESPACE, name="car", body={"status": {"a": 1}}, content_type="application/merge-patch+json").status.to_dict())
    for event in toys.watch(namespace=NAMESPACE, timeout=1):
        say("event", event["type"], event["object"].metadata.name)
    say("listed", [it.metadata.name for it in toys.get(namespace=NAMESPACE).items])
    toys.delete(name="car", namespace=NAMESPACE)
    maps = user.resources.get(api_version="v1", kind="ConfigMap")
    say("map", maps.get(name="one", namespace=NAMESPACE).data.to_dict())
    say("search", sorted(it.kind for it in user.resources.search(group="apps", api_version="v1") if not it.kind.endswith("List")))


def files():
    for text in [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bob"}},
                                                       {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": []}]},
    ]:
        utils.create_from_dict(client.ApiClient(), text, namespace=NAMESPACE)
    say("from files", core.read_namespaced_service("svc", NAMESPACE).spec.cluster_ip, core.read_namespaced_service_account("bob", NAMESPACE).metadata.name)
    review = client.AuthorizationV1Api().create_self_subject_access_review({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": NAMESPACE}}})
    say("allowed", review.status.allowed)


def elections():
    def lead():
        lock = core.read_namespaced_config_map("leader", NAMESPACE)
        record = json.loads(lock.metadata.annotations["control-plane.alpha.kubernetes.io/leader"])
        say("leads", record["holderIdentity"], record["leaseDurationSeconds"])
        leave()

    lock = ConfigMapLock("leader", NAMESPACE, "me")
    leaderelection.LeaderElection(electionconfig.Config(lock, lease_duration=5, renew_deadline=4, retry_period=1, onstarted_leading=lead, onstopped_leading=None)).run()


def leave():
    extensions.delete_custom_resource_definition(f"toys.{GROUP}")
    core.delete_namespace(NAMESPACE)
    say("left", eventually(lambda: absent(core.read_namespace, NAMESPACE)))
    sys.stdout.flush()
    # The election knows no end.
    os._exit(0)


say("version", client.VersionApi().get_code().minor)
say("groups", [it.name for it in client.ApisApi().get_api_versions().groups if it.name in ("apps", "batch")])
core.create_namespace({"metadata": {"name": NAMESPACE}})
objects()
patches()
workloads()
watches()
customs()
dynamics()
files()
elections()
