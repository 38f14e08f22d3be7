// The fabric8 client as programs use it: typed objects, all patches, untyped ones of a custom kind, an informer, a watch, waiting,
// refusals. What it sees it prints; the server is that of $KUBECONFIG.
import io.fabric8.kubernetes.api.model.*;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.*;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.fabric8.kubernetes.client.utils.Serialization;
import java.io.File;
import java.util.*;
import java.util.concurrent.*;

public class Main {
  static final String NAMESPACE = "java", GROUP = "java.example.com";
  static final String DEFINITION = """
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: toys.java.example.com}
      spec:
        group: java.example.com
        scope: Namespaced
        names: {plural: toys, singular: toy, kind: Toy}
        versions:
        - name: v1
          served: true
          storage: true
          subresources: {status: {}}
          schema: {openAPIV3Schema: {type: object, properties: {
            spec: {type: object, properties: {size: {type: integer, maximum: 5}}},
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
      """;

  static void say(String title, Object... values) {
    StringBuilder line = new StringBuilder(title).append(":");
    for (Object value : values) {
      line.append(" ").append(value instanceof Map<?, ?> map ? new TreeMap<Object, Object>(map) : value);
    }
    System.out.println(line);
  }

  static void refused(String title, Callable<?> call) throws Exception {
    try {
      call.call();
      say(title, "was not refused");
    } catch (KubernetesClientException error) {
      Status status = error.getStatus();
      say(title, error.getCode(), status.getReason(), status.getMessage());
    }
  }

  static Deployment deployment(String name) {
    return new DeploymentBuilder().withNewMetadata().withName(name).withNamespace(NAMESPACE).endMetadata().withNewSpec()
        .withNewSelector().addToMatchLabels("app", name).endSelector().withNewTemplate().withNewMetadata()
        .addToLabels("app", name).endMetadata().withNewSpec().addNewContainer().withName("main").withImage("nginx:1")
        .endContainer().endSpec().endTemplate().endSpec().build();
  }

  static void objects(KubernetesClient client) throws Exception {
    ConfigMap one = new ConfigMapBuilder().withNewMetadata().withName("one").addToLabels("app", "x").endMetadata()
        .addToData("a", "1").build();
    var maps = client.configMaps().inNamespace(NAMESPACE);
    ConfigMap made = maps.resource(one).create();
    say("made", made.getData(), made.getMetadata().getLabels());
    refused("again", () -> maps.resource(one).create());
    refused("invalid", () -> maps.resource(new ConfigMapBuilder(one).editMetadata().withName("Bad_Name").endMetadata().build()).create());
    say("edited", maps.withName("one").edit(it -> new ConfigMapBuilder(it).addToData("b", "2").build()).getData());
    refused("stale", () -> maps.resource(new ConfigMapBuilder(made).addToData("c", "3").build()).lockResourceVersion().update());
    for (PatchType type : PatchType.values()) {
      String text = switch (type) {
        case JSON -> "[{\"op\": \"add\", \"path\": \"/data/j\", \"value\": \"1\"}]";
        case SERVER_SIDE_APPLY -> "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"one\"}, \"data\": {\"y\": \"1\"}}";
        default -> "{\"data\": {\"" + type.name().toLowerCase() + "\": \"1\"}}";
      };
      say("patched", type, maps.withName("one").patch(PatchContext.of(type), text).getData());
    }
    say("applied", maps.resource(one).forceConflicts().serverSideApply().getData());
    say("absent", maps.withName("none").get());
    Deployment web = client.resource(deployment("web")).create();
    say("deployment", web.getSpec().getReplicas(), web.getSpec().getStrategy().getType());
    say("scaled", client.apps().deployments().inNamespace(NAMESPACE).withName("web").scale(3, false) != null);
    say("scale", client.apps().deployments().inNamespace(NAMESPACE).withName("web").scale().getSpec().getReplicas());
    say("chosen", maps.withLabelIn("app", "x", "y").withField("metadata.name", "one").list().getItems().size());
    say("paged", maps.list(new ListOptionsBuilder().withLimit(1L).build()).getItems().size());
    say("loaded", client.load(new java.io.ByteArrayInputStream(Serialization.asYaml(deployment("two")).getBytes())).serverSideApply().size());
    say("deleted", maps.withName("one").withPropagationPolicy(DeletionPropagation.BACKGROUND).delete().size());
  }

  static GenericKubernetesResource toy(String name, int size) {
    return new GenericKubernetesResourceBuilder().withApiVersion(GROUP + "/v1").withKind("Toy").withNewMetadata().withName(name)
        .withNamespace(NAMESPACE).endMetadata().addToAdditionalProperties("spec", Map.of("size", size)).build();
  }

  static void customs(KubernetesClient client) throws Exception {
    client.resource(Serialization.unmarshal(DEFINITION, CustomResourceDefinition.class)).create();
    client.apiextensions().v1().customResourceDefinitions().withName("toys." + GROUP).waitUntilCondition(
        it -> it != null && it.getStatus() != null && it.getStatus().getConditions().stream().anyMatch(c -> c.getType().equals("Established") && c.getStatus().equals("True")), 30, TimeUnit.SECONDS);
    var context = new ResourceDefinitionContext.Builder().withGroup(GROUP).withVersion("v1").withKind("Toy").withPlural("toys").withNamespaced(true).build();
    var toys = client.genericKubernetesResources(context).inNamespace(NAMESPACE);
    for (int round = 0; ; round++) {
      try {
        toys.list();
        break;
      } catch (KubernetesClientException error) {
        if (round > 100) throw error;
        Thread.sleep(100);
      }
    }
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    SharedIndexInformer<GenericKubernetesResource> informer = toys.inform(new ResourceEventHandler<>() {
      public void onAdd(GenericKubernetesResource it) { seen.add("add " + it.getMetadata().getName() + " " + it.get("spec", "size")); }
      public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource it) { seen.add("update " + it.getMetadata().getName() + " " + it.get("spec", "size") + " " + it.get("status", "phase")); }
      public void onDelete(GenericKubernetesResource it, boolean unknown) { seen.add("delete " + it.getMetadata().getName()); }
    });
    say("made", toys.resource(toy("bear", 1)).create().getMetadata().getGeneration());
    refused("too large", () -> toys.resource(toy("large", 9)).create());
    say("informed", seen.poll(30, TimeUnit.SECONDS));
    GenericKubernetesResource edited = toys.withName("bear").edit(it -> { it.setAdditionalProperty("spec", Map.of("size", 2)); return it; });
    say("edited", (Object) edited.get("spec", "size"), edited.getMetadata().getGeneration());
    say("informed", seen.poll(30, TimeUnit.SECONDS));
    toys.withName("bear").editStatus(it -> { it.setAdditionalProperty("status", Map.of("phase", "Ready")); return it; });
    say("informed", seen.poll(30, TimeUnit.SECONDS));
    var ready = toys.withName("bear").waitUntilCondition(it -> "Ready".equals(it.get("status", "phase")), 30, TimeUnit.SECONDS);
    say("ready", (Object) ready.get("status", "phase"));
    say("cached", informer.getStore().list().size(), informer.hasSynced());
    toys.withName("bear").delete();
    say("informed", seen.poll(30, TimeUnit.SECONDS));
    informer.stop();
    client.apiextensions().v1().customResourceDefinitions().withName("toys." + GROUP).delete();
  }

  public static void main(String[] args) throws Exception {
    var config = io.fabric8.kubernetes.client.Config.fromKubeconfig(new File(System.getenv("KUBECONFIG")));
    try (KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build()) {
      client.resource(new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build()).create();
      say("version", client.getKubernetesVersion().getMinor());
      say("serves", client.supports(Deployment.class), client.hasApiGroup("apps", true), client.supports("example.com/v1", "Nothing"));
      objects(client);
      customs(client);
      client.namespaces().withName(NAMESPACE).delete();
    }
    System.exit(0);
  }
}
