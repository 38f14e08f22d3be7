// The JavaScript client as programs use it: typed and untyped objects, patches, a watch, an informer, refusals.
// What it sees it prints; the server is that of $KUBECONFIG.
import * as k8s from '@kubernetes/client-node';

const namespace = 'javascript';
const group = 'javascript.example.com';
const config = new k8s.KubeConfig();
config.loadFromFile(process.env.KUBECONFIG);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);

const say = (title, ...values) => console.log(`${title}:`, ...values.map((value) => JSON.stringify(value)));
const pause = () => new Promise((wake) => setTimeout(wake, 50));

async function refused(title, call) {
  try {
    await call();
    say(title, 'was not refused');
  } catch (error) {
    const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    say(title, error.code, status.reason, status.message);
  }
}

async function eventually(condition) {
  for (let round = 0; round < 600; round += 1) {
    if (await condition().catch(() => false)) return true;
    await pause();
  }
  return false;
}

async function objects() {
  const made = await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'one', labels: { app: 'x' } }, data: { a: '1' } } });
  say('made', made.data, made.metadata.labels, made.metadata.creationTimestamp instanceof Date);
  made.data.b = '2';
  const replaced = await core.replaceNamespacedConfigMap({ namespace, name: 'one', body: made });
  say('replaced', replaced.data);
  await refused('outdated', () => core.replaceNamespacedConfigMap({ namespace, name: 'one', body: made }));
  await refused('absent', () => core.readNamespacedConfigMap({ namespace, name: 'none' }));
  await refused('invalid', () => core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'Bad_Name' } } }));
  for (const [strategy, body] of [
    [k8s.PatchStrategy.MergePatch, { data: { m: '1', a: null } }],
    [k8s.PatchStrategy.StrategicMergePatch, { data: { s: '1' } }],
    [k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/j', value: '1' }]],
    [k8s.PatchStrategy.ServerSideApply, { apiVersion: 'v1', kind: 'ConfigMap', data: { y: '1' } }],
  ]) {
    const patched = await core.patchNamespacedConfigMap(
      { namespace, name: 'one', body, fieldManager: 'javascript' },
      k8s.setHeaderOptions('Content-Type', strategy),
    );
    say('patched', strategy, patched.data);
  }
  const deployment = await apps.createNamespacedDeployment({
    namespace,
    body: {
      metadata: { name: 'web' },
      spec: { selector: { matchLabels: { app: 'x' } }, template: { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'main', image: 'nginx:1' }] } } },
    },
  });
  say('deployment', deployment.spec.replicas, deployment.spec.strategy.type);
  const scale = await apps.readNamespacedDeploymentScale({ namespace, name: 'web' });
  scale.spec.replicas = 3;
  const scaled = await apps.replaceNamespacedDeploymentScale({ namespace, name: 'web', body: scale });
  say('scaled', scaled.spec.replicas);
  const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=x' });
  say('listed', list.items.map((item) => item.metadata.name));
}

async function customs() {
  const name = `toys.${group}`;
  await extensions.createCustomResourceDefinition({
    body: {
      metadata: { name },
      spec: {
        group, scope: 'Namespaced', names: { plural: 'toys', singular: 'toy', kind: 'Toy' },
        versions: [{
          name: 'v1', served: true, storage: true, subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { size: { type: 'integer', maximum: 5 } } }, status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } } } },
        }],
      },
    },
  });
  const where = { group, version: 'v1', namespace, plural: 'toys' };
  const toy = (toyName, size) => ({ apiVersion: `${group}/v1`, kind: 'Toy', metadata: { name: toyName, namespace }, spec: { size } });
  say('served', await eventually(async () => (await custom.listNamespacedCustomObject(where)).items !== undefined));
  const made = await custom.createNamespacedCustomObject({ ...where, body: toy('bear', 1) });
  say('made', made.spec, made.metadata.generation);
  await refused('too large', () => custom.createNamespacedCustomObject({ ...where, body: toy('large', 9) }));
  const untyped = k8s.KubernetesObjectApi.makeApiClient(config);
  const created = await untyped.create(toy('car', 2));
  say('created', created.spec);
  const patched = await untyped.patch(toy('car', 3), undefined, undefined, 'javascript', undefined, k8s.PatchStrategy.MergePatch);
  say('patched', patched.spec);
  const listed = await untyped.list(`${group}/v1`, 'Toy', namespace);
  say('listed', listed.items.map((item) => item.metadata.name));
  await custom.deleteNamespacedCustomObject({ ...where, name: 'bear' });
  await untyped.delete(toy('car', 3));
  await extensions.deleteCustomResourceDefinition({ name });
}

async function watches() {
  const seen = [];
  const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace, labelSelector: 'informed' }), 'informed');
  for (const verb of ['add', 'update', 'delete']) {
    informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name} ${JSON.stringify(object.data ?? null)}`));
  }
  const body = (data) => ({ metadata: { name: 'seen', labels: { informed: 'yes' } }, data });
  await core.createNamespacedConfigMap({ namespace, body: body({ a: '1' }) });
  await informer.start();
  say('informed', await eventually(async () => seen.length === 1));
  await core.replaceNamespacedConfigMap({ namespace, name: 'seen', body: body({ a: '2' }) });
  say('informed', await eventually(async () => seen.length === 2));
  await core.deleteNamespacedConfigMap({ namespace, name: 'seen' });
  say('informed', await eventually(async () => seen.length === 3));
  await informer.stop();
  say('seen', seen);
}

await core.createNamespace({ body: { metadata: { name: namespace } } });
const version = await config.makeApiClient(k8s.VersionApi).getCode();
say('version', version.minor);
await objects();
await customs();
await watches();
await core.deleteNamespace({ name: namespace });
process.exit(0);
