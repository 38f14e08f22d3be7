"""What Kopf itself writes, for many handler ids, records and essences: one JSON document, for the Rust side to repeat."""

import json
import random

import kopf
from kopf._cogs.structs.bodies import Body
from kopf._cogs.structs.patches import Patch

PREFIXES = ["kopf.zalando.org", "my-op.example.com", "kopf.example.com", "x" * 60 + ".example.com"]
TIME = "2026-11-21T04:02:54.519710+00:00"
RECORDS = [
    dict(started=TIME, stopped=None, delayed=None, purpose="create", retries=0, success=False, failure=False, message=None, subrefs=None),
    dict(started=TIME, stopped=None, delayed="2027-01-01T00:00:00.000000+00:00", purpose="update", retries=3, success=False,
         failure=False, message="not yet: \u00e4\u20ac\U0001f600 \"quoted\" \\ \x7f\n\t\x01", subrefs=None),
    dict(started=TIME, stopped=TIME, delayed=None, purpose=None, retries=7, success=True, failure=False, message=None,
         subrefs=["fn/a", "fn/b"]),
    dict(started=TIME, stopped=TIME, delayed=None, purpose="delete", retries=1, success=False, failure=True, message="", subrefs=None),
]
BODIES = [
    {"kind": "KopfExample", "metadata": {}},
    {"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}},
    {"kind": "KopfExample", "metadata": {"annotations": {p + "/kopf-managed": "yes" for p in PREFIXES}}},
]
ESSENCES = [
    {},
    {"spec": {"field": "v"}},
    {"spec": {"a": 1, "b": [1.0, 1e16, 1e-5, 0.1, -0.0, 1e22, 123456789012345680.0], "c": None, "d": True}, "zeta": {"k": "\u00fc\x7f\u2028"},
     "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y\n"}}, "status": {"s": [[], {}]}},
]


def ids():
    source = random.Random(7)
    yield from ["create_fn", "create_fn/item1", "Cls.method.<locals>.fn", "fn/spec.template.metadata", "touch"]
    for length in list(range(1, 75)) + [80, 100, 189, 190, 200, 253, 300]:
        yield "x" * length
        yield "fn/" + "y" * length
        alphabet = "abcXYZ019/<>-_."
        yield "a" + "".join(source.choice(alphabet) for _ in range(length)) + "z"


def annotations_of(store):
    patch = Patch()
    store(patch)
    return json.loads(json.dumps(dict(patch)))


def progress(storage, ids, bodies):
    for handler_id in ids:
        for number, record in enumerate(RECORDS):
            body = bodies[number % len(bodies)]
            patch = annotations_of(lambda patch: storage.store(key=handler_id, record=record, body=Body(body), patch=patch))
            yield dict(id=handler_id, body=body, record={k: v for k, v in record.items() if v is not None}, patch=patch)


def diff_base(storage):
    for essence in ESSENCES:
        for body in BODIES:
            patch = annotations_of(lambda patch: storage.store(essence=essence, body=Body(body), patch=patch))
            yield dict(essence=essence, body=body, patch=patch)


result = {"version": kopf.__version__ if hasattr(kopf, "__version__") else None, "progress": [], "diff_base": []}
for prefix in PREFIXES:
    for v1 in [True, False]:
        for verbose in [False, True]:
            storage = kopf.AnnotationsProgressStorage(prefix=prefix, v1=v1, verbose=verbose)
            cases = list(progress(storage, ids(), BODIES))
            result["progress"].append(dict(kind="annotations", prefix=prefix, v1=v1, verbose=verbose, cases=cases))
        storage = kopf.AnnotationsDiffBaseStorage(prefix=prefix, v1=v1)
        result["diff_base"].append(dict(kind="annotations", prefix=prefix, v1=v1, cases=list(diff_base(storage))))
short = ["create_fn", "create_fn/item1", "x" * 100]
result["progress"].append(dict(kind="status", cases=list(progress(kopf.StatusProgressStorage(), short, BODIES))))
result["progress"].append(dict(kind="smart", cases=list(progress(kopf.SmartProgressStorage(), short, BODIES))))
result["diff_base"].append(dict(kind="status", cases=list(diff_base(kopf.StatusDiffBaseStorage()))))
print(json.dumps(result))
