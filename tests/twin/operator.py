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
    settings.posting.enabled = PLAN["posting"]
    settings.background.cancellation_polling = 1


def plain(value):
    """What Kopf hands out, as JSON."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()}


def note(handler, name, kwargs, word=None):
    """A call of a handler, or what it says itself."""
    global COUNT
    COUNT += 1
    call = {"number": COUNT, "id": handler, "name": name, "retry": kwargs.get("retry")}
    if word is not None or "type" in kwargs:
        call["type"] = word if word is not None else kwargs["type"]
    elif kwargs.get("reason") is not None:
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


def contains(whole, part):
    if isinstance(part, dict) and whole is not None:
        return all(contains(whole.get(key), test) for key, test in part.items())
    return whole == part


def shown(index):
    """All of an index: each key with its values, sorted."""

    def line(key):
        values = (json.dumps(plain(value), separators=(",", ":"), sort_keys=True) for value in index[key])
        return f"{key}={','.join(sorted(values))}"

    return " ".join(sorted(line(key) for key in index))


def reasons(stopped):
    """Why a daemon or timer is to end, but for the mark that it has."""
    reason = stopped.reason
    return "|".join(each.name for each in type(reason) if reason is not None and each in reason and each.name != "DONE")


async def told(word, stopped):
    await stopped.wait()
    while word not in reasons(stopped):
        await asyncio.sleep(0.02)


def connection(options):
    """Credentials with the administrator's token, or with one that the server refuses."""
    server = json.loads(os.environ["TWIN_SERVER"])
    token = server["token"] if options["token"] == "good" else "wrong"
    return kopf.ConnectionInfo(server=server["server"], ca_path=server["ca_path"], token=token, priority=options.get("priority", 0))


def post(options, body):
    how = options.pop("how")
    if how == "exception":
        options["exc"] = RuntimeError(options.pop("error"))
    getattr(kopf, how)(body, **options)


def make(options):
    """What becomes of objects that are made for the one that is handled."""
    of = options.pop("of")
    getattr(kopf, options.pop("how"))(of, **options)
    return {"made": of}


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

    async def act(name=None, uid="", patch=None, **kwargs):
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
            if word == "note":
                note(full_id, name, kwargs, value)
            if word == "told":
                await told(value, kwargs["stopped"])
                note(full_id, name, kwargs, reasons(kwargs["stopped"]))
            if word == "linger":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    note(full_id, name, kwargs, "cut off")
                    raise
            if word == "see":
                while not contains(kwargs["body"], value):
                    await asyncio.sleep(0.02)
            if word == "count":
                result = kwargs["memo"]["count"] = kwargs["memo"].get("count", 0) + 1
            if word == "read":
                note(full_id, name, kwargs, f"{value}[{shown(kwargs[value])}]")
            if word == "login":
                result = connection(value)
            if word == "post":
                post(dict(value), kwargs["body"])
            if word == "make":
                result = make(json.loads(json.dumps(value)))
        return result

    return act


def index_function(handler):
    """Returns what the object says at a path of its spec, in the form that it says it in."""

    async def index(spec, **_):
        said = spec.get(handler["from"])
        if said is None:
            return None
        word, value = next(iter(said.items()))
        if word == "temporary":
            raise kopf.TemporaryError("not yet", delay=value)
        if word == "permanent":
            raise kopf.PermanentError("never")
        if word == "error":
            raise RuntimeError("unexpected")
        if word == "slow":
            await asyncio.sleep(1)
        if word == "plain":
            return plain(value)
        return {key: None if each == "NONE" else plain(each) for key, each in value.items()}

    return index


def criteria(mapping):
    words = {"PRESENT": kopf.PRESENT, "ABSENT": kopf.ABSENT}
    return {key: words.get(value, value) for key, value in mapping.items()}


def options_of(handler):
    names = ("id", "field", "retries", "timeout", "backoff", "deleted", "optional", "initial_delay", "interval", "sharp", "idle")
    names += ("cancellation_backoff", "cancellation_timeout", "cancellation_polling")
    options = {key: handler[key] for key in names if key in handler}
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
    if handler["on"] in ("startup", "cleanup", "login", "probe"):
        decorate(**options)(function(handler))
    else:
        called = index_function(handler) if handler["on"] == "index" else function(handler)
        decorate(PLAN["group"], "v1", "kopfexamples", **options)(called)


for each in PLAN["handlers"]:
    register(each)
