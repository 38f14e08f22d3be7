"""One handler, for the scenarios of peering; the group of its kind is in $PEERING_GROUP."""

import os

import kopf


@kopf.on.create(os.environ["PEERING_GROUP"], "v1", "kopfexamples")
def create(name, logger, **_):
    logger.info(f"Kopf has seen {name}.")
