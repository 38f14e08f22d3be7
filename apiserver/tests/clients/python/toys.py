"""An operator on Kopf, and its user, in one program; what both see is printed. The server is that of $KUBECONFIG."""
import asyncio
import base64
import json
import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.request

import kopf
import yaml

NAMESPACE = "python-kopf"
GROUP = "kopf.example.com"
TOYS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/toys"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
calls, lock = [], threading.Lock()


def say(title, *values):
    print(title + ":", *(json.dumps(value, sort_keys=True) for value in values), flush=True)


def called(*what):
    with lock:
        calls.append(" ".join(str(it) for it in what))


def count(text):
    with lock:
        return sum(text in call for call in calls)


def eventually(condition):
    for _ in range(2400):
        if condition():
            return True
        time.sleep(0.05)
    return False


# The operator.

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = True
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.watching.server_timeout = 10
    settings.batching.worker_limit = 5


@kopf.on.resume("toys")
def resumed(name, **_):
    called("resumed", name)


@kopf.on.create("toys")
def created(spec, name, namespace, body, patch, **_):
    called("created", name)
    patch.status["phase"] = "Made"
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-child"}, "data": {"size": str(spec.get("size"))}}
    kopf.adopt(child)
    ask("POST", MAPS, child)
    kopf.info(body, reason="Made", message=f"{name} is made")
    return {"size": spec.get("size")}


@kopf.on.update("toys")
def updated(name, diff, **_):
    called("updated", name, json.dumps(list(diff)))


@kopf.on.field("toys", field="spec.colour")
def coloured(name, old, new, **_):
    called("coloured", name, old, new)


@kopf.on.create("toys", annotations={"flaky": "yes"}, id="flaky")
def flaky(name, retry, **_):
    called("flaky", name, retry)
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.2)


@kopf.on.delete("toys")
def deleted(name, **_):
    called("deleted", name)


@kopf.timer("toys", interval=0.3, annotations={"timed": "yes"})
def timed(name, **_):
    called("timed", name)


@kopf.daemon("toys", annotations={"daemon": "yes"}, cancellation_timeout=2)
async def daemon(name, stopped, **_):
    called("daemon starts", name)
    await stopped.wait()
    called("daemon stops", name)


@kopf.on.event("v1", "configmaps", labels={"watched": "yes"})
def seen(type, name, **_):
    called("seen", type, name)


@kopf.index("toys")
def by_colour(spec, name, **_):
    return {spec.get("colour", "none"): name}


@kopf.on.field("toys", field="spec.ask")
def asked(by_colour, **_):
    called("index", json.dumps(sorted(by_colour.get("red", []))))


@kopf.on.probe(id="alive")
def alive(**_):
    return True


class Operator:
    """A run of the operator."""

    def __enter__(self):
        self.ready, self.stop = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        say("ready", self.ready.wait(60))
        return self

    def run(self):
        asyncio.run(kopf.operator(namespaces=[NAMESPACE], peering_name="default", standalone=False, priority=7, ready_flag=self.ready, stop_flag=self.stop))

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(60)
        say("stopped", not self.thread.is_alive())


# Its user.

def connection():
    with open(os.environ["KUBECONFIG"]) as file:
        content = yaml.safe_load(file)
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=authority and base64.b64decode(authority).decode())
    return cluster["server"], user["token"], context


def ask(method, path, body=None, kind="application/json"):
    server, token, context = connection()
    request = urllib.request.Request(server + path, method=method, data=json.dumps(body).encode() if body is not None else None,
                                     headers={"Authorization": f"Bearer {token}", "Content-Type": kind})
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        # Paths that are not served yet are refused in plain words.
        return {"code": error.code}


def merge(path, body):
    return ask("PATCH", path, body, "application/merge-patch+json")


def define(plural, kind, group, **fields):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [{
            "name": "v1", "served": True, "storage": True, **fields,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
    ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    # Kopf finds kinds by discovery, which may come after the kind itself.
    found = lambda: any(it["name"] == group for it in ask("GET", "/apis")["groups"]) and any(
        it["name"] == plural for it in ask("GET", f"/apis/{group}/v1").get("resources", []))
    say("served", plural, eventually(lambda: "items" in ask("GET", f"/apis/{group}/v1/namespaces/{NAMESPACE}/{plural}") and found()))


def toy(name, annotations=None, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def show(name):
    it = ask("GET", f"{TOYS}/{name}")
    annotations = it["metadata"].get("annotations", {})
    last = json.loads(annotations.pop("kopf.zalando.org/last-handled-configuration", "null"))
    say("toy", name, it.get("spec"), it.get("status"), it["metadata"].get("finalizers"), sorted(annotations), last and last.get("spec"))


def main():
    # What Kopf says of its own life differs from run to run.
    logging.disable(logging.CRITICAL)
    ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    define("toys", "Toy", GROUP, subresources={"status": {}})
    define("kopfpeerings", "KopfPeering", "kopf.dev")
    peering = f"/apis/kopf.dev/v1/namespaces/{NAMESPACE}/kopfpeerings"
    ask("POST", peering, {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}})
    ask("POST", TOYS, toy("before", size=1))
    with Operator():
        say("handled", eventually(lambda: count("created before")), count("resumed before"))
        say("peers", eventually(lambda: len(ask("GET", f"{peering}/default").get("status", {})) == 1),
            [it["priority"] for it in ask("GET", f"{peering}/default")["status"].values()])
        ask("POST", TOYS, toy("bear", size=3, colour="red"))
        say("handled", eventually(lambda: count("created bear") and "status" in ask("GET", f"{TOYS}/bear") and "created" in ask("GET", f"{TOYS}/bear")["status"]))
        show("bear")
        child = ask("GET", f"{MAPS}/bear-child")
        say("child", child["data"], child["metadata"]["ownerReferences"][0]["kind"], child["metadata"]["ownerReferences"][0]["name"])
        say("event", eventually(lambda: any(it["reason"] == "Made" for it in ask("GET", f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name=bear")["items"])))
        merge(f"{TOYS}/bear", {"spec": {"colour": "blue"}})
        say("handled", eventually(lambda: count("coloured bear red blue") and count("updated bear")))
        say("calls", sorted(call for call in calls if call.startswith("updated bear")))
        ask("POST", TOYS, toy("shaky", {"flaky": "yes"}, size=2))
        say("handled", eventually(lambda: count("flaky shaky") == 3 and "created" in (ask("GET", f"{TOYS}/shaky").get("status") or {})))
        say("idle", eventually(lambda: "kopf" not in (ask("GET", f"{TOYS}/shaky").get("status") or {})))
        show("shaky")
        ask("POST", TOYS, toy("clock", {"timed": "yes"}))
        say("timed", eventually(lambda: count("timed clock") > 2))
        ask("POST", TOYS, toy("ghost", {"daemon": "yes"}))
        say("daemon", eventually(lambda: count("daemon starts ghost")))
        merge(f"{TOYS}/bear", {"spec": {"colour": "red", "ask": 1}})
        say("index", eventually(lambda: count("index")), sorted(call for call in calls if call.startswith("index")))
        ask("POST", MAPS, {"metadata": {"name": "seen", "labels": {"watched": "yes"}}})
        merge(f"{MAPS}/seen", {"data": {"a": "1"}})
        ask("DELETE", f"{MAPS}/seen")
        say("seen", eventually(lambda: count("seen DELETED")))
        ask("DELETE", f"{TOYS}/ghost")
        say("daemon", eventually(lambda: count("daemon stops ghost")), eventually(lambda: ask("GET", f"{TOYS}/ghost").get("code") == 404))
    say("peers", eventually(lambda: not ask("GET", f"{peering}/default").get("status")))
    merge(f"{TOYS}/bear", {"spec": {"size": 4}})
    calls.clear()
    with Operator():
        say("handled", eventually(lambda: count("updated bear") and count("resumed bear") and count("resumed before") and count("resumed shaky")), count("created"))
        ask("DELETE", f"{TOYS}/bear")
        say("gone", eventually(lambda: ask("GET", f"{TOYS}/bear").get("code") == 404), count("deleted bear"))
        say("collected", eventually(lambda: ask("GET", f"{MAPS}/bear-child").get("code") == 404))
        for name in ["before", "shaky", "clock"]:
            ask("DELETE", f"{TOYS}/{name}")
        say("gone", eventually(lambda: not ask("GET", TOYS)["items"]), sorted(call for call in calls if call.startswith("deleted")))
    for plural, group in [("toys", GROUP), ("kopfpeerings", "kopf.dev")]:
        ask("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")
    ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


main()
