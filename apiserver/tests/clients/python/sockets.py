"""Watches over WebSockets, as clients begin them that cannot read a stream; what comes is printed. The server is that of $KUBECONFIG."""
import json
import os
import ssl

import websocket
from kubernetes import client, config

NAMESPACE = "python-sockets"


def say(title, *values):
    print(title + ":", *(json.dumps(value, sort_keys=True) for value in values))


def connect(configuration, path):
    context = {"ca_certs": configuration.ssl_ca_cert, "cert_reqs": ssl.CERT_REQUIRED}
    token = client.ApiClient().configuration.auth_settings()["BearerToken"]["value"]
    url = configuration.host.replace("https://", "wss://") + path
    return websocket.create_connection(url, header=["Authorization: " + token], sslopt=context, timeout=120)


def event(socket):
    found = json.loads(socket.recv())
    return [found["type"], found["object"]["metadata"].get("name"), found["object"].get("data")]


def refused(configuration, title, path):
    try:
        connect(configuration, path)
        say(title, "was not refused")
    except websocket.WebSocketBadStatusException as error:
        say(title, error.status_code, json.loads(error.resp_body)["message"])


config.load_kube_config(os.environ["KUBECONFIG"])
configuration = client.Configuration.get_default_copy()
core = client.CoreV1Api()
core.create_namespace({"metadata": {"name": NAMESPACE}})
maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=seen"
body = {"metadata": {"name": "one", "labels": {"seen": "yes"}}, "data": {"a": "1"}}
core.create_namespaced_config_map(NAMESPACE, body)

socket = connect(configuration, maps + "&watch=true")
say("first", event(socket))
socket.ping("are you there")
frame = socket.recv_frame()
say("answered", frame.opcode == websocket.ABNF.OPCODE_PONG, frame.data.decode())
core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"a": "ü" * 70000}})
kind, name, data = event(socket)
say("large", kind, name, len(data["a"]))
core.delete_namespaced_config_map("one", NAMESPACE)
kind, name, data = event(socket)
say("last", kind, name, len(data["a"]))
socket.close()

socket = connect(configuration, maps + "&watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
found = json.loads(socket.recv())
say("initial", found["type"], found["object"]["kind"], found["object"]["metadata"]["annotations"])
socket.close()

# Nothing is awaited before the end: on a busy machine it may come first.
socket = connect(configuration, maps + "&watch=true&timeoutSeconds=1")
opcode, content = socket.recv_data()
say("end", opcode == websocket.ABNF.OPCODE_CLOSE)
refused(configuration, "selector", maps + "&watch=true&fieldSelector=nonsense")
refused(configuration, "absent", "/api/v1/nothings?watch=true")
core.delete_namespace(NAMESPACE)
