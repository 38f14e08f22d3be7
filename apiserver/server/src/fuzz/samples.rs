//! The inputs for fuzzing before mutation: small valid examples of all parts of requests.
//!
//! Guarantees that each sample is accepted unchanged. Must not depend on targets.

/// Paths with queries.
pub(super) const PATHS: &[&str] = &[
    "/api/v1/namespaces/default/pods/x/status?fieldManager=me&dryRun=All",
    "/apis/apps/v1/namespaces/default/deployments?limit=5&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "/api/v1/watch/namespaces/default/configmaps/x?resourceVersion=1&timeoutSeconds=3",
    "/apis/demo.example/v1/namespaces/a%2Fb/myapps?labelSelector=a%3Db%2Cc+in+(d)&fieldSelector=metadata.name%3Dx",
    "/api/v1/namespaces/default/finalize",
    "/openapi/v3/apis/apps/v1?hash=1",
];

/// Label selectors, with field selectors on the second line.
pub(super) const SELECTORS: &[&str] = &[
    "a=b,c!=d,e in (f,g),h notin (i),!j,k\nmetadata.name=x,status.phase!=Running",
    "app.kubernetes.io/name == web , tier\nspec.nodeName=,involvedObject.name=a\\,b",
    "x>1,y<2\nmetadata.namespace=default",
];

/// JSON patches.
pub(super) const JSON_PATCHES: &[&str] = &[
    r#"[{"op":"add","path":"/spec/replicas","value":3},{"op":"test","path":"/metadata/labels/a~1b","value":"c"}]"#,
    r#"[{"op":"remove","path":"/spec/list/0"},{"op":"replace","path":"/spec/list/-","value":{"a":[]}}]"#,
    r#"[{"op":"move","from":"/spec/map","path":"/spec/other"},{"op":"copy","from":"/spec","path":"/spec/list/1"}]"#,
    r#"[{"op":"copy","from":"","path":"/spec/a"},{"op":"copy","from":"","path":"/spec/b"}]"#,
];

/// Merge patches, including strategic ones.
pub(super) const MERGE_PATCHES: &[&str] = &[
    r#"{"metadata":{"labels":{"a":null,"b":"c"}},"spec":{"replicas":2}}"#,
    r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"x"},{"$patch":"delete","name":"d"}],"$setElementOrder/containers":[{"name":"c"}]}}}}"#,
    r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}},"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}"#,
    r#"{"spec":{"$patch":"replace","list":[{"$patch":"replace"},{"port":80}]}}"#,
];

/// Applied configurations.
pub(super) const APPLIED: &[&str] = &[
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"}},"data":{"k":"v"}}"#,
    "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\nspec:\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - name: c\n        image: i\n        ports:\n        - {containerPort: 80}\n",
    r#"{"apiVersion":"demo.example/v1","kind":"MyApp","metadata":{"name":"x","managedFields":null},"spec":{"list":[{"name":"a","n":1}],"set":["x","y"]}}"#,
];

/// Values of `metadata.managedFields`.
pub(super) const MANAGED: &[&str] = &[
    r#"[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}}}}]"#,
    r#"[{"manager":"m","operation":"Update","apiVersion":"apps/v1","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}},"f:set":{"v:\"x\"":{},"i:0":{}}}}}]"#,
];

/// Expressions of `x-kubernetes-validations`.
pub(super) const EXPRESSIONS: &[&str] = &[
    "self.replicas >= 0 && self.replicas <= 10",
    "self.list.all(x, x.n > 0) || has(self.other)",
    "self.name.matches('^[a-z]+$') ? size(self.name) < 5 : true",
    "self.list.map(x, x.n).sum() == 3 && 'a' in self.map",
    "duration('1h') > duration('30m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && ip('10.0.0.1').family() == 4",
    "dyn(self) == {'a': [1, 2.5, 3u, b'x', null]} && string(1) + 'b' == '1b'",
];

/// YAML documents.
pub(super) const DOCUMENTS: &[&str] = &[
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {a: \"b\"}}\ndata:\n  k: |\n    text\n    more\n  f: >-\n    folded\n",
    "a: &x [1, 2.5, true, no, ~, 0x1F, 1e3]\nb: *x\nc: !!str 5\n? complex\n: value\n",
    "---\n- - - deep\n- {a: b, c: [d, e]}\n# comment\n- 'it''s'\n- \"\\u00e9\\n\"\n",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
];

/// JSON texts.
pub(super) const TEXTS: &[&str] = &[
    r#"{"a":1,"a":2,"b":[{"c":-1.5e10},null,true],"d":"\u00e9\n\ud83d\ude00"}"#,
    r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"100m"}}}]}}"#,
    "[18446744073709551616, -9223372036854775809, 1e400, 0.1]",
];

/// Whole requests: the first line, headers, an empty line, the body.
pub(super) const REQUESTS: &[&str] = &[
    "POST /api/v1/namespaces/default/configmaps?fieldValidation=Strict\ncontent-type: application/json\n\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"x-\"},\"data\":{\"a\":\"1\"}}",
    "POST /api/v1/namespaces/default/pods\n\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"finalizers\":[\"a/b\"]},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"ports\":[{\"containerPort\":80}],\"resources\":{\"limits\":{\"cpu\":\"1.5\",\"memory\":\"1Gi\"}}}]}}",
    "PUT /apis/apps/v1/namespaces/default/deployments/d\n\n{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\",\"resourceVersion\":\"7\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
    "PATCH /apis/demo.example/v1/namespaces/default/myapps/x\ncontent-type: application/merge-patch+json\n\n{\"spec\":{\"replicas\":2,\"list\":[{\"name\":\"a\",\"n\":1}]}}",
    "PATCH /api/v1/namespaces/default/configmaps/m?fieldManager=f&force=true\ncontent-type: application/apply-patch+yaml\n\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: v}\n",
    "PATCH /apis/demo.example/v1/namespaces/default/myapps/x/scale\ncontent-type: application/json-patch+json\n\n[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}]",
    "GET /apis/demo.example/v1/namespaces/default/myapps?limit=1&labelSelector=a%20in%20(b)\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\n\n",
    "GET /api/v1/configmaps?watch=1&resourceVersion=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\n\n",
    "DELETE /api/v1/namespaces/default/configmaps/m\n\n{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"x\"},\"gracePeriodSeconds\":0}",
    "DELETE /api/v1/namespaces/default/configmaps?labelSelector=a\n\n",
    "GET /apis\naccept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n\n",
    "GET /openapi/v3/apis/demo.example/v1\n\n",
    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews\n\n{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\",\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\"}}}",
];

/// A definition with all kinds of schemas.
pub(super) const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"myapps.demo.example"},"spec":{"group":"demo.example","scope":"Namespaced","names":{"plural":"myapps","kind":"MyApp","shortNames":["ma"],"categories":["all"]},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},"additionalPrinterColumns":[{"name":"R","type":"integer","jsonPath":".spec.replicas"}],"selectableFields":[{"jsonPath":".spec.color"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"replicas":{"type":"integer","minimum":0,"default":1},"color":{"type":"string","enum":["red","blue"],"pattern":"^[a-z]+$","maxLength":9},"port":{"x-kubernetes-int-or-string":true},"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"n":{"type":"integer","format":"int32"}}}},"set":{"type":"array","x-kubernetes-list-type":"set","maxItems":5,"items":{"type":"string"}},"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"obj":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},"map":{"type":"object","additionalProperties":{"type":"string","nullable":true}}},"x-kubernetes-validations":[{"rule":"self.replicas < 100","message":"too many"}]},"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}"#;
