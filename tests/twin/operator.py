"""Kopf's side of the twin: the handlers of one scenario, as data in TWIN_PLAN, registered with Kopf."""

import asyncio
import json
import os
import pathlib

import kopf

PLAN = json.loads(os.environ["TWIN_PLAN"])
ATTEMPTS = {}
COUNT = 0
kopf.set_default_lifecycle(getattr(kopf.lifecycles, PLAN["lifecycle"]))


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False


def plain(value):
    """What Kopf hands out, as JSON."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()}


def note(handler, name, kwargs):
    global COUNT
    COUNT += 1
    call = {"number": COUNT, "id": handler, "name": name, "retry": kwargs.get("retry")}
    if "type" in kwargs:
        call["type"] = kwargs["type"]
    if kwargs.get("reason") is not None:
        call["reason"] = str(kwargs["reason"])
        call["old"] = plain(kwargs["old"])
        call["new"] = plain(kwargs["new"])
        call["diff"] = [[str(op), list(field), plain(old), plain(new)] for op, field, old, new in kwargs["diff"]]
    print("TWIN " + json.dumps(call), flush=True)


def merge(patch, changes):
    for key, value in changes.items():
        if isinstance(value, dict):
            merge(patch.setdefault(key, {}), value)
        else:
            patch[key] = value


def function(handler):
    async def act(name, uid, patch, **kwargs):
        full_id = handler["id"] + ("/" + handler["field"] if "field" in handler else "")
        note(full_id, name, kwargs)
        attempt = ATTEMPTS.setdefault((full_id, uid), 0)
        ATTEMPTS[full_id, uid] += 1
        script = handler.get("does", ["ok"])
        result = None
        step = script[min(attempt, len(script) - 1)]
        for action in step if isinstance(step, list) else [step]:
            word, value = (action, None) if isinstance(action, str) else next(iter(action.items()))
            if word == "temporary":
                raise kopf.TemporaryError("not yet", delay=value)
            if word == "permanent":
                raise kopf.PermanentError("never")
            if word == "error":
                raise RuntimeError("unexpected")
            if word == "patch":
                merge(patch, value)
            if word == "result":
                result = value
            if word == "sleep":
                await asyncio.sleep(value)
            if word == "hold":
                gate = pathlib.Path(os.environ["TWIN_GATES"], value)
                while not gate.exists():
                    await asyncio.sleep(0.02)
        return result

    return act


def criteria(mapping):
    words = {"PRESENT": kopf.PRESENT, "ABSENT": kopf.ABSENT}
    return {key: words.get(value, value) for key, value in mapping.items()}


def register(handler):
    options = {key: handler[key] for key in ("id", "field", "retries", "timeout", "backoff", "deleted", "optional") if key in handler}
    if "errors" in handler:
        options["errors"] = kopf.ErrorsMode[handler["errors"].upper()]
    for key in ("labels", "annotations"):
        if key in handler:
            options[key] = criteria(handler[key])
    for key in ("value", "old", "new"):
        if key in handler:
            options[key] = criteria({key: handler[key]})[key]
    decorate = getattr(kopf.on, handler["on"])
    decorate(PLAN["group"], "v1", "kopfexamples", **options)(function(handler))


for each in PLAN["handlers"]:
    register(each)
