"""Reviews as a user of Kopf answers them: one function denies objects, another one sets a label."""

import os

import kopf

KIND = ("bench.kopf.rs", "v1", "benchobjs")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.enabled = False
    folder = os.environ["BENCH_CERTIFICATES"]
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=int(os.environ["BENCH_PORT"]),
        certfile=f"{folder}/tls.crt",
        pkeyfile=f"{folder}/tls.key",
    )


@kopf.on.validate(*KIND)
async def valid(spec, **_):
    if spec["n"] < 0:
        raise kopf.AdmissionError("spec.n must not be negative", code=422)


@kopf.on.mutate(*KIND)
async def labelled(patch, **_):
    patch.metadata.labels["bench"] = "yes"
