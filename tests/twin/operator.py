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


def append(path, item):
    def function(body):
        *way, last = path.split(".")
        for key in way:
            body = body.setdefault(key, {})
        body.setdefault(last, []).append(item)

    return function


async def run_subs(handler, full_id):
    """Registers the sub-handlers in the form that the scenario asks for."""
    form = handler.get("form", "decorator")
    if form == "execute":
        return await kopf.execute(fns={sub["id"]: function(sub, full_id) for sub in handler["subs"]})
    for sub in handler["subs"]:
        if form == "decorator":
            kopf.subhandler(**options_of(sub))(function(sub, full_id))
        else:
            kopf.register(function(sub, full_id), **options_of(sub))


def function(handler, parent=None):
    if parent:
        full_id = parent + "/" + handler["id"]
    else:
        full_id = handler["id"] + ("/" + handler["field"] if "field" in handler else "")

    async def act(name, uid, patch, **kwargs):
        note(full_id, name, kwargs)
        attempt = ATTEMPTS.setdefault((full_id, uid), 0)
        ATTEMPTS[full_id, uid] += 1
        if "subs" in handler:
            await run_subs(handler, full_id)
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
            if word == "append":
                patch.fns.extend(append(path, item) for path, item in value.items())
            if word == "assign":
                patch.fns.append(lambda body, changes=value: merge(body, changes))
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


def options_of(handler):
    options = {key: handler[key] for key in ("id", "field", "retries", "timeout", "backoff", "deleted", "optional") if key in handler}
    if "errors" in handler:
        options["errors"] = kopf.ErrorsMode[handler["errors"].upper()]
    for key in ("labels", "annotations"):
        if key in handler:
            options[key] = criteria(handler[key])
    for key in ("value", "old", "new"):
        if key in handler:
            options[key] = criteria({key: handler[key]})[key]
    return options


def register(handler):
    options = options_of(handler)
    decorate = getattr(kopf.on, handler["on"])
    decorate(PLAN["group"], "v1", "kopfexamples", **options)(function(handler))


for each in PLAN["handlers"]:
    register(each)
