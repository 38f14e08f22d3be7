"""Reads expositions and expressions with Prometheus' own client for Python and a parser of PromQL.

Takes JSON on standard input: `openmetrics` and `text` are expositions, `expressions` a list. Prints as JSON the series of both expositions
(name, labels, value), and for each expression the names of the metrics that it selects.
"""

import json
import sys

import promql_parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text


def series(families):
    return sorted([it.name, sorted(it.labels.items()), it.value] for family in families for it in family.samples)


def selected(node, names):
    name = getattr(node, "name", None)
    if isinstance(node, promql_parser.VectorSelector) and name:
        names.add(name)
    for part in ("lhs", "rhs", "expr", "param", "args", "vector_selector"):
        parts = getattr(node, part, None)
        for inner in parts if isinstance(parts, list) else [parts]:
            if inner is not None and not isinstance(inner, str):
                selected(inner, names)
    return sorted(names)


given = json.load(sys.stdin)
json.dump(
    {
        "openmetrics": series(openmetrics(given["openmetrics"])),
        "text": series(text(given["text"])),
        "expressions": [selected(promql_parser.parse(it), set()) for it in given["expressions"]],
    },
    sys.stdout,
)
