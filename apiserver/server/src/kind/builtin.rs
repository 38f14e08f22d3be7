//! The table of built-in kinds.
//!
//! Names, scope, short names, categories and subresources are those of Kubernetes 1.36. Contains no schemas (see FIDELITY.md), and is
//! independent of what the kinds mean.

use super::{Kind, Kinds, Scale, Shape, Traits};

/// One line per kind: `group/version plural Kind scope flags short,names categories`, `-` where empty.
///
/// Scope: `n` namespaced, `c` cluster. Flags: `s` status subresource, `g` generation, `d` deletion returns the object,
/// `u` update without a resource version, `c` update creates, `x` scale subresource, `r` review (create only), `e` stored as
/// core Events, `v` stored as the kind of `v2`.
const TABLE: &str = "
v1 bindings Binding n r - -
v1 componentstatuses ComponentStatus c - cs -
v1 configmaps ConfigMap n u cm -
v1 endpoints Endpoints n uc ep -
v1 events Event n uc ev -
v1 limitranges LimitRange n uc limits -
v1 namespaces Namespace c su ns -
v1 nodes Node c su no -
v1 persistentvolumeclaims PersistentVolumeClaim n sdu pvc -
v1 persistentvolumes PersistentVolume c sdu pv -
v1 pods Pod n sgdu po all
v1 podtemplates PodTemplate n gdu - -
v1 replicationcontrollers ReplicationController n sgux rc all
v1 resourcequotas ResourceQuota n sdu quota -
v1 secrets Secret n u - -
v1 serviceaccounts ServiceAccount n du sa -
v1 services Service n sduc svc all
apiregistration.k8s.io/v1 apiservices APIService c s - api-extensions
apps/v1 controllerrevisions ControllerRevision n u - -
apps/v1 daemonsets DaemonSet n sgu ds all
apps/v1 deployments Deployment n sgux deploy all
apps/v1 replicasets ReplicaSet n sgux rs all
apps/v1 statefulsets StatefulSet n sgux sts all
events.k8s.io/v1 events Event n uce ev -
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview c r - -
authentication.k8s.io/v1 tokenreviews TokenReview c r - -
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview n r - -
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview c r - -
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview c r - -
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview c r - -
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler n su hpa all
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler n suv hpa all
batch/v1 cronjobs CronJob n sgu cj all
batch/v1 jobs Job n sgu - all
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest c s csr -
networking.k8s.io/v1 ingressclasses IngressClass c gu - -
networking.k8s.io/v1 ingresses Ingress n sgu ing -
networking.k8s.io/v1 ipaddresses IPAddress c - ip -
networking.k8s.io/v1 networkpolicies NetworkPolicy n gu netpol -
networking.k8s.io/v1 servicecidrs ServiceCIDR c s - -
policy/v1 poddisruptionbudgets PodDisruptionBudget n sg pdb -
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding c uc - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole c uc - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding n uc - -
rbac.authorization.k8s.io/v1 roles Role n uc - -
storage.k8s.io/v1 csidrivers CSIDriver c d - -
storage.k8s.io/v1 csinodes CSINode c d - -
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity n - - -
storage.k8s.io/v1 storageclasses StorageClass c du sc -
storage.k8s.io/v1 volumeattachments VolumeAttachment c sd - -
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass c d vac -
admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy c g - api-extensions
admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding c g - api-extensions
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration c g - api-extensions
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy c sg - api-extensions
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding c g - api-extensions
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration c g - api-extensions
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition c sg crd,crds api-extensions
scheduling.k8s.io/v1 priorityclasses PriorityClass c gu pc -
coordination.k8s.io/v1 leases Lease n c - -
node.k8s.io/v1 runtimeclasses RuntimeClass c c - -
discovery.k8s.io/v1 endpointslices EndpointSlice n g - -
resource.k8s.io/v1 deviceclasses DeviceClass c gdu - -
resource.k8s.io/v1 resourceclaims ResourceClaim n sdu - -
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate n du - -
resource.k8s.io/v1 resourceslices ResourceSlice c gdu - -
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema c sgu - -
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration c sgu - -
";

/// Serves all kinds of the table.
pub(crate) fn add_all(kinds: &mut Kinds) {
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        let kind = parse(line, kinds);
        kinds.add(kind);
    }
}

fn parse(line: &str, kinds: &mut Kinds) -> Kind {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or("-");
    let (group_version, plural, kind, scope) = (next(), next(), next(), next());
    let (flags, short_names, categories) = (next(), next(), next());
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let has = |flag: char| flags.contains(flag);
    // A kind with its own shape shares the collection of the stored kind.
    let (shape, stored) = match flags {
        _ if has('e') => (Shape::NewEvent, ("", "v1")),
        _ if has('v') => (Shape::FirstAutoscaler, (group, "v2")),
        _ => (Shape::Stored, (group, version)),
    };
    let shared = kinds
        .kind(stored.0, stored.1, plural)
        .map(|kind| kind.collection);
    let collection = shared.unwrap_or_else(|| kinds.new_collection());
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: words_of(short_names),
        categories: words_of(categories),
        namespaced: scope == "n",
        traits: Traits {
            status: has('s'),
            generation: has('g'),
            returns_deleted: has('d'),
            unconditional: has('u'),
            create_on_update: has('c'),
            review: has('r'),
            builtin: true,
            terminating: false,
        },
        scale: has('x').then(|| Scale {
            spec: ".spec.replicas".to_owned(),
            status: ".status.replicas".to_owned(),
            selector: Some(".status.selector".to_owned()),
        }),
        deprecation: match plural {
            "componentstatuses" => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
            "endpoints" => Some(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                    .to_owned(),
            ),
            _ => None,
        },
        shape,
        collection,
        stored_version: stored.1.to_owned(),
        ..Kind::anonymous()
    }
}

fn words_of(text: &str) -> Vec<String> {
    if text == "-" {
        return Vec::new();
    }
    text.split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_whole() {
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            assert_eq!(line.split(' ').count(), 7, "{line}");
        }
        let mut kinds = Kinds::default();
        add_all(&mut kinds);
        let pods = kinds.kind("", "v1", "pods").unwrap();
        assert!(pods.namespaced && pods.traits.status);
        assert_eq!(pods.short_names, ["po"]);
        let events = kinds.kind("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(
            events.collection,
            kinds.kind("", "v1", "events").unwrap().collection
        );
    }
}
